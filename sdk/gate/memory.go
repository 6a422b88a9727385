package gate

import (
	"context"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
)

// memory is what this gate knows of resources. Losing an entry costs one
// Inspect on the next use; a resource that was paused is never lost.
type memory struct {
	limit  int
	mu     sync.Mutex
	young  map[sdk.ResourceID]*resource
	old    map[sdk.ResourceID]*resource
	pinned map[sdk.ResourceID]*resource // those that were ever paused
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, young: map[sdk.ResourceID]*resource{}, pinned: map[sdk.ResourceID]*resource{}}
}

func (m *memory) of(r sdk.ResourceID) *resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.pinned[r]; ok {
		return e
	}
	if e, ok := m.young[r]; ok {
		return e
	}
	e, ok := m.old[r]
	if !ok {
		e = &resource{id: r}
	}
	if len(m.young) >= m.limit {
		m.old, m.young = m.young, make(map[sdk.ResourceID]*resource)
	}
	m.young[r] = e
	return e
}

// pin keeps e for good, or tells which other one was kept before: a call may
// outlive its resource's place in the memory.
func (m *memory) pin(e *resource) *resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kept, ok := m.pinned[e.id]; ok {
		return kept
	}
	m.pinned[e.id] = e
	return e
}

// resource is the highest state that this gate has seen of one resource, in
// the store's answers.
type resource struct {
	id sdk.ResourceID

	mu     sync.Mutex
	known  bool           // the first look was taken and need not be again
	paused bool           // FENCE_REGRESSION was seen
	floor  sdk.Token      // after a pause: only tokens above it pass this gate
	seen   sdk.FenceState // the highest seen
	seed   sdk.FenceState // what shadow mode had seen, while the store has no state
}

func (e *resource) snapshot() (seen, seed sdk.FenceState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen, e.seed
}

// below reports whether a is an earlier state than b.
func below(a, b sdk.FenceState) bool {
	return a.Highest < b.Highest || a.Highest == b.Highest && a.Segment < b.Segment
}

// saw takes an answer of the store into account and reports whether it is less
// than what had been seen before it was asked for.
func (e *resource) saw(state, before sdk.FenceState) (regressed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	gen := e.seen.Generations.Max(state.Generations)
	if below(e.seen, state) {
		e.seen = state
	}
	e.seen.Generations = gen
	return below(state, before)
}

func regression(observed sdk.FenceState, format string, args ...any) error {
	e := sdk.Errorf(sdk.FenceRegression, "fence", format, args...)
	e.Alarm, e.Observed = true, observed
	return e
}

// pause stops the resource in this gate: from now on only a token above every
// one that was stored or seen passes.
func (g *Gate) pause(e *resource, stored sdk.FenceState) {
	floor := e.pause(stored)
	if kept := g.memory.pin(e); kept != e {
		kept.pause(sdk.FenceState{Highest: floor})
	}
}

func (e *resource) pause(stored sdk.FenceState) (floor sdk.Token) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paused = true
	e.floor = max(e.floor, e.seen.Highest, stored.Highest)
	return e.floor
}

// look takes the gate's first look at a resource, or its next one while the
// resource is paused: the store's state, then (in this order) the highest
// issued token. The grant is authentic, so its token was issued.
func (g *Gate) look(ctx context.Context, e *resource, fence sdk.Token) error {
	e.mu.Lock()
	known, paused, floor, before := e.known, e.paused, e.floor, e.seen
	e.mu.Unlock()
	if floor > 0 && fence <= floor {
		return regression(before, "paused: only a token above %s passes; stop writers, raise the registry's floor above every stored fence, then acquire anew", floor)
	}
	if known && !paused {
		return nil
	}
	state, err := g.store.Inspect(ctx, e.id)
	if err != nil {
		if sdk.CodeOf(err) == sdk.FenceRegression {
			g.pause(e, sdk.FenceState{})
			return err
		}
		return notSent(err, "the store's fence state could not be read before the first write")
	}
	if !paused && e.saw(state, before) {
		g.pause(e, state)
		return wentBack(state, before)
	}
	if g.opts.Registry != nil {
		highest, err := g.opts.Registry.Highest(ctx, e.id)
		if err != nil {
			return notSent(err, "the registry could not be asked for the highest issued token")
		}
		if highest < state.Highest {
			g.pause(e, state)
			return regression(state, "the store's fence is at %s and the registry has issued no token above %s: the registry went back, or a foreign token was accepted", state.Highest, highest)
		}
	}
	if paused && fence <= state.Highest {
		g.pause(e, state)
		return regression(state, "paused: only a token above %s passes; raise the registry's floor above every stored fence, then acquire anew", state.Highest)
	}
	return g.welcome(ctx, e, state)
}

// welcome finishes a look that found nothing wrong, or that ends a pause.
func (g *Gate) welcome(ctx context.Context, e *resource, state sdk.FenceState) error {
	var seed sdk.FenceState
	if g.opts.Shadow != nil && state.Absent() {
		var err error
		if seed, err = g.opts.Shadow.Inspect(ctx, e.id); err != nil {
			return notSent(err, "the shadow's fence state, from which an enforced resource starts, could not be read")
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// While shadow mode may still move the seed, every call looks again.
	e.known = g.opts.Shadow == nil || !state.Absent()
	e.seed = seed
	if e.paused {
		e.paused, e.seen = false, state
	}
	return nil
}

func wentBack(state, before sdk.FenceState) error {
	return regression(state, "the store is at fence %s, segment %s; this gate had seen %s, segment %s: the store went back",
		state.Highest, state.Segment, before.Highest, before.Segment)
}

// notSent says that nothing of a write was sent because a read before it
// failed.
func notSent(err error, what string) error {
	switch sdk.CodeOf(err) {
	case sdk.Closed, sdk.Unsuitable, sdk.FenceRegression, sdk.Invalid:
		return err
	}
	return sdk.Errorf(sdk.NotApplied, "", "%s; nothing was sent: %w", what, err)
}
