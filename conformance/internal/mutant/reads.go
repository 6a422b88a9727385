package mutant

import (
	"bytes"
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

func (s *store) Inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	rec, unlock, err := s.acquire(ctx, r)
	if err != nil {
		return sdk.FenceState{}, err
	}
	defer unlock()
	state, err := s.fence(rec)
	if err != nil || !s.data.flaws.cachedInspect {
		return state, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.inspects[r]; ok {
		return old, nil
	}
	s.inspects[r] = state
	return state, nil
}

func (s *store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
	if err := op.Validate(); err != nil && !s.data.flaws.anyResource {
		return sdk.Receipt{}, err
	}
	rec, unlock, err := s.acquire(ctx, r)
	if err != nil {
		return sdk.Receipt{}, err
	}
	defer unlock()
	got := rec.receipts[op]
	if s.data.flaws.cachedReceipt {
		key := string(r) + "\x00" + string(op)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.missing[key] {
			got = nil
		}
		s.missing[key] = got == nil
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

func (s *store) Read(ctx context.Context, r sdk.ResourceID, key string) ([]byte, error) {
	if err := sdk.ValidateKey(key); err != nil && !s.data.flaws.anyResource {
		return nil, err
	}
	rec, unlock, err := s.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, ok := rec.values[key]
	if s.data.flaws.cachedRead {
		name := string(r) + "\x00" + key
		s.mu.Lock()
		defer s.mu.Unlock()
		if old, known := s.reads[name]; known {
			v, ok = old, true
		} else if ok {
			s.reads[name] = v
		}
	}
	if !ok {
		return nil, sdk.Errorf(sdk.NotFound, "key", "%q is not set", key)
	}
	if s.data.flaws.aliased {
		return v, nil
	}
	return append([]byte{}, v...), nil
}

func (s *store) Quarantined(ctx context.Context, r sdk.ResourceID) ([]sdk.Quarantine, error) {
	rec, unlock, err := s.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	defer unlock()
	from := rec.quarantine
	if s.data.flaws.quarantineMemory {
		s.mu.Lock()
		defer s.mu.Unlock()
		from = s.private[r]
	}
	out := sorted(from)
	if rec.dropped > 0 {
		out = append(out, sdk.Quarantine{Resource: r, Dropped: rec.dropped})
	}
	return out, nil
}
