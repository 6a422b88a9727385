package gate

import (
	"context"
	"errors"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// resolve settles an unknown outcome by the receipt (O2), within the caller's
// context and LookupTimeout. Only this call's own echo is REPLAYED. Another
// receipt of the operation is permanent, so this attempt can never land, and
// Decide says how it is called. No receipt proves nothing: it stays unknown.
func (g *Gate) resolve(ctx context.Context, adm *admission, unknown error) (sdk.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.LookupTimeout)
	defer cancel()
	m := adm.mutation
	receipt, err := g.lookup(ctx, m)
	if err != nil {
		return refuse(stillUnknown(unknown, err))
	}
	if receipt.Echoes(m) {
		return sdk.Outcome{Code: sdk.Replayed, Receipt: &receipt}, nil
	}
	// The state is read after the receipt, so it is at or above it.
	state, err := g.store.Inspect(ctx, m.Resource)
	if err != nil {
		e := sdk.Errorf(sdk.NotApplied, "operation", "it has the receipt of another attempt, so this one was not and will not be applied; the fence could not be read: %w", err)
		e.Receipt = &receipt
		return refuse(e)
	}
	d := sdk.Decide(state, &receipt, adm.sealed)
	if d.Code == sdk.Quarantined {
		// Answering so takes a durable record, which this attempt did not leave.
		e := sdk.Errorf(sdk.NotApplied, "operation", "the operation or its position was accepted with other content; send it again to have that put on record")
		e.Observed, e.Receipt = state, &receipt
		return refuse(e)
	}
	return d.Outcome()
}

func stillUnknown(unknown, lookup error) error {
	if sdk.CodeOf(lookup) == sdk.NotFound {
		return unknown
	}
	return sdk.Errorf(sdk.MutationUnknown, "receipt", "%v; and the receipt could not be read: %w", unknown, errors.Join(unknown, lookup))
}

// lookup reads the receipt, again while the store cannot be asked.
func (g *Gate) lookup(ctx context.Context, m *sdk.Mutation) (sdk.Receipt, error) {
	wait := 5 * time.Millisecond
	for {
		r, err := g.store.Receipt(ctx, m.Resource, m.Operation)
		switch c := sdk.CodeOf(err); {
		case err == nil, c == sdk.NotFound, c == sdk.Closed, c == sdk.Unsuitable, c == sdk.FenceRegression:
			return r, err
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return sdk.Receipt{}, err
		case <-t.C:
		}
		wait = min(2*wait, 500*time.Millisecond)
	}
}

// alarmed reports whether err is FENCE_REGRESSION or carries it beside its code.
// The cause of a NOT_APPLIED does not count: an ApplyTx function's error may be
// about another resource.
func alarmed(err error) bool {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Alarm || e.Code == sdk.FenceRegression || e.Code != sdk.NotApplied && errors.Is(err, sdk.ErrFenceRegression)
}

// withAlarm returns err with FENCE_REGRESSION beside its code.
func withAlarm(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Alarm = true
	return &c
}
