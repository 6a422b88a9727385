package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedstore/fencedstore/sdk"
)

func errorsIs(err, target error) bool { return errors.Is(err, target) }

func durableCases() []Case {
	return []Case{
		{ID: "linearizable/read-after-accept", Law: sdk.F8, Run: linearRead,
			Explain: "Right after ACCEPTED on one handle every other handle sees fence, receipt and value, also one that had read the resource before; and what it judges by is the newest state."},
		{ID: "linearizable/read-after-delete", Law: sdk.F8, Run: linearDelete,
			Explain: "Right after a delete and right after a quarantine on one handle every other handle sees them."},
		{ID: "linearizable/read-while-writing", Law: sdk.F8, Run: linearWhileWriting,
			Explain: "A writer tells each segment that was acknowledged; readers on other handles, who begin afterwards, see that segment or a later one, its receipt and its value."},
		{ID: "durable/reopen", Law: sdk.F9, Needs: []sdk.Capability{sdk.CapDurable}, Run: durableReopen,
			Explain: "After writes to twenty resources every handle is closed and the store opened again: fences, receipts, values and quarantine are as they were, and work goes on."},
		{ID: "durable/close-loses-nothing", Law: sdk.F9, Needs: []sdk.Capability{sdk.CapDurable}, Run: durableClose,
			Explain: "A handle is closed while writes through it are under way. Every one that was answered ACCEPTED is there afterwards; none that was answered NOT_APPLIED or CLOSED is."},
	}
}

func linearRead(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	r := c.resource()
	o := ownerOf(r, 7, "")
	for _, h := range hs { // whatever they cache now is old afterwards
		c.wantState(ctx, h, r, sdk.FenceState{})
		c.wantNoReceipt(ctx, h, r, "op-1")
		c.wantValue(ctx, h, r, "k", nil)
	}
	for seg := sdk.Segment(1); seg <= 6; seg++ {
		op := sdk.OperationID("op-" + seg.String())
		m := o.put(seg, op, "k", string(op))
		c.accept(ctx, hs[int(seg)%racers], m)
		for _, h := range hs {
			c.wantReceipt(ctx, h, m)
			c.wantValue(ctx, h, r, "k", []byte(op))
			c.wantState(ctx, h, r, o.state(seg))
			c.refuse(ctx, h, o.put(seg+2, "ahead", "k", "ahead"), sdk.SegmentSkipped, o.state(seg), nil)
		}
	}
}

func linearDelete(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, hs[0], o.put(1, "op-1", "k", "1"))
	for _, h := range hs {
		c.wantValue(ctx, h, r, "k", []byte("1"))
	}
	c.accept(ctx, hs[1], o.mutation(2, "op-2", nil, sdk.Delete("k")))
	clash := o.put(2, "op-2", "k", "clash")
	c.expect(ctx, hs[2], clash, sdk.Quarantined)
	for _, h := range hs {
		c.wantValue(ctx, h, r, "k", nil)
		c.wantQuarantine(ctx, h, r, clash.Quarantine())
	}
}

func linearWhileWriting(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	r := c.resource()
	o := ownerOf(r, 7, "")
	n := c.rounds(20)
	acked := make(chan sdk.Segment, n) // a reader takes each one
	done := make(chan struct{})
	c.parallel(5, func(i int) {
		if i == 0 {
			defer close(done)
			defer close(acked)
			for seg := sdk.Segment(1); seg <= sdk.Segment(n); seg++ {
				op := sdk.OperationID("op-" + seg.String())
				c.accept(ctx, hs[0], o.put(seg, op, "k", fmt.Sprintf("%06d", seg)))
				acked <- seg
			}
			return
		}
		for seg := range acked {
			op := sdk.OperationID("op-" + seg.String())
			c.wantReceipt(ctx, hs[i], o.put(seg, op, "k", fmt.Sprintf("%06d", seg)))
			if v, err := hs[i].read(ctx, r, "k"); err != nil || string(v) < fmt.Sprintf("%06d", seg) {
				c.errorf(fmt.Sprintf("%06d or later", seg), "Read: %s, error %v", showBytes(v), err)
			}
			if s, err := hs[i].inspect(ctx, r); err != nil || s.Segment < seg {
				c.errorf("segment "+seg.String()+" or later", "Inspect: %s, error %v", showState(s), err)
			}
		}
	})
}

