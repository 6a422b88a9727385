package clock

import (
	"testing"
	"time"
)

func TestManual(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := NewManual(start)
	late, early, stopped, now := m.Timer(2*time.Second), m.Timer(time.Second), m.Timer(time.Second), m.Timer(0)
	if got := <-now.C; !got.Equal(start) {
		t.Errorf("a timer of 0 fired at %v", got)
	}
	m.Await(3)
	stopped.Stop()
	stopped.Stop()
	m.Advance(time.Second)
	if got := <-early.C; !got.Equal(start.Add(time.Second)) {
		t.Errorf("fired at %v", got)
	}
	select {
	case <-late.C:
		t.Error("a timer fired before its time")
	case <-stopped.C:
		t.Error("a stopped timer fired")
	default:
	}
	m.Advance(-time.Minute)
	if n, _ := m.Armed(); n != 1 || !m.Now().Equal(start.Add(-59*time.Second)) {
		t.Errorf("%d timers at %v", n, m.Now())
	}
	m.Advance(time.Hour)
	<-late.C
}

func TestSystem(t *testing.T) {
	c := Or(nil)
	before := c.Now()
	timer := c.Timer(time.Millisecond)
	<-timer.C
	timer.Stop()
	if c.Now().Sub(before) < time.Millisecond {
		t.Error("the timer was early")
	}
}
