package gate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
)

func unknown() (sdk.Outcome, error) {
	err := sdk.Errorf(sdk.MutationUnknown, "", "the answer was lost")
	return sdk.Refusal(err), err
}

// O2: a lost acknowledgement of a mutation that landed is REPLAYED.
func TestOwnEcho(t *testing.T) {
	w := newWorld(t)
	w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
		if _, err := w.store.FencedStore.Apply(ctx, a); err != nil {
			t.Error(err)
		}
		return unknown()
	}
	g := w.gate(t, "a", nil)
	out := mustApply(t, g, w.acquire(t, "a").Request(1, "op", put("x")), sdk.Replayed)
	if out.Receipt == nil || out.Receipt.Operation != "op" {
		t.Errorf("receipt %v", out.Receipt)
	}
	if n, _ := g.Unknowns(); n != 0 {
		t.Errorf("%d unknown outcomes open", n)
	}
}

// No receipt proves nothing: the attempt may still land.
func TestLostRequestStaysUnknown(t *testing.T) {
	w := newWorld(t)
	lost := true
	w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
		if lost {
			return unknown()
		}
		return w.store.FencedStore.Apply(ctx, a)
	}
	g := w.gate(t, "a", nil)
	req := w.acquire(t, "a").Request(1, "op", put("x"))
	mustApply(t, g, req, sdk.MutationUnknown)
	if n, _ := g.Unknowns(); n != 1 {
		t.Errorf("%d unknown outcomes open, want 1", n)
	}
	lost = false
	mustApply(t, g, req, sdk.Accepted)
	if n, _ := g.Unknowns(); n != 0 {
		t.Errorf("%d unknown outcomes open after the identical request was accepted", n)
	}
}

// Every answer that is not a known success or refusal is unknown (O1).
func TestStrangeAnswersAreUnknown(t *testing.T) {
	other := &sdk.Receipt{Operation: "another"}
	for name, answer := range map[string]func() (sdk.Outcome, error){
		"nothing":                  func() (sdk.Outcome, error) { return sdk.Outcome{}, nil },
		"accepted, no receipt":     func() (sdk.Outcome, error) { return sdk.Outcome{Code: sdk.Accepted}, nil },
		"accepted, other receipt":  func() (sdk.Outcome, error) { return sdk.Outcome{Code: sdk.Accepted, Receipt: other}, nil },
		"refusal without an error": func() (sdk.Outcome, error) { return sdk.Outcome{Code: sdk.StaleOwner}, nil },
		"plain error":              func() (sdk.Outcome, error) { return sdk.Outcome{Code: sdk.NotApplied}, errors.New("EOF") },
		"context error":            func() (sdk.Outcome, error) { return sdk.Outcome{}, context.DeadlineExceeded },
		"unknown code":             func() (sdk.Outcome, error) { return sdk.Outcome{Code: 99}, &sdk.Error{Code: 99} },
		"accepted as an error":     func() (sdk.Outcome, error) { return sdk.Outcome{Code: sdk.Accepted}, &sdk.Error{Code: sdk.Accepted} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.store.apply = func(context.Context, sdk.Admission) (sdk.Outcome, error) { return answer() }
			mustApply(t, w.gate(t, "a", nil), w.acquire(t, "a").Request(1, "op", put("x")), sdk.MutationUnknown)
		})
	}
}

// Another receipt of the operation is permanent, so this attempt can never
// land: the answer is what Decide says, never REPLAYED.
func TestOtherReceiptIsNotOurEcho(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(t *testing.T, w *world, op sdk.OperationID)
		want   sdk.Code
	}{
		"by an older owner": {func(t *testing.T, w *world, op sdk.OperationID) {
			mustApply(t, w.gate(t, "a", nil), w.acquire(t, "a").Request(1, op, put("x")), sdk.Accepted)
		}, sdk.AlreadyApplied},
		"by an older owner, other payload": {func(t *testing.T, w *world, op sdk.OperationID) {
			mustApply(t, w.gate(t, "a", nil), w.acquire(t, "a").Request(1, op, put("y")), sdk.Accepted)
		}, sdk.NotApplied},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.before(t, w, "op")
			w.store.apply = func(context.Context, sdk.Admission) (sdk.Outcome, error) { return unknown() }
			out := mustApply(t, w.gate(t, "b", nil), w.acquire(t, "b").Request(1, "op", put("x")), tc.want)
			if out.Receipt == nil || out.Receipt.Owner != "a" {
				t.Errorf("receipt %v, want the older owner's", out.Receipt)
			}
		})
	}
}

func TestSupersededWhileUnknown(t *testing.T) {
	w := newWorld(t)
	gb := w.gate(t, "b", nil)
	a, b := w.acquire(t, "a"), w.acquire(t, "b")
	w.store.apply = func(ctx context.Context, adm sdk.Admission) (sdk.Outcome, error) {
		w.store.apply = nil
		mustApply(t, gb, b.Request(1, "op", put("x")), sdk.Accepted)
		return unknown()
	}
	mustApply(t, w.gate(t, "a", nil), a.Request(1, "op", put("x")), sdk.StaleOwner)
}

