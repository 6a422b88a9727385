package conformance

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

func staleCases() []Case {
	return []Case{
		{ID: "fence/stale-token-refused", Law: sdk.F1, Run: staleTokenRefused,
			Explain: "A writes at fence 7, B takes over with fence 8. Everything that A sends afterwards, at any segment, from any handle, is STALE_OWNER and changes nothing."},
		{ID: "fence/stale-after-acceptance", Law: sdk.F1, Run: staleAfterAcceptance,
			Explain: "A mutation that was accepted from A is sent again after B took over: STALE_OWNER, never REPLAYED, and the receipt of the operation comes with the error."},
		{ID: "fence/stale-claim-refused", Law: sdk.F1, Run: staleClaimRefused,
			Explain: "An old owner that claims after a takeover, whether it had claimed before or not, is STALE_OWNER."},
		{ID: "fence/stale-before-all-else", Law: sdk.F1, Run: staleFirst,
			Explain: "Below the highest fence the verdict is STALE_OWNER whatever else is wrong: root, segment, content. No quarantine record is left."},
		{ID: "fence/stale-delete-refused", Law: sdk.F1, Run: staleDeleteRefused,
			Explain: "Deletes, empty mutations and quarantine settlements of an old owner are refused like its puts."},
	}
}

// takeover is a resource at which A (fence 7) accepted op-a and then B (fence
// 8) op-b.
type takeover struct {
	r      sdk.ResourceID
	a, b   owner
	ma, mb *sdk.Mutation
}

func (c *C) takeover(ctx context.Context, h *handle) takeover {
	r := c.resource()
	t := takeover{r: r, a: ownerOf(r, 7, ""), b: ownerOf(r, 8, "")}
	t.ma, t.mb = t.a.put(1, "op-a", "k", "from a"), t.b.put(1, "op-b", "k", "from b")
	c.accept(ctx, h, t.ma)
	c.accept(ctx, h, t.mb)
	return t
}

var takeoverOps = []sdk.OperationID{"op-a", "op-b", "late"}

func staleTokenRefused(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	t := c.takeover(ctx, h)
	before := c.view(ctx, h, t.r, takeoverOps, []string{"k"})
	for _, from := range []*handle{h, other} {
		for _, seg := range []sdk.Segment{1, 2, 3, 1000} {
			c.refuse(ctx, from, t.a.put(seg, "late", "k", "late"), sdk.StaleOwner, t.b.state(1), nil)
		}
		for _, f := range []sdk.Token{1, 6} {
			c.refuse(ctx, from, ownerOf(t.r, f, "").put(1, "late", "k", "late"), sdk.StaleOwner, t.b.state(1), nil)
		}
	}
	c.unchanged(before, c.view(ctx, other, t.r, takeoverOps, []string{"k"}), "stale writes")
	c.wantValue(ctx, other, t.r, "k", []byte("from b"))
}

func staleAfterAcceptance(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	t := c.takeover(ctx, h)
	before := c.view(ctx, h, t.r, takeoverOps, []string{"k"})
	receipt := receiptOf(t.ma)
	c.refuse(ctx, h, t.ma, sdk.StaleOwner, t.b.state(1), &receipt)
	c.refuse(ctx, c.handle(ctx, 1), t.ma, sdk.StaleOwner, t.b.state(1), &receipt)
	// The same operation under an older grant that was never accepted, too.
	c.refuse(ctx, h, ownerOf(t.r, 6, "").put(1, "op-b", "k", "from b"), sdk.StaleOwner, t.b.state(1), ptr(receiptOf(t.mb)))
	c.unchanged(before, c.view(ctx, h, t.r, takeoverOps, []string{"k"}), "a stale repetition")
}

func staleClaimRefused(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	c.accept(ctx, h, a.claim())
	c.accept(ctx, h, b.claim())
	c.refuse(ctx, h, a.claim(), sdk.StaleOwner, b.state(1), ptr(receiptOf(a.claim())))
	c.refuse(ctx, h, ownerOf(r, 6, "").claim(), sdk.StaleOwner, b.state(1), nil)
	c.wantState(ctx, h, r, b.state(1))
}

func staleFirst(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	t := c.takeover(ctx, h)
	otherRoot := t.a
	otherRoot.root = sdk.SumDigest([]byte("another job"))
	twin := ownerOf(t.r, 7, "twin")
	for _, m := range []*sdk.Mutation{
		otherRoot.put(1, "op-a", "k", "from a"),
		otherRoot.put(9, "late", "k", "late"),
		t.a.put(1, "op-a", "k", "something else"),
		t.a.put(2, "op-b", "k", "something else"),
		twin.put(1, "op-a", "k", "from a"),
	} {
		out, err := h.settle(ctx, m, sdk.StaleOwner)
		if out.Code != sdk.StaleOwner {
			c.errorf("STALE_OWNER", "%s for %s", describeAnswer(out, err), showMutation(m))
		}
	}
	c.wantQuarantine(ctx, h, t.r)
	c.wantState(ctx, h, t.r, t.b.state(1))
}

func staleDeleteRefused(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	t := c.takeover(ctx, h)
	clash := t.b.put(1, "clash", "k", "clash")
	c.expect(ctx, h, clash, sdk.Quarantined)
	before := c.view(ctx, h, t.r, takeoverOps, []string{"k"})
	for _, m := range []*sdk.Mutation{
		t.a.mutation(2, "late", nil, sdk.Delete("k")),
		t.a.mutation(2, "late", nil),
		t.a.mutation(2, "late", nil, sdk.Resolve(clash.Quarantine())),
	} {
		c.refuse(ctx, h, m, sdk.StaleOwner, t.b.state(1), nil)
	}
	c.unchanged(before, c.view(ctx, h, t.r, takeoverOps, []string{"k"}), "a stale delete")
}

func ptr[T any](v T) *T { return &v }
