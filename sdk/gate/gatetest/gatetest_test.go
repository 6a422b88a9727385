package gatetest_test

import (
	"testing"

	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// The authority answers as a registry: held until it runs out, is released or
// superseded; tokens rise.
func TestStatus(t *testing.T) {
	a, err := gatetest.New("x")
	if err != nil {
		t.Fatal(err)
	}
	var _ gate.Registry = a
	status := func(l *gatetest.Lease) grant.State {
		t.Helper()
		st, err := a.Status(t.Context(), &l.Grant, l.Digest)
		if err != nil {
			t.Fatal(err)
		}
		return st.State
	}
	first, err := a.Acquire("r", "w", "job")
	if err != nil {
		t.Fatal(err)
	}
	if s := status(first); s != grant.StateHeld {
		t.Errorf("fresh: %s", s)
	}
	a.Advance(gatetest.TTL)
	if s := status(first); s == grant.StateHeld {
		t.Errorf("run out: %s", s)
	}
	first.Renew()
	if s := status(first); s != grant.StateHeld {
		t.Errorf("renewed: %s", s)
	}
	first.Release()
	if s := status(first); s == grant.StateHeld {
		t.Errorf("released: %s", s)
	}
	first.Renew()
	second, err := a.Acquire("r", "v", "job")
	if err != nil {
		t.Fatal(err)
	}
	if second.Grant.Fence != first.Grant.Fence+1 {
		t.Errorf("tokens %v, %v", first.Grant.Fence, second.Grant.Fence)
	}
	if s := status(first); s == grant.StateHeld {
		t.Errorf("superseded: %s", s)
	}
	if h, err := a.Highest(t.Context(), "r"); err != nil || h != second.Grant.Fence {
		t.Errorf("highest %v, %v", h, err)
	}
	if _, err := a.Acquire("a//b", "w", "job"); err == nil {
		t.Error("a non-canonical resource was granted")
	}
	if _, err := gatetest.New(""); err == nil {
		t.Error("an empty audience was taken")
	}
}