// The look-up goes on while the store cannot be asked, and ends with the
// caller's context; then the outcome is unknown.
func TestLookupRetriesWithinTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
			w.store.FencedStore.Apply(ctx, a)
			return unknown()
		}
		failures := 3
		w.store.receipt = func(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
			if failures--; failures >= 0 {
				return sdk.Receipt{}, sdk.Errorf(sdk.NotApplied, "", "no connection")
			}
			return w.store.FencedStore.Receipt(ctx, r, op)
		}
		g := w.gate(t, "a", nil)
		l := w.acquire(t, "a")
		mustApply(t, g, l.Request(1, "op-1", put("x")), sdk.Replayed)

		failures = 1 << 30
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		out, err := g.ApplyFencedMutation(ctx, l.Request(2, "op-2", put("x")))
		if out.Code != sdk.MutationUnknown || !errors.Is(err, sdk.ErrMutationUnknown) {
			t.Errorf("got %v, %v", out.Code, err)
		}
		if d := time.Since(start); d > 11*time.Second {
			t.Errorf("the look-up took %v, beyond LookupTimeout", d)
		}

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if out, _ := g.ApplyFencedMutation(ctx, l.Request(2, "op-2", put("x"))); out.Code != sdk.MutationUnknown {
			t.Errorf("got %v", out.Code)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("the call outlived its context by %v", d-time.Second)
		}
	})
}

func TestCancelledBeforeTheCall(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err := w.gate(t, "a", nil).ApplyFencedMutation(ctx, w.acquire(t, "a").Request(1, "op", put("x")))
	if out.Code != sdk.NotApplied || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v; want NOT_APPLIED by context.Canceled", out.Code, err)
	}
	if got := w.value(t); got != "" {
		t.Errorf("applied %q", got)
	}
}

func TestClaim(t *testing.T) {
	w := newWorld(t)
	ga, gb := w.gate(t, "a", nil), w.gate(t, "b", nil)
	a := w.acquire(t, "a")
	mustApply(t, ga, a.Request(1, "op-1", put("x")), sdk.Accepted)
	stale := a.Request(2, "op-2", put("y"))
	b := w.acquire(t, "b")
	for i := range 3 {
		state, err := gb.Claim(t.Context(), b.Claim())
		if err != nil || state.Highest != b.Grant.Fence || state.Grant != b.Digest || state.Segment != 1 {
			t.Fatalf("claim %d: %+v, %v", i+1, state, err)
		}
	}
	mustApply(t, ga, stale, sdk.StaleOwner)
	if _, err := ga.Claim(t.Context(), a.Claim()); !errors.Is(err, sdk.ErrStaleOwner) {
		t.Errorf("a stale claim: %v", err)
	}
	mustApply(t, gb, b.Request(2, "op-2", put("z")), sdk.Accepted)
	if state, err := gb.Claim(t.Context(), b.Claim()); err != nil || state.Segment != 2 {
		t.Errorf("claim after a write is a read: %+v, %v", state, err)
	}
	if q, err := w.store.Quarantined(t.Context(), resource); err != nil || len(q) != 0 {
		t.Errorf("quarantined %v, %v", q, err)
	}
	if _, err := gb.Claim(t.Context(), b.Request(1, "op", put("x"))); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("a claim with content: %v", err)
	}
}

// A claim whose answer was lost, and one that meets its own grant's write.
func TestClaimRaces(t *testing.T) {
	w := newWorld(t)
	b := w.acquire(t, "b")
	w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
		w.store.apply = nil
		w.store.FencedStore.Apply(ctx, a)
		return unknown()
	}
	if state, err := w.gate(t, "b", nil).Claim(t.Context(), b.Claim()); err != nil || state.Highest != b.Grant.Fence {
		t.Errorf("lost answer: %+v, %v", state, err)
	}
	c := w.acquire(t, "c")
	first := w.gate(t, "c", nil)
	w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
		w.store.apply = nil
		mustApply(t, first, c.Request(1, "op-c", put("c")), sdk.Accepted)
		return w.store.FencedStore.Apply(ctx, a)
	}
	state, err := w.gate(t, "c", nil).Claim(t.Context(), c.Claim())
	if err != nil || state.Highest != c.Grant.Fence {
		t.Errorf("own write first: %+v, %v", state, err)
	}
	if q, err := w.store.Quarantined(t.Context(), resource); err != nil || len(q) != 0 {
		t.Errorf("quarantined %v, %v", q, err)
	}
}

func TestApplyTx(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", nil)
	l := w.acquire(t, "a")
	req := l.Request(1, "op-1")
	req.Input = []byte("add 1")
	if _, err := gate.ApplyTx(t.Context(), g, req, func(context.Context, int) ([]byte, error) { return nil, nil }); !errors.Is(err, sdk.ErrUnsupported) {
		t.Errorf("foreign transaction type: %v", err)
	}
	if _, err := gate.ApplyTx[any](t.Context(), g, req, nil); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("no function: %v", err)
	}
	cause := errors.New("business says no")
	out, err := gate.ApplyTx(t.Context(), g, req, func(context.Context, any) ([]byte, error) { return nil, cause })
	if out.Code != sdk.NotApplied || !errors.Is(err, cause) {
		t.Errorf("failing function: %v, %v", out.Code, err)
	}
	out, err = gate.ApplyTx(t.Context(), g, req, func(context.Context, any) ([]byte, error) { return []byte("result"), nil })
	if err != nil || string(out.Receipt.Result) != "result" || out.Receipt.Payload != sdk.InputDigest("op-1", req.Input) {
		t.Errorf("%+v, %v", out.Receipt, err)
	}
	out, err = gate.ApplyTx(t.Context(), g, req, func(context.Context, any) ([]byte, error) { return []byte("other"), nil })
	if err != nil || out.Code != sdk.Replayed || string(out.Receipt.Result) != "result" {
		t.Errorf("again: %v %+v, %v", out.Code, out.Receipt, err)
	}
	req.Effects = []sdk.Effect{put("x")}
	if _, err := gate.ApplyTx(t.Context(), g, req, func(context.Context, any) ([]byte, error) { return nil, nil }); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("function and effects: %v", err)
	}
}
