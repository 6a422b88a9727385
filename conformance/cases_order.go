package conformance

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

func orderCases() []Case {
	return []Case{
		{ID: "fence/takeover-takes-segment-1", Law: sdk.F2, Run: takeoverSegment1,
			Explain: "A higher fence is accepted with segment 1 and with no other: SEGMENT_SKIPPED, and the refused one does not move the fence. Also on a resource that nobody wrote to."},
		{ID: "fence/takeover-resets-order", Law: sdk.F2, Run: takeoverResets,
			Explain: "A takeover brings its own root and starts at segment 1, however far the old owner came and however far the tokens jump."},
		{ID: "fence/segments-in-order", Law: sdk.F3, Run: segmentsInOrder,
			Explain: "Under one fence only the next segment is accepted; a later one is SEGMENT_SKIPPED and does not use a position up."},
		{ID: "fence/other-root-refused", Law: sdk.F3, Run: otherRoot,
			Explain: "At the highest fence a mutation with another operation root is ROOT_MISMATCH at every segment, also at an accepted one, and changes nothing."},
		{ID: "fence/twin-grant-is-regression", Law: sdk.F13, Run: twinGrant,
			Explain: "At the highest fence another grant's digest is FENCE_REGRESSION at every segment, whatever root and content are, and nothing changes: no quarantine, no fence."},
		{ID: "fence/twin-claim-is-regression", Law: sdk.F13, Run: twinClaim,
			Explain: "Two claims with one token and two grants: the first is accepted, the second is FENCE_REGRESSION, never a takeover."},
	}
}

func takeoverSegment1(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	for _, seg := range []sdk.Segment{2, 3, sdk.MaxSegment} {
		c.refuse(ctx, h, a.put(seg, "late", "k", "late"), sdk.SegmentSkipped, sdk.FenceState{}, nil)
	}
	c.wantState(ctx, h, r, sdk.FenceState{})
	m := a.put(1, "op-a", "k", "a")
	c.accept(ctx, h, m)
	for _, seg := range []sdk.Segment{2, 3, sdk.MaxSegment} {
		c.refuse(ctx, h, b.put(seg, "late", "k", "late"), sdk.SegmentSkipped, a.state(1), nil)
		c.refuse(ctx, h, b.put(seg, "op-a", "k", "a"), sdk.SegmentSkipped, a.state(1), ptr(receiptOf(m)))
	}
	c.wantState(ctx, h, r, a.state(1))
	c.wantNoReceipt(ctx, h, r, "late")
	c.wantValue(ctx, h, r, "k", []byte("a"))
	c.accept(ctx, h, a.put(2, "op-a2", "k", "a2")) // A was not shut out
	c.accept(ctx, h, b.put(1, "op-b", "k", "b"))
	c.wantState(ctx, h, r, b.state(1))
	c.wantValue(ctx, h, r, "k", []byte("b"))
}

func takeoverResets(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	for i, f := range []sdk.Token{1, 2, 1000, 1 << 40} {
		o := ownerOf(r, f, "")
		for seg := sdk.Segment(1); seg <= sdk.Segment(4-i); seg++ {
			op := sdk.OperationID("op-" + f.String() + "-" + seg.String())
			c.accept(ctx, h, o.put(seg, op, "k", string(op)))
			c.wantState(ctx, h, r, o.state(seg))
		}
	}
	c.wantValue(ctx, h, r, "k", []byte("op-"+sdk.Token(1<<40).String()+"-1"))
}

func segmentsInOrder(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	o := ownerOf(r, 7, "")
	for seg := sdk.Segment(1); seg <= 12; seg++ {
		from := h
		if seg%3 == 0 {
			from = other
		}
		op := sdk.OperationID("op-" + seg.String())
		var before sdk.FenceState
		if seg > 1 {
			before = o.state(seg - 1)
		}
		for _, ahead := range []sdk.Segment{seg + 1, seg + 2, sdk.MaxSegment} {
			c.refuse(ctx, from, o.put(ahead, "ahead", "k", "ahead"), sdk.SegmentSkipped, before, nil)
		}
		c.accept(ctx, from, o.put(seg, op, "k", string(op)))
		c.wantState(ctx, from, r, o.state(seg))
	}
	c.wantNoReceipt(ctx, h, r, "ahead")
	c.wantValue(ctx, h, r, "k", []byte("op-12"))
}

func otherRoot(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	first := o.put(1, "op-1", "k", "1")
	c.accept(ctx, h, first)
	wrong := o
	wrong.root = sdk.SumDigest([]byte("another job"))
	before := c.view(ctx, h, r, []sdk.OperationID{"op-1", "op-2"}, []string{"k"})
	for _, seg := range []sdk.Segment{1, 2, 3} {
		c.refuse(ctx, h, wrong.put(seg, "op-2", "k", "2"), sdk.RootMismatch, o.state(1), nil)
		c.refuse(ctx, h, wrong.put(seg, "op-1", "k", "1"), sdk.RootMismatch, o.state(1), ptr(receiptOf(first)))
	}
	c.unchanged(before, c.view(ctx, h, r, []sdk.OperationID{"op-1", "op-2"}, []string{"k"}), "a write for another job")
	c.accept(ctx, h, o.put(2, "op-2", "k", "2"))
}

func twinGrant(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o, twin := ownerOf(r, 7, ""), ownerOf(r, 7, "twin")
	first := o.put(1, "op-1", "k", "1")
	c.accept(ctx, h, first)
	twin.name = o.name // the same worker with a second grant is a twin too
	otherRoot := twin
	otherRoot.root = sdk.SumDigest([]byte("another job"))
	before := c.view(ctx, h, r, []sdk.OperationID{"op-1", "op-2"}, []string{"k"})
	for _, from := range []*handle{h, c.handle(ctx, 1)} {
		for _, t := range []owner{twin, otherRoot} {
			for _, seg := range []sdk.Segment{1, 2, 3} {
				c.refuse(ctx, from, t.put(seg, "op-2", "k", "2"), sdk.FenceRegression, o.state(1), nil)
				c.refuse(ctx, from, t.put(seg, "op-1", "k", "1"), sdk.FenceRegression, o.state(1), ptr(receiptOf(first)))
			}
		}
	}
	c.unchanged(before, c.view(ctx, h, r, []sdk.OperationID{"op-1", "op-2"}, []string{"k"}), "a write under a twin grant")
	c.accept(ctx, h, o.put(2, "op-2", "k", "2"))
}

func twinClaim(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o, twin := ownerOf(r, 7, ""), ownerOf(r, 7, "twin")
	c.accept(ctx, h, o.claim())
	c.refuse(ctx, h, twin.claim(), sdk.FenceRegression, o.state(1), nil)
	c.wantState(ctx, h, r, o.state(1))
	c.wantNoReceipt(ctx, h, r, sdk.ClaimID(twin.grant))
}
