package conformance

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

func monotonicCases() []Case {
	return []Case{
		{ID: "monotonic/delete-keeps-fence", Law: sdk.F7, Run: monotonicDelete,
			Explain: "Deleting every key of a resource, or writing nothing at all, leaves fence and receipts: an older token is still STALE_OWNER."},
		{ID: "monotonic/close-keeps-fence", Law: sdk.F7, Run: monotonicClose,
			Explain: "Closing the handle that wrote, as a worker does that releases its lease, lowers nothing for the handles that stay."},
		{ID: "monotonic/reopen-keeps-fence", Law: sdk.F7, Needs: []sdk.Capability{sdk.CapDurable}, Run: monotonicReopen,
			Explain: "Every handle is closed and the store opened again, five times: fence and segment are where they were and an older token is STALE_OWNER."},
		{ID: "monotonic/missing-fence-is-regression", Law: sdk.F7, Run: monotonicDamage,
			Explain: "The fence is removed behind the adapter's back while the receipts stay. Inspect and Apply say FENCE_REGRESSION for every token; nothing is accepted, and other resources go on."},
		{ID: "monotonic/never-seen-lower", Law: sdk.F7, Run: monotonicWatch,
			Explain: "While owners take over one after the other, other handles watch the fence: what they see only rises."},
		{ID: "fence/generations-never-lowered", Law: sdk.P1, Run: monotonicGenerations,
			Explain: "At a takeover the fence record takes the generations of policy and trust bundle of the gate, each the higher of old and new; within one fence they stay."},
		{ID: "fence/seed-where-absent", Law: sdk.P1, Run: seedAbsent,
			Explain: "A seed (the fence that shadow mode saw) is where a resource without state begins: below it is STALE_OWNER, above it is accepted. Once the store has state of its own a seed changes nothing."},
	}
}

func monotonicDelete(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	c.accept(ctx, h, a.put(1, "op-1", "k", "1"))
	last := b.mutation(1, "op-2", nil, sdk.Delete("k"))
	c.accept(ctx, h, last)
	for seg := sdk.Segment(2); seg <= 3; seg++ {
		c.wantValue(ctx, h, r, "k", nil)
		c.wantState(ctx, h, r, b.state(seg-1))
		c.refuse(ctx, h, a.put(1, "late", "k", "late"), sdk.StaleOwner, b.state(seg-1), nil)
		c.refuse(ctx, h, a.put(2, "late", "k", "late"), sdk.StaleOwner, b.state(seg-1), nil)
		last = b.mutation(seg, sdk.OperationID("nothing "+seg.String()), nil)
		c.accept(ctx, h, last)
	}
	c.wantReceipt(ctx, c.handle(ctx, 1), last)
}

func monotonicClose(ctx context.Context, c *C) {
	h, stays := c.fresh(ctx, sdk.OpenOptions{}), c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	m := o.put(1, "op-1", "k", "1")
	c.accept(ctx, h, m)
	if err := h.close(); err != nil {
		c.errorf("nil", "Close: %v", err)
	}
	c.wantState(ctx, stays, r, o.state(1))
	c.wantReceipt(ctx, stays, m)
	c.refuse(ctx, stays, ownerOf(r, 6, "").put(1, "late", "k", "late"), sdk.StaleOwner, o.state(1), nil)
	c.wantState(ctx, c.fresh(ctx, sdk.OpenOptions{}), r, o.state(1))
}

func monotonicReopen(ctx context.Context, c *C) {
	r := c.resource()
	var last *sdk.Mutation
	for round := range 5 {
		h := c.fresh(ctx, sdk.OpenOptions{})
		f := sdk.Token(10 + round)
		if last != nil {
			old := ownerOf(r, f-1, "")
			c.wantState(ctx, h, r, old.state(2))
			c.refuse(ctx, h, ownerOf(r, f-2, "").put(1, "late", "k", "late"), sdk.StaleOwner, old.state(2), nil)
			c.again(ctx, h, last)
			c.refuse(ctx, h, old.put(4, "late", "k", "late"), sdk.SegmentSkipped, old.state(2), nil)
		}
		o := ownerOf(r, f, "")
		c.accept(ctx, h, o.claim())
		last = o.put(2, sdk.OperationID("op-"+f.String()), "k", f.String())
		c.accept(ctx, h, last)
		c.reopenAll(ctx, h)
	}
	h := c.fresh(ctx, sdk.OpenOptions{})
	c.wantState(ctx, h, r, ownerOf(r, 14, "").state(2))
	c.wantValue(ctx, h, r, "k", []byte("14"))
}

