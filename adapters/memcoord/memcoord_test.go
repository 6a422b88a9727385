package memcoord

import (
	"context"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance/coordination"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

func TestConformance(t *testing.T) {
	now := clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	c := New(now)
	coordination.Run(t, coordination.Harness{Name: "memcoord",
		Open:    func(context.Context) (coordination.Handle, error) { return coordination.Handle{Coordinator: c}, nil },
		Queued:  func(_ context.Context, r sdk.ResourceID) (int, error) { return c.Queued(r), nil },
		Advance: now.Advance,
		Expire: func(_ context.Context, r registry.Record) error {
			now.Advance(r.TTL)
			return nil
		},
	})
}
