package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// attempts bounds how often a mutation is sent again for a definite answer.
const attempts = 8

// settle sends m until the answer is definite or want. A store may answer
// NOT_APPLIED or MUTATION_UNKNOWN at any time; the suite then does what a
// worker does, and holds the store to what it said: after NOT_APPLIED nothing
// was applied. An unknown first attempt that turns out to have landed is
// ACCEPTED.
func (h *handle) settle(ctx context.Context, m *sdk.Mutation, want sdk.Code) (sdk.Outcome, error) {
	unknown, proved := false, false
	for i := 0; ; i++ {
		out, err := h.apply(ctx, m)
		if out.Code == sdk.Replayed && want != sdk.Replayed {
			switch {
			case unknown:
				out.Code = sdk.Accepted
			case proved:
				h.c.fail(sdk.O1, "REPLAYED after NOT_APPLIED for "+showMutation(m), "NOT_APPLIED only where nothing was or will be applied")
			}
		}
		if out.Code == want || out.Code != sdk.NotApplied && out.Code != sdk.MutationUnknown || i == attempts || ctx.Err() != nil {
			return out, err
		}
		unknown = unknown || out.Code == sdk.MutationUnknown
		proved = proved || out.Code == sdk.NotApplied
		pause(ctx, time.Duration(1<<i)*time.Millisecond)
	}
}

// pause gives a store that is busy time; nothing depends on its length.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// expect settles m and ends the case unless the verdict is want.
func (c *C) expect(ctx context.Context, h *handle, m *sdk.Mutation, want sdk.Code) (sdk.Outcome, *sdk.Error) {
	out, err := h.settle(ctx, m, want)
	if out.Code != want {
		c.fatalf(want.String(), "%s for %s", describeAnswer(out, err), showMutation(m))
	}
	var e *sdk.Error
	errors.As(err, &e)
	return out, e
}

// accept settles m as ACCEPTED and checks the receipt that comes with it.
func (c *C) accept(ctx context.Context, h *handle, m *sdk.Mutation) sdk.Outcome {
	out, _ := c.expect(ctx, h, m, sdk.Accepted)
	c.sameReceipt(out.Receipt, receiptOf(m))
	return out
}

// refuse settles m as want, and checks that the answer tells what was observed
// and, where there is one, the operation's receipt.
func (c *C) refuse(ctx context.Context, h *handle, m *sdk.Mutation, want sdk.Code, observed sdk.FenceState, prior *sdk.Receipt) *sdk.Error {
	out, e := c.expect(ctx, h, m, want)
	if e == nil {
		return &sdk.Error{Code: want}
	}
	if out.Observed != observed || e.Observed != observed {
		c.errorf("what was observed: "+showState(observed), "%s for %s with observed %s, in the error %s", want, showMutation(m), showState(out.Observed), showState(e.Observed))
	}
	switch {
	case prior == nil && e.Receipt == nil && out.Receipt == nil:
	case prior == nil:
		c.errorf("no receipt: the operation has none", "%s for %s with the %s", want, showMutation(m), showReceipt(e.Receipt))
	default:
		c.sameReceipt(e.Receipt, *prior)
		c.sameReceipt(out.Receipt, *prior)
	}
	return e
}

func inUTC(t time.Time) bool {
	_, offset := t.Zone()
	return offset == 0
}

func (c *C) sameReceipt(got *sdk.Receipt, want sdk.Receipt) {
	if got == nil || !sameReceipt(got, &want) || !inUTC(got.Time) {
		c.errorf(showReceipt(&want), "%s", showReceipt(got))
	}
}

// wantState checks what Inspect answers.
func (c *C) wantState(ctx context.Context, h *handle, r sdk.ResourceID, want sdk.FenceState) {
	got, err := h.inspect(ctx, r)
	if err != nil {
		c.errorf(showState(want), "Inspect: %v", err)
	} else if got != want {
		c.errorf(showState(want), "Inspect: %s", showState(got))
	}
}

