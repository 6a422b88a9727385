package memstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

func mutation(fence sdk.Token, segment sdk.Segment, op string) *sdk.Mutation {
	id := sdk.OperationID(op)
	return &sdk.Mutation{Resource: "invoice/42", Operation: id, Fence: fence, Segment: segment, Owner: "w",
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(fence.String())), Payload: sdk.PayloadDigest(id, nil, nil)}
}

func admit(m *sdk.Mutation) sdk.Admission { return sdk.NewAdmission(seal.Cut(), m) }

// A hook that calls the store for the resource whose lock it holds would wait
// for itself; for another resource it may.
func TestHookCallsTheStore(t *testing.T) {
	s := memstore.New()
	m := mutation(1, 1, "op-1")
	m.Hook = func(ctx context.Context, _ any) ([]byte, error) {
		ctx = context.WithoutCancel(ctx)
		if _, err := s.Apply(ctx, admit(mutation(1, 2, "op-2"))); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Apply inside a hook: %v; want INVALID", err)
		}
		if _, err := s.Inspect(ctx, m.Resource); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Inspect inside a hook: %v; want INVALID", err)
		}
		if _, err := s.Inspect(ctx, "another"); err != nil {
			t.Errorf("Inspect of another resource: %v", err)
		}
		return nil, nil
	}
	if out, err := s.Apply(t.Context(), admit(m)); err != nil {
		t.Errorf("%v, %v", out.Code, err)
	}
}
