package conformance

import (
	"context"
	"fmt"

	"github.com/fencedstore/fencedstore/sdk"
)

func onceCases() []Case {
	return []Case{
		{ID: "once/next-segment", Law: sdk.F10, Run: onceNextSegment,
			Explain: "An accepted operation sent again as the next segment with the same payload is ALREADY_APPLIED with the original receipt; the segment is still free."},
		{ID: "once/new-owner", Law: sdk.F10, Run: onceNewOwner,
			Explain: "A new owner that sends an operation that was done is ALREADY_APPLIED with the original receipt: the fence does not move, nothing was taken over, and the old owner goes on."},
		{ID: "once/for-ever", Law: sdk.F10, Run: onceForEver,
			Explain: "After 300 other operations and several owners the first operation is still ALREADY_APPLIED with its receipt, and Receipt finds every one."},
		{ID: "once/across-handles", Law: sdk.F10, Run: onceAcrossHandles,
			Explain: "An operation accepted through one handle is known to a handle opened before and to one opened after."},
		{ID: "once/hook-not-run", Law: sdk.F10, Needs: []sdk.Capability{sdk.CapApplyTx}, Run: onceHook, without: hookUnsupported,
			Explain: "Caller's code for an operation that was done is not run, or nothing of it stays: ALREADY_APPLIED with the first result."},
	}
}

func onceNextSegment(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	first := o.put(1, "op-1", "k", "1")
	c.accept(ctx, h, first)
	c.accept(ctx, h, o.put(2, "op-2", "k", "2"))
	prior := ptr(receiptOf(first))
	for range 2 {
		c.refuse(ctx, h, o.put(3, "op-1", "k", "1"), sdk.AlreadyApplied, o.state(2), prior)
	}
	c.refuse(ctx, h, o.put(4, "op-1", "k", "1"), sdk.SegmentSkipped, o.state(2), prior)
	c.wantState(ctx, h, r, o.state(2))
	c.wantValue(ctx, h, r, "k", []byte("2"))
	c.wantReceipt(ctx, h, first)
	c.wantQuarantine(ctx, h, r)
	c.accept(ctx, h, o.put(3, "op-3", "k", "3"))
}

func onceNewOwner(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	first := a.put(1, "op-1", "k", "1")
	c.accept(ctx, h, first)
	prior := ptr(receiptOf(first))
	for _, from := range []*handle{h, c.handle(ctx, 1)} {
		c.refuse(ctx, from, b.put(1, "op-1", "k", "1"), sdk.AlreadyApplied, a.state(1), prior)
		c.wantState(ctx, from, r, a.state(1))
	}
	c.again(ctx, h, first) // A is still the newest
	c.accept(ctx, h, a.put(2, "op-2", "k", "2"))
	c.accept(ctx, h, b.claim())
	c.refuse(ctx, h, b.put(2, "op-1", "k", "1"), sdk.AlreadyApplied, b.state(1), prior)
	c.wantReceipt(ctx, h, first)
	c.wantValue(ctx, h, r, "k", []byte("2"))
	c.accept(ctx, h, b.put(2, "op-3", "k", "3"))
}

func onceForEver(ctx context.Context, c *C) {
	const n = 300
	h := c.handle(ctx, 0)
	r := c.resource()
	var all []*sdk.Mutation
	o, seg := ownerOf(r, 1, ""), sdk.Segment(0)
	for i := range n {
		if i%50 == 49 {
			o, seg = ownerOf(r, o.fence+5, ""), 0
		}
		seg++
		m := o.put(seg, sdk.OperationID(fmt.Sprintf("op-%03d", i)), "k", fmt.Sprint(i))
		c.accept(ctx, h, m)
		all = append(all, m)
	}
	for i, m := range all {
		c.wantReceipt(ctx, h, m)
		if i%37 == 0 && m.Fence < o.fence {
			again := o.mutation(seg+1, m.Operation, m.Result, m.Effects...)
			c.refuse(ctx, h, again, sdk.AlreadyApplied, o.state(seg), ptr(receiptOf(m)))
			next := ownerOf(r, o.fence+1, "").mutation(1, m.Operation, m.Result, m.Effects...)
			c.refuse(ctx, h, next, sdk.AlreadyApplied, o.state(seg), ptr(receiptOf(m)))
		}
	}
	c.wantValue(ctx, h, r, "k", []byte(fmt.Sprint(n-1)))
	c.figure("operations", n)
}

func onceAcrossHandles(ctx context.Context, c *C) {
	early := c.fresh(ctx, sdk.OpenOptions{})
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	c.wantState(ctx, early, r, sdk.FenceState{}) // what it saw must not stick
	first := a.put(1, "op-1", "k", "1")
	c.accept(ctx, c.handle(ctx, 0), first)
	late := c.fresh(ctx, sdk.OpenOptions{})
	for _, h := range []*handle{early, late} {
		c.again(ctx, h, first)
		c.refuse(ctx, h, b.put(1, "op-1", "k", "1"), sdk.AlreadyApplied, a.state(1), ptr(receiptOf(first)))
		c.wantReceipt(ctx, h, first)
	}
}

func onceHook(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	code := func(result string) sdk.Hook {
		return func(context.Context, any) ([]byte, error) { return []byte(result), nil }
	}
	first := a.hooked(1, "op-1", code("first"))
	c.expect(ctx, h, first, sdk.Accepted)
	want := receiptOf(first)
	want.Result = []byte("first")
	c.refuse(ctx, h, b.hooked(1, "op-1", code("second")), sdk.AlreadyApplied, a.state(1), &want)
	c.refuse(ctx, h, a.hooked(2, "op-1", code("third")), sdk.AlreadyApplied, a.state(1), &want)
	got, err := h.receipt(ctx, r, "op-1")
	if err != nil {
		c.errorf(showReceipt(&want), "Receipt: %v", err)
		return
	}
	c.sameReceipt(&got, want)
}
