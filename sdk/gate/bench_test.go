package gate_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
)

// nullStore decides like a store and keeps the last state only: what is left
// is the gate itself.
type nullStore struct {
	sdk.FencedStore
	state sdk.FenceState
}

func (s *nullStore) Describe() sdk.Description { return sdk.Description{Name: "null"} }

func (s *nullStore) Inspect(context.Context, sdk.ResourceID) (sdk.FenceState, error) {
	return s.state, nil
}

func (s *nullStore) Apply(_ context.Context, a sdk.Admission) (sdk.Outcome, error) {
	d := sdk.Decide(s.state, nil, a)
	s.state = d.Next
	return d.Outcome()
}

func operations(n int) []sdk.OperationID {
	out := make([]sdk.OperationID, n)
	for i := range out {
		out[i] = sdk.OperationID("operation-" + strconv.Itoa(i))
	}
	return out
}

// BenchmarkGate is authentication from the cache, admission and decision,
// beside Decide alone: what the gate adds to a store's own work.
func BenchmarkGate(b *testing.B) {
	b.Run("decide", func(b *testing.B) {
		w := newWorld(b)
		var adm sdk.Admission
		w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
			adm = a
			return w.store.FencedStore.Apply(ctx, a)
		}
		mustApply(b, w.gate(b, "a", nil), w.acquire(b, "a").Request(1, "op", put("x")), sdk.Accepted)
		b.ReportAllocs()
		for b.Loop() {
			sdk.Decide(sdk.FenceState{}, nil, adm)
		}
	})
	b.Run("cached-authentication-and-decision", func(b *testing.B) {
		w := newWorld(b)
		g := w.gate(b, "a", nil)
		req := w.acquire(b, "a").Request(1, "op", put("value"))
		b.ReportAllocs()
		for b.Loop() {
			if d, err := g.Admit(&req, sdk.FenceState{}); err != nil || d.Code != sdk.Accepted {
				b.Fatal(d.Code, err)
			}
		}
	})
	b.Run("cached-whole-call", func(b *testing.B) {
		w := newWorld(b)
		g, err := w.Gate(&nullStore{}, "a", nil)
		if err != nil {
			b.Fatal(err)
		}
		benchSegments(b, w, g)
	})
	b.Run("cold", func(b *testing.B) {
		w := newWorld(b)
		l := w.acquire(b, "a")
		bundle := w.Bundle()
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := bundle.VerifyGrant(l.Envelope); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkGateMemstore is a fenced put into memory, through the gate and, in
// the same run, by the store alone.
func BenchmarkGateMemstore(b *testing.B) {
	b.Run("gate", func(b *testing.B) {
		w := newWorld(b)
		g, err := w.Gate(memstore.New(), "a", nil)
		if err != nil {
			b.Fatal(err)
		}
		benchSegments(b, w, g)
	})
	b.Run("store-alone", func(b *testing.B) {
		s := memstore.New()
		d := sdk.SumDigest([]byte("x"))
		ops := operations(b.N)
		effects := []sdk.Effect{put("value")}
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			m := &sdk.Mutation{Resource: resource, Operation: ops[i], Fence: 1, Segment: sdk.Segment(i + 1), Root: d, Grant: d, Payload: d, Owner: "a", Effects: effects}
			if _, err := s.Apply(b.Context(), sdk.NewAdmission(seal.Cut(), m)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchSegments(b *testing.B, w *world, g *gate.Gate) {
	l := w.acquire(b, "a")
	req := l.Request(1, "first", put("value"))
	mustApply(b, g, req, sdk.Accepted)
	ops := operations(b.N + 1)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		req.Segment, req.Operation = sdk.Segment(i+2), ops[i]
		if _, err := g.ApplyFencedMutation(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
