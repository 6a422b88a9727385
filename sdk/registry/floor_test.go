package registry_test

import (
	"testing"

	"github.com/fencedstore/fencedstore/adapters/memcoord"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// seed puts the fence of the store to token.
func (w *world) seed(token sdk.Token) {
	w.Helper()
	m := &sdk.Mutation{Resource: resource, Operation: sdk.OperationID("seed-" + token.String()), Fence: token, Segment: 1, Owner: "w", Time: w.clock.Now(),
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(token.String()))}
	m.Payload = sdk.PayloadDigest(m.Operation, nil, nil)
	if out, err := w.store.Apply(w.Context(), sdk.NewAdmission(seal.Cut(), m)); err != nil {
		w.Fatal(out.Code, err)
	}
}

// C29: the coordinator is restored from an older snapshot and would issue a token
// again. Issuing pauses, also after a restart, until an operator raises the floor;
// then it goes on above everything. C84 is the same with a counter that was reset.
func TestCoordinatorWentBack(t *testing.T) {
	w := newWorld(t)
	r := w.registry()
	w.coord.Raise(t.Context(), resource, 999_000)
	var last registry.Answer
	for _, id := range []string{"1", "2", "3"} {
		last = acquire(t, r, "a", id)
		if _, err := r.Release(t.Context(), last.Ref); err != nil {
			t.Fatal(err)
		}
	}
	for _, snapshot := range []sdk.Token{999_002, 0} {
		w.coord.Rewind(resource, snapshot)
		for _, r := range []*registry.Registry{r, r, w.registry()} {
			_, err := r.Acquire(t.Context(), request("b", "after"))
			wantCode(t, err, sdk.FenceRegression)
		}
		at, err := r.Highest(t.Context(), resource)
		if err != nil || at != snapshot {
			t.Errorf("a token was drawn: %s, %v", at, err)
		}
	}
	at, err := r.Raise(t.Context(), resource, 1_000_000)
	if err != nil || at != 1_000_000 {
		t.Fatal(at, err)
	}
	if a := acquire(t, r, "b", "after"); a.Token != 1_000_001 {
		t.Errorf("token %s after the floor", a.Token)
	}
}

// R5: a registry with its stores alone raises a fresh sequence above the highest
// fence of all of them, and takes one that counted and stands below for a
// coordinator that went back.
func TestFloorOfStores(t *testing.T) {
	w := newWorld(t)
	w.seed(70)
	stores := func(o *registry.Options) { o.Marks, o.Stores = nil, []sdk.FencedStore{w.store} }
	a := acquire(t, w.registry(stores), "a", "1")
	if a.Token != 71 {
		t.Errorf("token %s over a store at 70", a.Token)
	}
	w.coord.Rewind(resource, 30)
	_, err := w.registry(stores).Acquire(t.Context(), request("b", "2"))
	wantCode(t, err, sdk.FenceRegression)
	if at, err := w.registry(stores).Raise(t.Context(), resource, 0); err != nil || at != 70 {
		t.Error(at, err)
	}
	w.store.Close()
	_, err = w.registry(stores).Acquire(t.Context(), request("b", "3"))
	wantCode(t, err, sdk.NotApplied)
}

// P3: another coordinator takes over. Under the old epoch it is refused; under a
// new one it begins above the old one's last issue and above the stores, and the
// registry over the old one issues no more.
func TestBackendSwitched(t *testing.T) {
	w := newWorld(t)
	old := w.registry()
	w.coord.Raise(t.Context(), resource, 900)
	first := acquire(t, old, "a", "1")
	w.seed(950)
	fresh := memcoord.New(w.clock)
	switched := func(epoch uint64) *registry.Registry {
		o := w.options()
		o.Backend, o.Epoch, o.Stores = "mem/2", epoch, []sdk.FencedStore{w.store}
		r, err := registry.New(fresh, &o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	_, err := switched(1).Acquire(t.Context(), request("b", "2"))
	wantCode(t, err, sdk.Unsuitable)
	if a := acquire(t, switched(2), "b", "2"); a.Token != 951 || first.Token != 901 {
		t.Errorf("token %s after %s", a.Token, first.Token)
	}
	_, err = old.Acquire(t.Context(), request("c", "3"))
	wantCode(t, err, sdk.Unsuitable)
}

// A grant of an epoch that is over is not signed again.
func TestEpochOver(t *testing.T) {
	w := newWorld(t)
	a := acquire(t, w.registry(), "a", "1")
	next := w.registry(func(o *registry.Options) { o.Epoch = 2 })
	_, err := next.Acquire(t.Context(), request("a", "1"))
	wantCode(t, err, sdk.Revoked)
	_, err = next.Check(t.Context(), a.Ref)
	wantCode(t, err, sdk.Revoked)
	// Releasing works all the same; the next grant is of the new epoch.
	_, err = next.Release(t.Context(), a.Ref)
	wantCode(t, err, sdk.Revoked)
	if b := acquire(t, next, "a", "2"); b.Content.IssuerEpoch != 2 {
		t.Errorf("epoch %d", b.Content.IssuerEpoch)
	}
	_, err = w.registry().Acquire(t.Context(), request("a", "3"))
	wantCode(t, err, sdk.Unsuitable)
}

// C106: the sequence ends at 2^63−1, also after a restart and a raise.
func TestExhausted(t *testing.T) {
	w := newWorld(t)
	w.coord.Raise(t.Context(), resource, sdk.MaxToken-1)
	r := w.registry()
	a := acquire(t, r, "a", "1")
	if a.Token != sdk.MaxToken {
		t.Fatal(a.Token)
	}
	if _, err := r.Release(t.Context(), a.Ref); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*registry.Registry{r, w.registry()} {
		_, err := r.Acquire(t.Context(), request("b", "2"))
		wantCode(t, err, sdk.Unsuitable)
	}
	if at, err := r.Raise(t.Context(), resource, 5); err != nil || at != sdk.MaxToken {
		t.Error(at, err)
	}
}
