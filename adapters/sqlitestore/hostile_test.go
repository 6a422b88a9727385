package sqlitestore_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

// A hook that ends its goroutine, as t.FailNow does in a test, ends its own call
// and no other's.
func TestHookEndsItsGoroutine(t *testing.T) {
	s := open(t, tempFile(t), sdk.OpenOptions{})
	m := mutation(1, 1, "op-1")
	m.Hook = func(context.Context, any) ([]byte, error) { runtime.Goexit(); return nil, nil }
	apply(t, s, m, sdk.NotApplied)
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
}

// A hook that writes through the store that is waiting for it would wait for
// itself.
func TestHookCallsTheStore(t *testing.T) {
	s := open(t, tempFile(t), sdk.OpenOptions{})
	m := mutation(1, 1, "op-1")
	m.Hook = func(ctx context.Context, _ any) ([]byte, error) {
		other := mutation(1, 1, "op-2")
		other.Resource = "another"
		_, err := s.Apply(context.WithoutCancel(ctx), admit(other))
		if !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Apply inside a hook: %v; want INVALID", err)
		}
		if err := s.Probe(context.WithoutCancel(ctx)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Probe inside a hook: %v; want INVALID", err)
		}
		if _, err := s.Inspect(ctx, resource); err != nil {
			t.Errorf("Inspect inside a hook: %v", err)
		}
		return nil, nil
	}
	apply(t, s, m, sdk.Accepted)
}
