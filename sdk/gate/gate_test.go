package gate_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

// counting is a real store that counts every call that reaches it, and lets a
// test stand in for single methods.
type counting struct {
	sdk.FencedStore
	calls   atomic.Int64
	apply   func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error)
	inspect func(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error)
	receipt func(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error)
}

func newCounting(t testing.TB) *counting {
	t.Helper()
	s, err := memstore.Open(t.Context(), "mem://", sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &counting{FencedStore: s}
}

func (c *counting) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	c.calls.Add(1)
	if c.apply != nil {
		return c.apply(ctx, a)
	}
	return c.FencedStore.Apply(ctx, a)
}

func (c *counting) Inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	c.calls.Add(1)
	if c.inspect != nil {
		return c.inspect(ctx, r)
	}
	return c.FencedStore.Inspect(ctx, r)
}

func (c *counting) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
	c.calls.Add(1)
	if c.receipt != nil {
		return c.receipt(ctx, r, op)
	}
	return c.FencedStore.Receipt(ctx, r, op)
}

const resource sdk.ResourceID = "invoice-batch/2026-07-19"

type world struct {
	*gatetest.Authority
	store *counting
}

func newWorld(t testing.TB) *world {
	t.Helper()
	a, err := gatetest.New("test:store")
	if err != nil {
		t.Fatal(err)
	}
	return &world{a, newCounting(t)}
}

