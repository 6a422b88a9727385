package gate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// C44: symmetric skew of one second around a proof that lives five.
func TestProofWindow(t *testing.T) {
	for _, tc := range []struct {
		offset time.Duration
		want   sdk.Code
	}{
		{-1100 * time.Millisecond, sdk.NotHeld},
		{-900 * time.Millisecond, sdk.Accepted},
		{0, sdk.Accepted},
		{5900 * time.Millisecond, sdk.Accepted},
		{6000 * time.Millisecond, sdk.NotHeld},
		{6100 * time.Millisecond, sdk.NotHeld},
		{10 * time.Minute, sdk.NotHeld},
		{-10 * time.Minute, sdk.NotHeld},
	} {
		t.Run(tc.offset.String(), func(t *testing.T) {
			w := newWorld(t)
			now := w.Now()
			g := w.gate(t, "a", &gate.Options{Now: func() time.Time { return now.Add(tc.offset) }})
			mustApply(t, g, w.acquire(t, "a").Request(1, "op", put("x")), tc.want)
		})
	}
}

func TestProofLifeIsBounded(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", nil)
	l := w.acquire(t, "a")
	for life, want := range map[time.Duration]sdk.Code{
		gatetest.TTL + time.Second: sdk.NotHeld, // longer than the lease
		61 * time.Second:           sdk.NotHeld,
		time.Second:                sdk.NotHeld, // the skew
		gatetest.TTL:               sdk.Accepted,
	} {
		req := l.Request(1, "op", put("x"))
		req.Status = l.ProofAt(w.Now(), life)
		out, err := g.ApplyFencedMutation(t.Context(), req)
		if out.Code != want {
			t.Errorf("life %v: %v, %v; want %v", life, out.Code, err, want)
		}
	}
}

// A proof from the future shows that this clock is slow. From then on even a
// proof that this clock takes for fresh is refused, until the clock is right;
// by registry query the gate goes on.
func TestSlowClock(t *testing.T) {
	w := newWorld(t)
	l := w.acquire(t, "a")
	early := l.Request(1, "op", put("x"))
	now := w.Now()
	clock := now
	opts := gate.Options{Now: func() time.Time { return clock }}
	g := w.gate(t, "a", &opts)
	opts.Liveness, opts.Registry = gate.ByEither, w.Authority
	either := w.gate(t, "a", &opts)

	future := early
	future.Status = l.ProofAt(now.Add(time.Hour), gatetest.ProofLife)
	mustApply(t, g, future, sdk.NotHeld)
	mustApply(t, g, early, sdk.NotHeld)
	if n := w.store.calls.Load(); n != 0 {
		t.Errorf("%d store calls", n)
	}
	mustApply(t, either, future, sdk.Accepted)
	clock = now.Add(time.Hour)
	mustApply(t, g, future, sdk.Replayed)
}

// C47: run out with no newer owner is NOT_HELD, and the owner may come again;
// a newer token is STALE_OWNER for good.
func TestByQuery(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", &gate.Options{Liveness: gate.ByQuery, Registry: w.Authority})
	l := w.acquire(t, "a")
	req := l.Request(1, "op-1", put("x"))
	req.Status = nil
	mustApply(t, g, req, sdk.Accepted)
	w.Advance(gatetest.TTL)
	req.Segment, req.Operation = 2, "op-2"
	mustApply(t, g, req, sdk.NotHeld)
	l.Renew()
	mustApply(t, g, req, sdk.Accepted)
	l.Release()
	req.Segment, req.Operation = 3, "op-3"
	mustApply(t, g, req, sdk.NotHeld)
}

func TestQueryFails(t *testing.T) {
	w := newWorld(t)
	reg := &registry{highest: 10}
	g := w.gate(t, "a", &gate.Options{Liveness: gate.ByEither, Registry: reg})
	l := w.acquire(t, "a")
	req := l.Request(1, "op", put("x"))
	mustApply(t, g, req, sdk.Accepted) // by proof
	req = l.Request(2, "op-2", put("x"))
	req.Status = nil
	mustApply(t, g, req, sdk.NotHeld)
	req.Status = append([]byte(nil), l.Proof()...)
	req.Status[len(req.Status)/2] ^= 1 // a tampered proof is not forgiven by a query
	out, err := g.ApplyFencedMutation(t.Context(), req)
	if c := out.Code; c != sdk.Unauthenticated && c != sdk.Malformed {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestCallerIdentity(t *testing.T) {
	w := newWorld(t)
	l := w.acquire(t, "a")
	g := w.gate(t, "", &gate.Options{Caller: gate.ContextCaller()})
	req := l.Request(1, "op", put("x"))
	mustApply(t, g, req, sdk.OwnerMismatch)
	out, err := g.ApplyFencedMutation(gate.WithCaller(t.Context(), "b"), req)
	if out.Code != sdk.OwnerMismatch {
		t.Errorf("as b: %v, %v", out.Code, err)
	}
	out, err = g.ApplyFencedMutation(gate.WithCaller(t.Context(), "a"), req)
	if out.Code != sdk.Accepted {
		t.Errorf("as a: %v, %v", out.Code, err)
	}
	failing := w.gate(t, "", &gate.Options{Caller: gate.CallerFunc(func(context.Context) (string, error) {
		return "a", errors.New("no identity provider")
	})})
	mustApply(t, failing, req, sdk.OwnerMismatch)
	empty := w.gate(t, "", &gate.Options{Caller: gate.FixedCaller("")})
	mustApply(t, empty, req, sdk.OwnerMismatch)
}

// A5: Apply's context ends with the proof, however long the gate's own look at
// the resource took before it.
func TestProofRunsOutBeforeTheSend(t *testing.T) {
	for _, tc := range []struct {
		name string
		look time.Duration
		want sdk.Code
	}{
		{"a slow look", 4 * time.Second, sdk.Accepted},
		{"a look that outlasts the proof", 7 * time.Second, sdk.NotHeld},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.store.inspect = func(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
					<-time.After(tc.look)
					return w.store.FencedStore.Inspect(ctx, r)
				}
				end := time.Now().Add(gatetest.ProofLife + time.Second) // with the skew
				w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
					if deadline, ok := ctx.Deadline(); !ok || deadline.After(end) {
						t.Errorf("Apply may take until %v after the proof ran out", deadline.Sub(end))
					}
					return w.store.FencedStore.Apply(ctx, a)
				}
				l := w.acquire(t, "a")
				mustApply(t, w.gate(t, "a", nil), l.Request(1, "op", put("x")), tc.want)
			})
		})
	}
}

// P3: who revokes an epoch waits as long as a proof may live, and then no write
// under it is on its way any more, by query either.
func TestQueryLastsNoLongerThanAProof(t *testing.T) {
	w := newWorld(t)
	g := w.gate(t, "a", &gate.Options{Liveness: gate.ByQuery, Registry: &longLease{registry{highest: 10}}})
	start := time.Now()
	w.store.apply = func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
		if deadline, ok := ctx.Deadline(); !ok || deadline.Sub(start) > 61*time.Second {
			t.Errorf("Apply may take %v", deadline.Sub(start))
		}
		return w.store.FencedStore.Apply(ctx, a)
	}
	mustApply(t, g, w.acquire(t, "a").Request(1, "op", put("x")), sdk.Accepted)
}

// longLease says that every lease is held for another hour.
type longLease struct{ registry }

func (*longLease) Status(context.Context, *grant.Grant, sdk.Digest) (gate.Standing, error) {
	return gate.Standing{State: grant.StateHeld, Remaining: time.Hour}, nil
}
