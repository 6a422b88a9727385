package gate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// wantRegression applies and wants an alarm, which leaves nothing behind.
func wantRegression(t *testing.T, w *world, g *gate.Gate, req gate.Request) {
	t.Helper()
	before := w.value(t)
	out, err := g.ApplyFencedMutation(t.Context(), req)
	if !errors.Is(err, sdk.ErrFenceRegression) || out.Code.Ok() {
		t.Fatalf("got %v, %v; want FENCE_REGRESSION", out.Code, err)
	}
	if got := w.value(t); got != before {
		t.Fatalf("the value changed from %q to %q", before, got)
	}
}

// registry stands in for one whose sequence went back.
type registry struct{ highest sdk.Token }

func (r *registry) Highest(context.Context, sdk.ResourceID) (sdk.Token, error) { return r.highest, nil }
func (r *registry) Status(context.Context, *grant.Grant, sdk.Digest) (gate.Standing, error) {
	return gate.Standing{}, errors.New("not asked")
}

// C29: the coordinator was restored and its sequence is below the stored fence.
// The resource stands until a token above every stored one is issued.
func TestRegistryWentBack(t *testing.T) {
	w := newWorld(t)
	high, err := w.Issue(resource, "a", "job", 1000000)
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, w.gate(t, "a", nil), high.Request(1, "op-1", put("high")), sdk.Accepted)

	reg := &registry{highest: 999500}
	g := w.gate(t, "b", &gate.Options{Registry: reg})
	low, _ := w.Issue(resource, "b", "job", 999500)
	wantRegression(t, w, g, low.Request(1, "op-2", put("low")))
	wantRegression(t, w, g, low.Request(1, "op-2", put("low")))

	reg.highest = 1000001
	wantRegression(t, w, g, low.Request(1, "op-2", put("low")))
	next, _ := w.Issue(resource, "b", "job", 1000001)
	mustApply(t, g, next.Request(1, "op-2", put("next")), sdk.Accepted)
	mustApply(t, g, next.Request(2, "op-3", put("next")), sdk.Accepted)
}

func TestHealthyRegistryRaisesNoAlarm(t *testing.T) {
	w := newWorld(t)
	for i, owner := range []string{"a", "b", "a"} {
		g := w.gate(t, owner, &gate.Options{Registry: w.Authority})
		mustApply(t, g, w.acquire(t, owner).Request(1, sdk.OperationID(rune('p'+i)), put(owner)), sdk.Accepted)
	}
}

// The store was restored from a backup under a running gate: an owner whose
// token was already surpassed must not pass again.
func TestStoreWentBack(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", nil)
	a1 := w.acquire(t, "a")
	mustApply(t, g, a1.Request(1, "op-1", put("one")), sdk.Accepted)
	a2 := w.acquire(t, "a")
	mustApply(t, g, a2.Request(1, "op-2", put("two")), sdk.Accepted)

	old := newCounting(t) // the backup, from before op-2
	w.store.FencedStore = old.FencedStore
	mustApply(t, w.gate(t, "a", nil), a1.Request(1, "op-1", put("one")), sdk.Accepted)

	// The first answer shows it; it was the regressed store that gave it.
	g.ApplyFencedMutation(t.Context(), a1.Request(2, "op-3", put("stale")))
	after := w.value(t)
	wantRegression(t, w, g, a1.Request(3, "op-4", put("stale")))
	wantRegression(t, w, g, a2.Request(1, "op-2", put("two")))
	if got := w.value(t); got != after {
		t.Errorf("value %q", got)
	}
	a3 := w.acquire(t, "a")
	mustApply(t, g, a3.Request(1, "op-5", put("three")), sdk.Accepted)
	wantRegression(t, w, g, a2.Request(2, "op-6", put("stale")))
}

// A read that began before an accepted write may return less; that is no alarm.
func TestConcurrentAnswersAreNoRegression(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", nil)
	l := w.acquire(t, "a")
	mustApply(t, g, l.Request(1, "op-1", put("1")), sdk.Accepted)
	inside := false
	w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
		out, err := w.store.FencedStore.Apply(ctx, a)
		if !inside {
			inside = true
			mustApply(t, g, l.Request(3, "op-3", put("3")), sdk.Accepted)
		}
		return out, err
	}
	mustApply(t, g, l.Request(2, "op-2", put("2")), sdk.Accepted)
	mustApply(t, g, l.Request(4, "op-4", put("4")), sdk.Accepted)
}

// F13: the same token for two grants.
func TestTwinGrantPausesTheResource(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", nil)
	l := w.acquire(t, "a")
	mustApply(t, g, l.Request(1, "op-1", put("1")), sdk.Accepted)
	twin, err := w.Issue(resource, "a", "another job", l.Grant.Fence)
	if err != nil {
		t.Fatal(err)
	}
	wantRegression(t, w, g, twin.Request(1, "op-2", put("twin")))
	wantRegression(t, w, g, l.Request(2, "op-3", put("paused")))
	mustApply(t, g, w.acquire(t, "a").Request(1, "op-3", put("new token")), sdk.Accepted)
}

// A missing fence beside receipts is an alarm from the store.
func TestMissingFence(t *testing.T) {
	w := newWorld(t)
	w.store.inspect = func(context.Context, sdk.ResourceID) (sdk.FenceState, error) {
		return sdk.FenceState{}, sdk.Errorf(sdk.FenceRegression, "fence", "missing though receipts exist")
	}
	wantRegression(t, w, w.gate(t, "a", nil), w.acquire(t, "a").Request(1, "op", put("x")))
}

// P1, P2: a gate whose trust bundle is older than what the store has seen.
func TestOlderTrustBundle(t *testing.T) {
	w := newWorld(t)
	w.store.inspect = func(context.Context, sdk.ResourceID) (sdk.FenceState, error) {
		return sdk.FenceState{Highest: 1, Segment: 1, Generations: sdk.Generations{Trust: 2}}, nil
	}
	w.acquire(t, "a")
	mustApply(t, w.gate(t, "a", nil), w.acquire(t, "a").Request(1, "op", put("x")), sdk.PolicyStale)
}

// What cannot be asked before the first write is proved not sent.
func TestFirstLookFails(t *testing.T) {
	w := newWorld(t)
	w.store.inspect = func(context.Context, sdk.ResourceID) (sdk.FenceState, error) {
		return sdk.FenceState{}, sdk.Errorf(sdk.NotApplied, "", "no connection")
	}
	g := w.gate(t, "a", nil)
	req := w.acquire(t, "a").Request(1, "op", put("x"))
	mustApply(t, g, req, sdk.NotApplied)
	w.store.inspect = nil
	mustApply(t, g, req, sdk.Accepted)
}

// An ApplyTx function that fails with another resource's alarm does not pause
// its own.
func TestHookPassesAnothersAlarmOn(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", nil)
	l := w.acquire(t, "a")
	mustApply(t, g, l.Request(1, "op-1", put("x")), sdk.Accepted)
	req := l.Request(2, "op-2")
	out, err := gate.ApplyTx(t.Context(), g, req, func(context.Context, *memstore.Tx) ([]byte, error) {
		return nil, sdk.Errorf(sdk.FenceRegression, "fence", "of another store")
	})
	if out.Code != sdk.NotApplied || !errors.Is(err, sdk.ErrFenceRegression) {
		t.Fatalf("got %v, %v; want NOT_APPLIED with its cause", out.Code, err)
	}
	mustApply(t, g, req, sdk.Accepted)
}
