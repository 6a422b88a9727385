package conformance

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

func exactCases() []Case {
	return []Case{
		{ID: "exact/token-neighbours", Law: sdk.F11, Run: exactNeighbours,
			Explain: "For each edge at which number types go wrong (10, 2^31, 2^32, 2^53, 2^60, 2^63−1) the token below is STALE_OWNER to the one above, and the one above takes over from the one below; both come back digit for digit."},
		{ID: "exact/token-order", Law: sdk.F11, Run: exactOrder,
			Explain: "Tokens in rising order across the whole range each take over; afterwards every earlier one is stale."},
		{ID: "exact/segment-edges", Law: sdk.F11, Run: exactSegments,
			Explain: "Segments at 2^31, 2^32, 2^53 and 2^62 are counted exactly. A seed brings the resource there."},
		{ID: "exact/out-of-range", Law: sdk.F11, Run: exactRange,
			Explain: "Tokens 0 and above 2^63−1, and segments 0 and above 2^62, are INVALID and leave nothing: no number is cast, wrapped or rounded."},
	}
}

// edges are pairs of neighbours at which number types go wrong.
var edges = [][2]sdk.Token{
	{9, 10}, {99, 100}, {127, 128}, {255, 256}, {32767, 32768}, {65535, 65536},
	{1<<31 - 1, 1 << 31}, {1<<32 - 1, 1 << 32}, {1<<53 - 1, 1 << 53}, {1 << 53, 1<<53 + 1}, {1<<53 + 1, 1<<53 + 2},
	{999999999999999999, 1000000000000000000}, {1 << 60, 1<<60 + 24}, {1556893286484340854, 1556893286484340855},
	{1<<62 - 1, 1 << 62}, {1<<63 - 2, 1<<63 - 1},
}

func exactNeighbours(ctx context.Context, c *C) {
	hs := []*handle{c.handle(ctx, 0), c.handle(ctx, 1)}
	c.spread(ctx, len(edges), 8, func(i int) {
		h, r := hs[i%2], c.resource()
		low, high := ownerOf(r, edges[i][0], ""), ownerOf(r, edges[i][1], "")
		first := low.put(1, "op-low", "k", "low")
		c.accept(ctx, h, first)
		c.wantState(ctx, h, r, low.state(1))
		second := high.put(1, "op-high", "k", "high")
		c.accept(ctx, h, second)
		c.wantState(ctx, hs[(i+1)%2], r, high.state(1))
		c.refuse(ctx, h, low.put(2, "late", "k", "late"), sdk.StaleOwner, high.state(1), nil)
		c.refuse(ctx, h, first, sdk.StaleOwner, high.state(1), ptr(receiptOf(first)))
		c.again(ctx, h, second)
		c.wantReceipt(ctx, h, first)
		c.wantReceipt(ctx, h, second)
		c.wantValue(ctx, h, r, "k", []byte("high"))
	})
}

func exactOrder(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	var done []owner
	last := sdk.Token(0)
	for _, e := range edges {
		for _, f := range e {
			if f <= last {
				continue
			}
			last = f
			o := ownerOf(r, f, "")
			c.accept(ctx, h, o.put(1, sdk.OperationID("op-"+f.String()), "k", f.String()))
			done = append(done, o)
		}
	}
	top := done[len(done)-1]
	for _, o := range done[:len(done)-1] {
		c.refuse(ctx, h, o.put(2, "late", "k", "late"), sdk.StaleOwner, top.state(1), nil)
	}
	c.wantState(ctx, h, r, top.state(1))
	c.wantValue(ctx, h, r, "k", []byte(sdk.MaxToken.String()))
}

func exactSegments(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	for _, at := range []sdk.Segment{1 << 31, 1 << 32, 1 << 53, 1<<53 + 1, 1 << 60, sdk.MaxSegment} {
		r := c.resource()
		o := ownerOf(r, 7, "")
		m := o.put(at, "op-1", "k", "1")
		m.Seed = o.state(at - 1)
		c.accept(ctx, h, m)
		c.wantState(ctx, h, r, o.state(at))
		c.wantReceipt(ctx, h, m)
		c.again(ctx, c.handle(ctx, 1), m)
		c.refuse(ctx, h, o.put(at-1, "op-2", "k", "2"), sdk.Quarantined, o.state(at), nil)
		if at == sdk.MaxSegment {
			continue
		}
		c.refuse(ctx, h, o.put(at+2, "op-2", "k", "2"), sdk.SegmentSkipped, o.state(at), nil)
		c.accept(ctx, h, o.put(at+1, "op-2", "k", "2"))
		c.wantState(ctx, h, r, o.state(at+1))
	}
}

func exactRange(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r, used := c.resource(), c.resource()
	o := ownerOf(used, 7, "")
	c.accept(ctx, h, o.put(1, "op-1", "k", "1"))
	for _, at := range []sdk.ResourceID{r, used} {
		before := c.view(ctx, h, at, []sdk.OperationID{"late"}, []string{"k"})
		for _, f := range []sdk.Token{0, 1 << 63, 1<<63 + 7, 14697929703826477056, 1<<64 - 1} {
			c.expect(ctx, h, ownerOf(at, f, "").put(1, "late", "k", "late"), sdk.Invalid)
		}
		for _, s := range []sdk.Segment{0, sdk.MaxSegment + 1, 1 << 63, 1<<64 - 1} {
			c.expect(ctx, h, ownerOf(at, 7, "").put(s, "late", "k", "late"), sdk.Invalid)
		}
		c.unchanged(before, c.view(ctx, h, at, []sdk.OperationID{"late"}, []string{"k"}), "numbers out of range")
	}
	c.accept(ctx, h, o.put(2, "op-2", "k", "2"))
}
