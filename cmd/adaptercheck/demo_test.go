package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/sdk"
)

// unfenced is a store that tells a stale owner that its write was accepted.
type unfenced struct{ sdk.FencedStore }

func (u unfenced) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	out, err := u.FencedStore.Apply(ctx, a)
	if !errors.Is(err, sdk.ErrStaleOwner) {
		return out, err
	}
	m, merr := a.Mutation()
	if merr != nil {
		return out, merr
	}
	return sdk.Outcome{Code: sdk.Accepted, Observed: out.Observed, Receipt: &sdk.Receipt{Resource: m.Resource,
		Operation: m.Operation, Fence: m.Fence, Segment: m.Segment, Root: m.Root, Grant: m.Grant, Payload: m.Payload}}, nil
}

// forgetful is a store in which A's total is found at the end.
type forgetful struct{ sdk.FencedStore }

func (f forgetful) Read(context.Context, sdk.ResourceID, string) ([]byte, error) {
	return []byte(totalA), nil
}

func tell(t *testing.T, wrap func(sdk.FencedStore) sdk.FencedStore) (string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	c := &cli{out: newScreen(&out), err: newScreen(&errs)}
	a := adapter{Name: "odd", Fresh: func() (string, func() error, error) { return "odd:", func() error { return nil }, nil },
		Bind: func(string) (opener, error) {
			return func(context.Context, sdk.OpenOptions) (sdk.FencedStore, error) { return wrap(memstore.New()), nil }, nil
		}}
	code := c.exit(c.demo(t.Context(), target{Arg: "odd", adapter: &a}))
	return out.String() + errs.String(), code
}

// The story is not staged: on a store that keeps no fence it ends otherwise.
func TestDemoOnBrokenStores(t *testing.T) {
	out, code := tell(t, func(s sdk.FencedStore) sdk.FencedStore { return unfenced{s} })
	if code != exitShort || !strings.Contains(out, "✗ ACCEPTED") || !strings.Contains(out, "took the late write") {
		t.Errorf("a store that takes the late write: code %d\n%s", code, out)
	}
	out, code = tell(t, func(s sdk.FencedStore) sdk.FencedStore { return forgetful{s} })
	if code != exitShort || !strings.Contains(out, "✗ B's result is gone") {
		t.Errorf("a store that loses B's result: code %d\n%s", code, out)
	}
	out, code = tell(t, func(s sdk.FencedStore) sdk.FencedStore { return s })
	if code != exitOK || !strings.Contains(out, "✓ B's result is intact") || !strings.Contains(out, "✗ B's result is lost") {
		t.Errorf("a fenced store: code %d\n%s", code, out)
	}
}
