package main

import (
	"errors"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

const own sdk.ResourceID = "adaptercheck/own"

// boundSQLite is a fresh store with a gate in front, which writes under a lease.
func boundSQLite(t *testing.T, o sdk.OpenOptions) (s *subject, store sdk.FencedStore, write func(sdk.Segment, ...sdk.Effect) error) {
	t.Helper()
	c := &cli{adapters: builtin()}
	tgt, err := c.parseTarget("sqlite:" + t.TempDir() + "/odd name#1.db")
	if err != nil {
		t.Fatal(err)
	}
	if s, err = tgt.bind(); err != nil {
		t.Fatal(err)
	}
	if store, err = s.open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	authority, err := gatetest.New("test")
	if err != nil {
		t.Fatal(err)
	}
	g, err := authority.Gate(store, "worker", nil)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := authority.Acquire(own, "worker", "job")
	if err != nil {
		t.Fatal(err)
	}
	return s, store, func(segment sdk.Segment, effects ...sdk.Effect) error {
		_, err := g.ApplyFencedMutation(t.Context(), lease.Request(segment, gatetest.Op(int(segment)), effects...))
		return err
	}
}

// The harness's damage is real: the fence is gone, the receipts and the
// triggers are not.
func TestDamageSQLite(t *testing.T) {
	s, store, write := boundSQLite(t, sdk.OpenOptions{})
	if err := write(1, sdk.Put("k", []byte("v"))); err != nil {
		t.Fatal(err)
	}
	if err := s.harness().Damage(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if state, err := store.Inspect(t.Context(), own); !errors.Is(err, sdk.ErrFenceRegression) {
		t.Errorf("inspect after the damage: %+v, %v, want FENCE_REGRESSION", state, err)
	}
	if _, err := store.Receipt(t.Context(), own, gatetest.Op(1)); err != nil {
		t.Errorf("the receipt: %v", err)
	}
	if err := store.Probe(t.Context()); err != nil {
		t.Errorf("the triggers were not restored: %v", err)
	}
	if err := s.harness().Damage(t.Context(), "adaptercheck/none"); err == nil {
		t.Error("damage where there is no fence was reported as done")
	}
}

// The native effects do what the suite is told that they do.
func TestNativeSQLite(t *testing.T) {
	var scope func(sdk.ResourceID, sdk.Effect) error
	s, _, write := boundSQLite(t, sdk.OpenOptions{Scope: func(r sdk.ResourceID, e sdk.Effect) error { return scope(r, e) }})
	n := s.harness().Native(own)
	scope = n.Scope
	count := func(want int) {
		t.Helper()
		if got, err := n.Count(t.Context()); got != want || err != nil {
			t.Errorf("count %d, %v, want %d", got, err, want)
		}
	}
	count(0)
	if err := write(1, n.Inside); err != nil {
		t.Fatal(err)
	}
	count(1)
	if err := write(2, n.Outside); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("outside: %v, want INVALID", err)
	}
	if err := n.Scope(own, n.Failing); err != nil {
		t.Errorf("the failing effect is out of scope: %v", err)
	}
	if err := write(2, n.Failing); sdk.WriteCode(err) == 0 || sdk.WriteCode(err) == sdk.MutationUnknown {
		t.Errorf("failing: %v, want a refusal", err)
	}
	scope = func(sdk.ResourceID, sdk.Effect) error { return nil }
	for _, e := range n.Own {
		if err := write(2, e); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v, want INVALID", e.Body, err)
		}
	}
	count(1)
	if err := write(2, n.Inside); err != nil {
		t.Errorf("a write after all that: %v", err)
	}
	count(2)
}
