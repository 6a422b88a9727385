package gate

import (
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

// A call that outlives its resource's place in the memory pauses it as well, and
// never lowers the floor that another call has set meanwhile.
func TestPauseAfterEviction(t *testing.T) {
	g := &Gate{memory: newMemory(1)}
	first := g.memory.of("a")
	g.memory.of("b")
	g.memory.of("c")
	second := g.memory.of("a")
	if first == second {
		t.Fatal("it was not evicted")
	}
	g.pause(second, sdk.FenceState{Highest: 9})
	g.pause(first, sdk.FenceState{Highest: 5})
	if e := g.memory.of("a"); !e.paused || e.floor != 9 {
		t.Errorf("paused %v, floor %v; want 9", e.paused, e.floor)
	}
	g.pause(first, sdk.FenceState{Highest: 12})
	if e := g.memory.of("a"); e.floor != 12 {
		t.Errorf("floor %v; want 12", e.floor)
	}
}