// wantReceipt checks that Receipt finds exactly what m left.
func (c *C) wantReceipt(ctx context.Context, h *handle, m *sdk.Mutation) {
	got, err := h.receipt(ctx, m.Resource, m.Operation)
	want := receiptOf(m)
	if err != nil {
		c.errorf(showReceipt(&want), "Receipt: %v", err)
		return
	}
	c.sameReceipt(&got, want)
}

// wantNoReceipt checks that op left nothing.
func (c *C) wantNoReceipt(ctx context.Context, h *handle, r sdk.ResourceID, op sdk.OperationID) {
	if got, err := h.receipt(ctx, r, op); sdk.CodeOf(err) != sdk.NotFound {
		c.errorf("NOT_FOUND: nothing was accepted", "Receipt of %q: %v, error %v", clip(string(op)), showReceipt(&got), err)
	}
}

// wantValue checks the value of key; nil is no such key.
func (c *C) wantValue(ctx context.Context, h *handle, r sdk.ResourceID, key string, want []byte) {
	got, err := h.read(ctx, r, key)
	switch {
	case want == nil && sdk.CodeOf(err) != sdk.NotFound:
		c.errorf("NOT_FOUND", "Read of %q: %s, error %v", clip(key), showBytes(got), err)
	case want != nil && err != nil:
		c.errorf(showBytes(want), "Read of %q: %v", clip(key), err)
	case want != nil && string(got) != string(want):
		c.errorf(showBytes(want), "Read of %q: %s", clip(key), showBytes(got))
	}
}

// wantQuarantine checks the quarantine records of r.
func (c *C) wantQuarantine(ctx context.Context, h *handle, r sdk.ResourceID, want ...sdk.Quarantine) {
	got, err := h.quarantined(ctx, r)
	if err != nil {
		c.errorf(fmt.Sprintf("%d records", len(want)), "Quarantined: %v", err)
		return
	}
	if g, w := quarantineLines(got), quarantineLines(want); !slices.Equal(g, w) {
		c.errorf(orNone(w), "Quarantined: %s", orNone(g))
	}
}

func quarantineLines(qs []sdk.Quarantine) []string {
	var out []string
	for i := range qs {
		out = append(out, showQuarantine(&qs[i]))
	}
	return out
}

func orNone(lines []string) string {
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}

// view is all that can be seen of a resource: fence, the receipts of ops, the
// values of keys, quarantine.
func (c *C) view(ctx context.Context, h *handle, r sdk.ResourceID, ops []sdk.OperationID, keys []string) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s, err := h.inspect(ctx, r); err != nil {
		add("fence: %s", sdk.CodeOf(err))
	} else {
		add("fence: %s", showState(s))
	}
	for _, op := range ops {
		if rec, err := h.receipt(ctx, r, op); err != nil {
			add("operation %q: %s", op, sdk.CodeOf(err))
		} else {
			add("operation %q: %s", op, showReceipt(&rec))
		}
	}
	for _, k := range keys {
		if v, err := h.read(ctx, r, k); err != nil {
			add("key %q: %s", k, sdk.CodeOf(err))
		} else {
			add("key %q: %s", k, showBytes(v))
		}
	}
	if q, err := h.quarantined(ctx, r); err != nil {
		add("quarantine: %s", sdk.CodeOf(err))
	} else {
		out = append(out, quarantineLines(q)...)
	}
	return out
}

// unchanged compares two views of a resource.
func (c *C) unchanged(before, after []string, did string) {
	lost, gained := difference(before, after)
	if len(lost)+len(gained) > 0 {
		c.errorf("no change after "+did+", as before: "+orNone(lost), "%s", orNone(gained))
	}
}

// wantCode checks the code of an error that no Apply gave.
func (c *C) wantCode(what string, err error, want ...sdk.Code) {
	code := sdk.CodeOf(err)
	if err == nil || !slices.Contains(want, code) {
		var names []string
		for _, w := range want {
			names = append(names, w.String())
		}
		c.errorf(strings.Join(names, " or "), "%s: %v", what, err)
	}
}
