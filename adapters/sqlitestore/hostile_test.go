package sqlitestore_test

import (
	"context"
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
