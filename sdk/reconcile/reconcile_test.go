package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/fault"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
	"github.com/fencedstore/fencedstore/sdk/reconcile"
)

const resource sdk.ResourceID = "invoice/42"

// world is a store, an authority and one journal.
type world struct {
	*testing.T
	authority *gatetest.Authority
	store     sdk.FencedStore
	journal   *reconcile.Memory
	clock     *clock.Manual
	rec       *reconcile.Reconciler
	cases     []reconcile.Case
	deaf      bool // nobody can be told
}

func (w *world) Escalate(_ context.Context, c reconcile.Case) error {
	if w.deaf {
		return errors.New("no line")
	}
	w.cases = append(w.cases, c)
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, journal: &reconcile.Memory{}, clock: clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	var err error
	if w.authority, err = gatetest.New("db"); err != nil {
		t.Fatal(err)
	}
	if w.store, err = memstore.Open(t.Context(), "mem://", sdk.OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	if w.rec, err = reconcile.New(reconcile.Options{Journal: w.journal, Escalator: w, Clock: w.clock}); err != nil {
		t.Fatal(err)
	}
	return w
}

// worker is one owner with a gate of its own before a store.
type worker struct {
	*gatetest.Lease
	gate  *gate.Gate
	owner reconcile.Owner
}

func (w *world) worker(name string, store sdk.FencedStore) worker {
	w.Helper()
	l, err := w.authority.Acquire(resource, name, "job")
	if err != nil {
		w.Fatal(err)
	}
	g, err := w.authority.Gate(store, name, &gate.Options{LookupTimeout: time.Millisecond})
	if err != nil {
		w.Fatal(err)
	}
	return worker{l, g, reconcile.Owner{Gate: g, Store: store, Request: func() gate.Request { return l.Request(0, "") }}}
}

// unknown writes through faults, and expects not to know.
func (w *world) unknown(a worker, op sdk.OperationID, segment sdk.Segment) reconcile.Intent {
	w.Helper()
	out, err := w.rec.Write(w.Context(), a.gate, a.Request(segment, op, sdk.Put("k", []byte(op))))
	if out.Code != sdk.MutationUnknown {
		w.Fatal(out.Code, err)
	}
	return w.open(1)
}

// open expects so many open intents and returns the first.
func (w *world) open(n int) (in reconcile.Intent) {
	w.Helper()
	open, err := w.journal.Open(w.Context())
	if err != nil || len(open) != n {
		w.Fatalf("%d open, want %d: %v", len(open), n, err)
	}
	if n > 0 {
		in = open[0]
	}
	return in
}

func (w *world) settle(in reconcile.Intent, o worker, want reconcile.Status) reconcile.Resolution {
	w.Helper()
	res, err := w.rec.Settle(w.Context(), in, o.owner)
	if err != nil || res.Status != want {
		w.Fatalf("%s, %v, want %s", res.Status, err, want)
	}
	return res
}

// lossy is the store with its first Apply lost, before or after it was applied, and
// no receipts.
func (w *world) lossy(applied bool) sdk.FencedStore {
	how := fault.DropAnswer()
	if !applied {
		how = fault.FailBefore(sdk.ErrMutationUnknown)
	}
	return fault.Wrap(w.store, fault.On(fault.Apply, 1, how), fault.Of(fault.Receipt, fault.FailBefore(sdk.ErrNotApplied)))
}

func TestKnownOutcomesClose(t *testing.T) {
	w := newWorld(t)
	a := w.worker("a", w.store)
	if out, err := w.rec.Write(t.Context(), a.gate, a.Request(1, "op-1")); err != nil {
		t.Fatal(out.Code, err)
	}
	w.open(0)
	if out, _ := w.rec.Write(t.Context(), a.gate, a.Request(3, "op-3")); out.Code != sdk.SegmentSkipped {
		t.Error(out.Code)
	}
	w.open(0)
	// A refusal says nothing of an attempt before it.
	b := w.worker("b", w.lossy(true))
	w.unknown(b, "op-b", 1)
	req := b.Request(5, "op-b", sdk.Put("k", []byte("op-b")))
	if out, _ := w.rec.Write(t.Context(), b.gate, req); out.Code.Ok() {
		t.Error(out.Code)
	}
	w.open(1)
}

// The same owner sends again: applied once, whether the first attempt was or not.
func TestSameOwner(t *testing.T) {
	for _, applied := range []bool{true, false} {
		w := newWorld(t)
		a := w.worker("a", w.lossy(applied))
		in := w.unknown(a, "op", 1)
		if s, err := w.rec.Stats(t.Context()); err != nil || s.Open != 1 {
			t.Error(s, err)
		}
		res := w.settle(in, a, reconcile.Applied)
		if res.Receipt == nil || res.Receipt.Fence != in.Fence || res.Receipt.Payload != in.Payload {
			t.Errorf("%+v", res.Receipt)
		}
		w.open(0)
	}
}

// A new owner claims, looks up, and reuses the result; or is told that absence is
// final, which it is: the old owner's attempt that comes late is refused.
func TestNewOwner(t *testing.T) {
	for _, applied := range []bool{true, false} {
		w := newWorld(t)
		a := w.worker("a", w.lossy(applied))
		in := w.unknown(a, "op", 1)
		b := w.worker("b", w.store)
		want := reconcile.Absent
		if applied {
			want = reconcile.Applied
		}
		res := w.settle(in, b, want)
		if (res.Receipt != nil) != applied {
			t.Errorf("%+v", res.Receipt)
		}
		w.open(0)
		late, err := a.gate.ApplyFencedMutation(t.Context(), a.Request(1, "op", sdk.Put("k", []byte("op"))))
		if late.Code != sdk.StaleOwner {
			t.Error(late.Code, err)
		}
		if !applied {
			// The work is done again under the same operation ID.
			if out, err := w.rec.Write(t.Context(), b.gate, b.Request(2, "op", sdk.Put("k", []byte("op")))); err != nil {
				t.Error(out.Code, err)
			}
		}
	}
}

// The order of O3: the look-up begins after the claim was acknowledged. A claim
// whose answer is not known proves nothing, and nothing is looked up.
func TestClaimFirst(t *testing.T) {
	w := newWorld(t)
	a := w.worker("a", w.lossy(false))
	in := w.unknown(a, "op", 1)
	var order []fault.Method
	watched := fault.Wrap(w.store, fault.Do("note", func(_ context.Context, c *fault.Call) error { order = append(order, c.Method); return nil }))
	b := w.worker("b", watched)
	w.settle(in, b, reconcile.Absent)
	last := len(order) - 1
	if last < 1 || order[last] != fault.Receipt || order[last-1] != fault.Apply {
		t.Errorf("%v", order)
	}
}

// A newer owner still has claimed: what it proves about older attempts it proves
// for everybody.
func TestOvertaken(t *testing.T) {
	w := newWorld(t)
	a := w.worker("a", w.lossy(false))
	in := w.unknown(a, "op", 1)
	b, c := w.worker("b", w.store), w.worker("c", w.store)
	if _, err := c.gate.Claim(t.Context(), c.Claim()); err != nil {
		t.Fatal(err)
	}
	w.settle(in, b, reconcile.Absent)
}

// An earlier owner cannot settle for a later one.
func TestEarlierOwner(t *testing.T) {
	w := newWorld(t)
	a := w.worker("a", w.store)
	b := w.worker("b", w.lossy(false))
	in := w.unknown(b, "op", 1)
	if _, err := w.rec.Settle(t.Context(), in, a.owner); !errors.Is(err, sdk.ErrInvalid) {
		t.Error(err)
	}
	w.open(1)
}

// The operation has its receipt with other content: this attempt was not applied
// and cannot be.
func TestOtherContent(t *testing.T) {
	w := newWorld(t)
	a := w.worker("a", w.lossy(false))
	in := w.unknown(a, "op", 1)
	b := w.worker("b", w.store)
	if out, err := b.gate.ApplyFencedMutation(t.Context(), b.Request(1, "op", sdk.Put("k", []byte("other")))); err != nil {
		t.Fatal(out.Code, err)
	}
	if res := w.settle(in, b, reconcile.Refused); res.Receipt == nil {
		t.Error("no receipt")
	}
}

// Within the deadline it is tried again; after it a person has it, once, with all
// that a person needs. The intent stays open, and is settled all the same when
// the store answers again.
func TestEscalated(t *testing.T) {
	w := newWorld(t)
	a := w.worker("a", w.lossy(true))
	in := w.unknown(a, "op", 1)
	down := fault.Wrap(w.store, fault.Of(fault.Inspect, fault.FailBefore(sdk.ErrNotApplied)), fault.Of(fault.Apply, fault.FailBefore(sdk.ErrNotApplied)))
	b := w.worker("b", down)
	type answer struct {
		res reconcile.Resolution
		err error
	}
	settled := func() <-chan answer {
		done := make(chan answer, 1)
		go func() {
			res, err := w.rec.Settle(t.Context(), in, b.owner)
			done <- answer{res, err}
		}()
		return done
	}
	done := settled()
	var got answer
	for over := false; !over; {
		n, armed := w.clock.Armed()
		if n > 0 {
			w.clock.Advance(time.Minute)
			continue
		}
		select {
		case got = <-done:
			over = true
		case <-armed:
		}
	}
	if got.err != nil || got.res.Status != reconcile.Undetermined || len(w.cases) != 1 {
		t.Fatal(got.res.Status, got.err, len(w.cases))
	}
	c := w.cases[0]
	if c.Operation != "op" || c.Resource != resource || c.Why == "" || c.Advice == "" || c.Attempts < 10 {
		t.Errorf("%+v", c)
	}
	if s, err := w.rec.Stats(t.Context()); err != nil || s.Open != 1 || s.Escalated != 1 || s.Oldest < reconcile.DefaultDeadline {
		t.Errorf("%+v, %v", s, err)
	}
	in = w.open(1)
	if got := <-settled(); got.err != nil || got.res.Status != reconcile.Undetermined || len(w.cases) != 1 {
		t.Error("told again", got.res.Status, got.err)
	}
	w.settle(in, w.worker("c", w.store), reconcile.Applied)
	w.open(0)
}

// Who cannot tell anybody leaves the intent for the next.
func TestNobodyTold(t *testing.T) {
	w := newWorld(t)
	a := w.worker("a", w.lossy(false))
	in := w.unknown(a, "op", 1)
	w.deaf = true
	w.clock.Advance(time.Hour)
	b := w.worker("b", fault.Wrap(w.store, fault.Of(fault.Inspect, fault.FailBefore(sdk.ErrNotApplied))))
	if _, err := w.rec.Settle(t.Context(), in, b.owner); !errors.Is(err, sdk.ErrNotApplied) {
		t.Error(err)
	}
	if in := w.open(1); !in.Escalated.IsZero() {
		t.Error("noted as told")
	}
}

func TestNew(t *testing.T) {
	w := newWorld(t)
	for _, o := range []reconcile.Options{{}, {Journal: w.journal}, {Escalator: w}} {
		if _, err := reconcile.New(o); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Error(err)
		}
	}
}