func (w *world) gate(t testing.TB, owner string, opts *gate.Options) *gate.Gate {
	t.Helper()
	g, err := w.Gate(w.store, owner, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (w *world) acquire(t testing.TB, owner string) *gatetest.Lease {
	t.Helper()
	l, err := w.Acquire(resource, owner, "job")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func put(value string) sdk.Effect { return sdk.Put("key", []byte(value)) }

func mustApply(t testing.TB, g *gate.Gate, req gate.Request, want sdk.Code) sdk.Outcome {
	t.Helper()
	out, err := g.ApplyFencedMutation(t.Context(), req)
	if out.Code != want || (err == nil) != want.Ok() || err != nil && sdk.CodeOf(err) != want {
		t.Fatalf("got %v, %v; want %v", out.Code, err, want)
	}
	return out
}

func (w *world) value(t testing.TB) string {
	t.Helper()
	v, err := w.store.FencedStore.Read(t.Context(), resource, "key")
	if err != nil && sdk.CodeOf(err) != sdk.NotFound {
		t.Fatal(err)
	}
	return string(v)
}

// The reason for all of this: A pauses, B takes over, A wakes up.
func TestStaleOwnerIsRefused(t *testing.T) {
	w := newWorld(t)
	ga, gb := w.gate(t, "a", nil), w.gate(t, "b", nil)
	a := w.acquire(t, "a")
	mustApply(t, ga, a.Request(1, "op-1", put("from A")), sdk.Accepted)
	late := a.Request(2, "op-2", put("late, from A")) // with a proof that still holds
	b := w.acquire(t, "b")
	mustApply(t, gb, b.Request(1, "op-3", put("from B")), sdk.Accepted)
	out := mustApply(t, ga, late, sdk.StaleOwner)
	if out.Observed.Highest != b.Grant.Fence {
		t.Errorf("the refusal shows fence %v, want %v", out.Observed.Highest, b.Grant.Fence)
	}
	out = mustApply(t, ga, a.Request(1, "op-1", put("from A")), sdk.StaleOwner)
	if out.Receipt == nil || out.Receipt.Fence != a.Grant.Fence {
		t.Errorf("a stale repeat must show the original receipt, got %v", out.Receipt)
	}
	if got := w.value(t); got != "from B" {
		t.Errorf("B's result is %q", got)
	}
}

func TestRequestForm(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", nil)
	l := w.acquire(t, "a")
	for name, tc := range map[string]struct {
		change func(*gate.Request)
		want   sdk.Code
	}{
		"segment 0":          {func(r *gate.Request) { r.Segment = 0 }, sdk.Invalid},
		"segment over max":   {func(r *gate.Request) { r.Segment = sdk.MaxSegment + 1 }, sdk.Invalid},
		"no operation":       {func(r *gate.Request) { r.Operation = "" }, sdk.Invalid},
		"reserved operation": {func(r *gate.Request) { r.Operation = sdk.ClaimID(l.Digest) }, sdk.Invalid},
		"operation not UTF8": {func(r *gate.Request) { r.Operation = "\xff" }, sdk.Invalid},
		"effect kind":        {func(r *gate.Request) { r.Effects = []sdk.Effect{{Kind: "KV"}} }, sdk.Invalid},
		"effect body":        {func(r *gate.Request) { r.Effects = []sdk.Effect{{Kind: sdk.KindPut, Body: []byte{1}}} }, sdk.Invalid},
		"same key twice":     {func(r *gate.Request) { r.Effects = []sdk.Effect{put("a"), sdk.Delete("key")} }, sdk.Invalid},
		"result too large":   {func(r *gate.Request) { r.Result = make([]byte, sdk.MaxResultBytes+1) }, sdk.TooLarge},
		"input":              {func(r *gate.Request) { r.Input = []byte("x") }, sdk.Invalid},
		"no grant":           {func(r *gate.Request) { r.Grant = nil }, sdk.Malformed},
		"garbage grant":      {func(r *gate.Request) { r.Grant = []byte("{") }, sdk.Malformed},
		"huge grant":         {func(r *gate.Request) { r.Grant = make([]byte, 10<<20) }, sdk.Malformed},
		"no proof":           {func(r *gate.Request) { r.Status = nil }, sdk.NotHeld},
		"grant as proof":     {func(r *gate.Request) { r.Status = r.Grant }, sdk.Unauthenticated},
		"other audience":     {func(r *gate.Request) { r.Audience = "other" }, sdk.ResourceMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			req := l.Request(1, "op", put("x"))
			tc.change(&req)
			out, err := g.ApplyFencedMutation(t.Context(), req)
			var e *sdk.Error
			if out.Code != tc.want || !errors.As(err, &e) || e.Msg == "" {
				t.Errorf("got %v, %v; want %v with a message", out.Code, err, tc.want)
			}
			if n := w.store.calls.Load(); n != 0 {
				t.Errorf("%d store calls", n)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t)
	fixed := gate.FixedCaller("a")
	policy, err := gate.NewPolicy(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]*gate.Options{
		"no options":              nil,
		"no caller":               {},
		"query without registry":  {Caller: fixed, Liveness: gate.ByQuery},
		"either without registry": {Caller: fixed, Liveness: gate.ByEither},
		"unknown liveness":        {Caller: fixed, Liveness: 9},
		"policy without shadow":   {Caller: fixed, Policy: gate.NewPolicyHolder(policy)},
	} {
		if _, err := gate.New(w.store, w.Bundle(), opts); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := gate.New(nil, w.Bundle(), &gate.Options{Caller: fixed}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("no store: %v", err)
	}
	if _, err := gate.New(w.store, nil, &gate.Options{Caller: fixed}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("no trust: %v", err)
	}
}

func TestAcceptRule(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", &gate.Options{Accept: func(r sdk.ResourceID) error {
		if r == resource {
			return errors.New("no tenant prefix")
		}
		return nil
	}})
	mustApply(t, g, w.acquire(t, "a").Request(1, "op", put("x")), sdk.Invalid)
	if n := w.store.calls.Load(); n != 0 {
		t.Errorf("%d store calls", n)
	}
}

func TestSteadyStateRoundTrips(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", nil)
	l := w.acquire(t, "a")
	mustApply(t, g, l.Request(1, "op-1", put("1")), sdk.Accepted)
	if n := w.store.calls.Load(); n != 2 {
		t.Errorf("the first write took %d store calls, want Inspect and Apply", n)
	}
	for s := sdk.Segment(2); s < 10; s++ {
		before := w.store.calls.Load()
		mustApply(t, g, l.Request(s, gatetest.Op(int(s)), put("x")), sdk.Accepted)
		if n := w.store.calls.Load() - before; n != 1 {
			t.Errorf("segment %v took %d store calls, want 1", s, n)
		}
	}
}

// Apply's context ends with the proof plus skew, however long the caller's is.
func TestContextEndsWithProof(t *testing.T) {
	w := newWorld(t)
	w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
		deadline, ok := ctx.Deadline()
		if !ok || time.Until(deadline) > gatetest.ProofLife+time.Second {
			t.Errorf("deadline %v in %v, want one within proof life plus skew", ok, time.Until(deadline))
		}
		return sdk.Outcome{Code: sdk.NotApplied}, sdk.Errorf(sdk.NotApplied, "", "seen")
	}
	mustApply(t, w.gate(t, "a", nil), w.acquire(t, "a").Request(1, "op", put("x")), sdk.NotApplied)
}