func monotonicDamage(ctx context.Context, c *C) {
	if c.e.h.Damage == nil {
		c.notProven("the harness has no Damage: no fence can be removed behind the adapter's back")
	}
	h := c.handle(ctx, 0)
	r, beside := c.resource(), c.resource()
	o := ownerOf(r, 12, "")
	m := o.put(1, "op-1", "k", "1")
	c.accept(ctx, h, m)
	c.accept(ctx, h, ownerOf(beside, 3, "").put(1, "op-1", "k", "1"))
	if err := c.e.h.Damage(ctx, r); err != nil {
		c.fatalf("a fence that was removed", "the harness's Damage: %v", err)
	}
	c.touch()
	late := c.fresh(ctx, sdk.OpenOptions{})
	for _, st := range []*handle{h, late} {
		s, err := st.inspect(ctx, r)
		if sdk.CodeOf(err) != sdk.FenceRegression {
			c.errorf("FENCE_REGRESSION", "Inspect: %s, error %v", showState(s), err)
		}
		for _, x := range []*sdk.Mutation{
			ownerOf(r, 5, "").put(1, "op-5", "k", "5"),
			o.put(2, "op-2", "k", "2"),
			ownerOf(r, 13, "").put(1, "op-13", "k", "13"),
			m,
			ownerOf(r, 5, "").put(1, "op-1", "k", "1"),
		} {
			out, err := st.apply(ctx, x)
			if out.Code != sdk.FenceRegression && !errorsIs(err, sdk.ErrFenceRegression) {
				c.errorf("FENCE_REGRESSION", "%s for %s", describeAnswer(out, err), showMutation(x))
			}
		}
	}
	// Where fence and data lie in one object they are gone together, and a read
	// says so; it never says what a refused mutation would have left.
	if v, err := h.read(ctx, r, "k"); err == nil && string(v) != "1" || err != nil && sdk.CodeOf(err) != sdk.FenceRegression {
		c.errorf("the value as it was, or FENCE_REGRESSION", "Read: %q, %v", v, err)
	}
	for _, op := range []sdk.OperationID{"op-5", "op-13"} {
		if _, err := h.receipt(ctx, r, op); sdk.CodeOf(err) != sdk.NotFound && sdk.CodeOf(err) != sdk.FenceRegression {
			c.errorf("NOT_FOUND or FENCE_REGRESSION", "Receipt of %q: %v", op, err)
		}
	}
	c.accept(ctx, h, ownerOf(beside, 3, "").put(2, "op-2", "k", "2"))
}

func monotonicWatch(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	r := c.resource()
	n := c.rounds(15)
	stop := make(chan struct{})
	c.parallel(4, func(i int) {
		if i == 0 {
			defer close(stop)
			for k := range n {
				o := ownerOf(r, sdk.Token(1+3*k), "")
				c.accept(ctx, hs[k%2], o.claim())
				c.accept(ctx, hs[k%2], o.put(2, sdk.OperationID("op-"+o.fence.String()), "k", "v"))
			}
			return
		}
		var seen sdk.FenceState
		for {
			s, err := hs[i].inspect(ctx, r)
			if err != nil {
				c.errorf("a fence state", "Inspect: %v", err)
				return
			}
			if s.Highest < seen.Highest || s.Highest == seen.Highest && s.Segment < seen.Segment {
				c.errorf("at or above "+showState(seen), "%s, seen after it", showState(s))
				return
			}
			seen = s
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			default:
			}
		}
	})
}

func monotonicGenerations(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	var want sdk.Generations
	for i, g := range []sdk.Generations{{Policy: 3, Trust: 5}, {Policy: 2, Trust: 9}, {}, {Policy: 1 << 53, Trust: 4}} {
		o := ownerOf(r, sdk.Token(i+1), "")
		o.generations = g
		want = want.Max(g)
		c.accept(ctx, h, o.put(1, sdk.OperationID("first of "+o.fence.String()), "k", "1"))
		state := o.state(1)
		state.Generations = want
		c.wantState(ctx, h, r, state)
		o.generations = sdk.Generations{Policy: 1 << 60, Trust: 1 << 60} // only a takeover takes them
		c.accept(ctx, h, o.put(2, sdk.OperationID("second of "+o.fence.String()), "k", "2"))
		state.Segment = 2
		c.wantState(ctx, c.handle(ctx, 1), r, state)
	}
}

func seedAbsent(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	seen := ownerOf(r, 7, "")
	seeded := func(m *sdk.Mutation) *sdk.Mutation {
		m.Seed = seen.state(3)
		return m
	}
	below, above := ownerOf(r, 6, ""), ownerOf(r, 8, "")
	out, err := h.settle(ctx, seeded(below.put(1, "late", "k", "late")), sdk.StaleOwner)
	if out.Code != sdk.StaleOwner {
		c.errorf("STALE_OWNER below the seed", "%s", describeAnswer(out, err))
	}
	c.wantNoReceipt(ctx, h, r, "late")
	c.accept(ctx, h, seeded(seen.put(4, "op-4", "k", "4"))) // shadow mode's owner goes on in order
	c.wantState(ctx, h, r, seen.state(4))
	c.accept(ctx, h, above.put(1, "op-1", "k", "1"))
	high := above.put(2, "op-2", "k", "2")
	high.Seed = ownerOf(r, 100, "").state(1)
	c.accept(ctx, h, high)
	low := below.put(1, "late", "k", "late")
	low.Seed = ownerOf(r, 2, "").state(1)
	c.refuse(ctx, h, low, sdk.StaleOwner, above.state(2), nil)
	c.wantState(ctx, c.handle(ctx, 1), r, above.state(2))
	c.wantValue(ctx, h, r, "k", []byte("2"))
}