func durableReopen(ctx context.Context, c *C) {
	const n = 20
	h := c.fresh(ctx, sdk.OpenOptions{})
	rs := make([]sdk.ResourceID, n)
	before := make([][]string, n)
	ops := []sdk.OperationID{"op-1", "op-2", "op-3", "never"}
	keys := []string{"k", "gone", "never"}
	for i := range rs {
		rs[i] = c.resource()
	}
	c.spread(ctx, n, n, func(i int) {
		a, b := ownerOf(rs[i], 7, ""), ownerOf(rs[i], 1<<53+1, "")
		c.accept(ctx, h, a.mutation(1, "op-1", []byte("one"), sdk.Put("gone", []byte("1"))))
		c.accept(ctx, h, b.mutation(1, "op-2", nil, sdk.Delete("gone"), sdk.Put("k", []byte("\x00\xff binary"))))
		c.accept(ctx, h, b.mutation(2, "op-3", make([]byte, 1000)))
		c.expect(ctx, h, b.put(2, "op-3", "k", "clash"), sdk.Quarantined)
		before[i] = c.view(ctx, h, rs[i], ops, keys)
	})
	c.reopenAll(ctx, h)
	again := c.fresh(ctx, sdk.OpenOptions{})
	for i, r := range rs {
		c.unchanged(before[i], c.view(ctx, again, r, ops, keys), "closing and opening again")
		b := ownerOf(r, 1<<53+1, "")
		c.refuse(ctx, again, ownerOf(r, 1<<53, "").put(1, "late", "k", "late"), sdk.StaleOwner, b.state(2), nil)
		c.accept(ctx, again, b.put(3, "op-4", "k", "4"))
	}
}

func durableClose(ctx context.Context, c *C) {
	const writers, writes = 6, 12
	h := c.fresh(ctx, sdk.OpenOptions{})
	type sent struct {
		m    *sdk.Mutation
		code sdk.Code
	}
	var all [writers][]sent
	half := make(chan struct{}, writers*writes)
	c.parallel(writers+1, func(i int) {
		if i == writers {
			for range writers * writes / 3 {
				select {
				case <-half:
				case <-ctx.Done():
				}
			}
			if err := h.close(); err != nil {
				c.errorf("nil", "Close: %v", err)
			}
			return
		}
		r := c.resource()
		o := ownerOf(r, 7, "")
		for seg := sdk.Segment(1); seg <= writes; seg++ {
			m := o.put(seg, sdk.OperationID("op-"+seg.String()), "k-"+seg.String(), "v")
			out, _ := h.apply(ctx, m)
			all[i] = append(all[i], sent{m, out.Code})
			half <- struct{}{}
		}
	})
	if ctx.Err() != nil {
		return
	}
	after := c.handle(ctx, 0)
	open := 0
	for _, ss := range all {
		for _, s := range ss {
			switch s.code {
			case sdk.Accepted, sdk.Replayed:
				c.wantReceipt(ctx, after, s.m)
				c.wantValue(ctx, after, s.m.Resource, "k-"+s.m.Segment.String(), []byte("v"))
			case sdk.MutationUnknown:
				open++
			case sdk.NotApplied, sdk.Closed, sdk.SegmentSkipped: // skipped: the one before was not applied
				c.wantNoReceipt(ctx, after, s.m.Resource, s.m.Operation)
				c.wantValue(ctx, after, s.m.Resource, "k-"+s.m.Segment.String(), nil)
			default:
				c.errorf("ACCEPTED, NOT_APPLIED, CLOSED or MUTATION_UNKNOWN", "%s while the handle is closed", s.code)
			}
		}
	}
	c.figure("unknown", int64(open))
}
