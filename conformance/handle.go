package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// handle is a store under test. Every answer is held against what each method
// promises whatever the law at hand.
type handle struct {
	c *C
	s sdk.FencedStore
}

// handle returns the i-th of the handles that cases share.
func (c *C) handle(ctx context.Context, i int) *handle {
	s, err := c.e.handle(ctx, i)
	c.touch()
	if err != nil {
		c.fatalf("a handle", "opening handle %d: %v", i+1, err)
	}
	return &handle{c, s}
}

// fresh opens a handle of the case's own, closed when it ends.
func (c *C) fresh(ctx context.Context, o sdk.OpenOptions) *handle {
	s, err := c.e.h.Open(ctx, o)
	c.touch()
	if err != nil {
		c.fatalf("a handle", "opening again: %v", err)
	}
	c.onEnd(func() { closeQuietly(s) })
	return &handle{c, s}
}

func admit(m *sdk.Mutation) sdk.Admission {
	sealed := *m
	return sdk.NewAdmission(seal.Cut(), &sealed)
}

// apply sends m once. The code of the Outcome is what a caller acts on.
func (h *handle) apply(ctx context.Context, m *sdk.Mutation) (sdk.Outcome, error) {
	out, err := h.s.Apply(ctx, admit(m))
	h.c.touch()
	h.audit(m, out, err)
	if err != nil {
		out.Code = sdk.WriteCode(err)
	}
	return out, err
}

// audit checks an answer to Apply for what holds whatever the verdict.
func (h *handle) audit(m *sdk.Mutation, out sdk.Outcome, err error) {
	said := showMutation(m)
	if err == nil {
		switch {
		case !out.Code.Ok():
			h.c.errorf("no error only with ACCEPTED or REPLAYED", "no error and code %s for %s", out.Code, said)
		case out.Receipt == nil:
			h.c.errorf("the mutation's receipt", "%s without a receipt for %s", out.Code, said)
		case !out.Receipt.Echoes(m) || out.Receipt.Resource != m.Resource:
			h.c.errorf("the mutation's own receipt", "%s for %s with the %s", out.Code, said, showReceipt(out.Receipt))
		case out.Code == sdk.Accepted && !out.Observed.Absent() &&
			(out.Observed.Highest != m.Fence || out.Observed.Segment != m.Segment || out.Observed.Grant != m.Grant || out.Observed.Root != m.Root):
			h.c.errorf("the state after the mutation", "ACCEPTED for %s with %s observed", said, showState(out.Observed))
		}
		return
	}
	var e *sdk.Error
	if !errors.As(err, &e) {
		h.c.errorf("an *sdk.Error", "%T without a code (%v) for %s", err, err, said)
		return
	}
	switch {
	case e.Code.Ok() || !e.Code.Known():
		h.c.errorf("a refusal's code", "an error with code %s for %s", e.Code, said)
	case e.Code >= sdk.Unauthenticated && e.Code <= sdk.PolicyStale || e.Code == sdk.NotFound:
		h.c.errorf("a code of a store", "%s, which is for the gate or for reads, for %s", e.Code, said)
	case out.Code != e.Code:
		h.c.errorf("the same code in outcome and error", "code %s and error %s for %s", out.Code, e.Code, said)
	case e.Receipt != nil && (e.Receipt.Operation != m.Operation || e.Receipt.Resource != m.Resource):
		h.c.errorf("the receipt of the operation, or none", "%s for %s with the %s", e.Code, said, showReceipt(e.Receipt))
	}
}

// reading asks again where the store could not be asked, which may happen to
// any store at any time.
func reading[T any](ctx context.Context, c *C, f func() (T, error)) (v T, err error) {
	for i := range 3 {
		v, err = f()
		c.touch()
		if sdk.CodeOf(err) != sdk.NotApplied || ctx.Err() != nil {
			break
		}
		pause(ctx, time.Duration(1<<i)*time.Millisecond)
	}
	return v, err
}

func (h *handle) inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	s, err := reading(ctx, h.c, func() (sdk.FenceState, error) { return h.s.Inspect(ctx, r) })
	h.auditRead("Inspect", err, false)
	if err != nil && s != (sdk.FenceState{}) {
		h.c.errorf("the zero state with an error", "Inspect: %s with error %v", showState(s), err)
	}
	return s, err
}

func (h *handle) receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
	rec, err := reading(ctx, h.c, func() (sdk.Receipt, error) { return h.s.Receipt(ctx, r, op) })
	h.auditRead("Receipt", err, true)
	return rec, err
}

func (h *handle) read(ctx context.Context, r sdk.ResourceID, key string) ([]byte, error) {
	v, err := reading(ctx, h.c, func() ([]byte, error) { return h.s.Read(ctx, r, key) })
	h.auditRead("Read", err, true)
	if err == nil && v == nil {
		h.c.errorf("an empty value that is not nil", "Read of %q: nil without an error", clip(key))
	}
	return v, err
}

func (h *handle) quarantined(ctx context.Context, r sdk.ResourceID) ([]sdk.Quarantine, error) {
	q, err := reading(ctx, h.c, func() ([]sdk.Quarantine, error) { return h.s.Quarantined(ctx, r) })
	h.auditRead("Quarantined", err, false)
	return q, err
}

func (h *handle) close() error {
	err := h.s.Close()
	h.c.touch()
	return err
}

// auditRead checks the error of a read for its form.
func (h *handle) auditRead(method string, err error, notFound bool) {
	if err == nil {
		return
	}
	var e *sdk.Error
	if !errors.As(err, &e) {
		h.c.errorf("an *sdk.Error", "%s: %T without a code (%v)", method, err, err)
		return
	}
	switch e.Code {
	case sdk.FenceRegression, sdk.Invalid, sdk.Closed, sdk.Unsuitable, sdk.NotApplied:
	case sdk.NotFound:
		if !notFound {
			h.c.errorf("an answer for a resource that was never written", "%s: %v", method, err)
		}
	default:
		h.c.errorf("a code of a read", "%s: %v", method, err)
	}
}

// describeAnswer is an answer to Apply in words.
func describeAnswer(out sdk.Outcome, err error) string {
	s := out.Code.String()
	if err != nil {
		s = fmt.Sprintf("%v", err)
	}
	if !out.Observed.Absent() {
		s += "; observed " + showState(out.Observed)
	}
	if out.Receipt != nil {
		s += "; " + showReceipt(out.Receipt)
	}
	return s
}
