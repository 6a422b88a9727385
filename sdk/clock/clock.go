// Package clock is time as leases see it: a clock that runs by itself, and one
// that a test moves.
package clock

import (
	"slices"
	"sync"
	"time"
)

// Clock tells the time and wakes. It is safe for concurrent use.
type Clock interface {
	// Now is the time; two readings of the system's clock compare by their
	// monotonic part.
	Now() time.Time
	// Timer sends the time on its channel once d has passed; at once if d is not
	// positive. Stop it when it is of no more use.
	Timer(d time.Duration) *Timer
}

// Timer is one wake-up.
type Timer struct {
	C    <-chan time.Time
	stop func()
}

// Stop ends the timer. It may be called more than once.
func (t *Timer) Stop() { t.stop() }

// System is the machine's clock.
func System() Clock { return system{} }

// Or returns c, or the system's clock for nil.
func Or(c Clock) Clock {
	if c == nil {
		return System()
	}
	return c
}

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) Timer(d time.Duration) *Timer {
	t := time.NewTimer(d)
	return &Timer{t.C, func() { t.Stop() }}
}

// Manual stands still until it is moved.
type Manual struct {
	mu     sync.Mutex
	now    time.Time
	timers []*manualTimer
	armed  chan struct{} // closed and replaced when a timer is set
}

type manualTimer struct {
	at time.Time
	c  chan time.Time
}

// NewManual returns a clock that stands at now.
func NewManual(now time.Time) *Manual { return &Manual{now: now, armed: make(chan struct{})} }

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Timer implements Clock.
func (m *Manual) Timer(d time.Duration) *Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &manualTimer{m.now.Add(d), make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- m.now
		return &Timer{t.c, func() {}}
	}
	m.timers = append(m.timers, t)
	close(m.armed)
	m.armed = make(chan struct{})
	return &Timer{t.c, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if i := slices.Index(m.timers, t); i >= 0 {
			m.timers = slices.Delete(m.timers, i, i+1)
		}
	}}
}

// Advance moves the clock by d, backwards if d is negative, and fires the timers
// that are due, the earliest first.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	slices.SortStableFunc(m.timers, func(a, b *manualTimer) int { return a.at.Compare(b.at) })
	n := 0
	for n < len(m.timers) && !m.timers[n].at.After(m.now) {
		m.timers[n].c <- m.now
		n++
	}
	m.timers = slices.Delete(m.timers, 0, n)
}

// Armed returns the number of timers that are set, and a channel that is closed
// when the next one is: how a test knows that somebody waits.
func (m *Manual) Armed() (int, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.timers), m.armed
}

// Await returns once n timers or more are set.
func (m *Manual) Await(n int) {
	for {
		armed, next := m.Armed()
		if armed >= n {
			return
		}
		<-next
	}
}
