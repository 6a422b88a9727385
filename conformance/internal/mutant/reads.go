package mutant

import (
	"bytes"
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

// reading finds the record to read from. The resource is the canonical one.
func (s *store) reading(ctx context.Context, r sdk.ResourceID) (sdk.ResourceID, *record, func(), error) {
	f := &s.data.flaws
	if err := r.Validate(); err != nil && !f.anyName {
		if f.resource == nil {
			return r, nil, nil, err
		}
		if r, err = f.resource(r); err != nil {
			return r, nil, nil, err
		}
	}
	rec, unlock, err := s.acquire(ctx, r, false)
	if err != nil && f.failed != nil {
		err = f.failed(err)
	}
	return r, rec, unlock, err
}

// Inspect implements sdk.FencedStore.
func (s *store) Inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	r, rec, unlock, err := s.reading(ctx, r)
	if err != nil {
		return sdk.FenceState{}, err
	}
	defer unlock()
	state, err := s.fence(rec)
	if f := s.data.flaws.inspect; f != nil {
		return f(s, rec, r, state, err)
	}
	return state, err
}

// Receipt implements sdk.FencedStore.
func (s *store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
	if err := op.Validate(); err != nil && !s.data.flaws.anyName {
		return sdk.Receipt{}, err
	}
	r, rec, unlock, err := s.reading(ctx, r)
	if err != nil {
		return sdk.Receipt{}, err
	}
	defer unlock()
	got := s.data.receiptOf(rec, r, op)
	if f := s.data.flaws.receipt; f != nil {
		if got, err = f(s, rec, r, op, got); err != nil {
			return sdk.Receipt{}, err
		}
	}
	if got == nil {
		return sdk.Receipt{}, sdk.Errorf(sdk.NotFound, "operation", "%q has no receipt", op)
	}
	out := *got
	if !s.data.flaws.aliased {
		out.Result = bytes.Clone(out.Result)
	}
	return out, nil
}

// Read implements sdk.FencedStore.
func (s *store) Read(ctx context.Context, r sdk.ResourceID, key string) ([]byte, error) {
	if err := sdk.ValidateKey(key); err != nil && !s.data.flaws.anyName {
		return nil, err
	}
	r, rec, unlock, err := s.reading(ctx, r)
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, ok := s.data.value(rec, r, key)
	if !ok {
		v = nil
	}
	if f := s.data.flaws.read; f != nil {
		return f(s, rec, r, key, v)
	}
	if v == nil {
		return nil, noKey(key)
	}
	if s.data.flaws.aliased {
		return v, nil
	}
	return append([]byte{}, v...), nil
}

func noKey(key string) error { return sdk.Errorf(sdk.NotFound, "key", "%q is not set", key) }

// Quarantined implements sdk.FencedStore.
func (s *store) Quarantined(ctx context.Context, r sdk.ResourceID) ([]sdk.Quarantine, error) {
	r, rec, unlock, err := s.reading(ctx, r)
	if err != nil {
		return nil, err
	}
	defer unlock()
	out := sorted(rec.quarantine)
	if rec.dropped > 0 {
		out = append(out, sdk.Quarantine{Resource: r, Dropped: rec.dropped})
	}
	if f := s.data.flaws.quarantine; f != nil {
		out = f(s, rec, r, out)
	}
	return out, nil
}
