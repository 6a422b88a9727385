package conformance

import (
	"cmp"
	"context"
	"slices"

	"github.com/fencedstore/fencedstore/sdk"
)

func conflictCases() []Case {
	return []Case{
		{ID: "conflict/position-quarantined", Law: sdk.F5, Run: conflictPosition,
			Explain: "An accepted segment with another operation, payload or result is QUARANTINED: receipt and data stay, and the record is there when the answer is."},
		{ID: "conflict/operation-quarantined", Law: sdk.F5, Run: conflictOperation,
			Explain: "An accepted operation ID with another payload, as the next segment or under a new fence, is QUARANTINED; the segment is not used up and the fence does not move."},
		{ID: "conflict/same-attempt-one-record", Law: sdk.F5, Run: conflictIdempotent,
			Explain: "The same conflicting attempt sent ten times, from two handles, leaves one record; different attempts leave one each, in order."},
		{ID: "conflict/records-are-durable", Law: sdk.F5, Needs: []sdk.Capability{sdk.CapDurable}, Run: conflictDurable,
			Explain: "After QUARANTINED was answered every handle is closed and the store opened again: the record is there."},
		{ID: "conflict/resolve-marks-record", Law: sdk.F5, Run: conflictResolve,
			Explain: "A fenced mutation that carries sdk.Resolve marks the record with its operation, in one step with its other effects. The record stays; settling it again keeps the first operation."},
		{ID: "conflict/capped-with-counter", Law: sdk.F5, Run: conflictCapped,
			Explain: "Beyond Limits.Quarantine records are only counted: the last element says how many, the kept ones stay, and writes go on."},
		{ID: "conflict/outside-the-head", Law: sdk.F5, Run: conflictOutsideHead,
			Explain: "A conflicting attempt that is recorded changes neither fence nor segment: the owner's next write is accepted as if nothing had been."},
	}
}

func conflictPosition(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	o := ownerOf(r, 7, "")
	first := o.put(1, "op-1", "k", "1")
	c.accept(ctx, h, first)
	second := o.put(2, "op-2", "k", "2")
	c.accept(ctx, h, second)
	otherResult := *first
	otherResult.Result = []byte("another result")
	otherResult.Payload = sdk.PayloadDigest("op-1", otherResult.Result, first.Effects)
	attempts := []struct {
		m     *sdk.Mutation
		prior *sdk.Mutation
	}{
		{o.put(1, "op-1", "k", "something else"), first},
		{&otherResult, first},
		{o.put(1, "other", "k", "1"), nil},
		{o.put(1, "op-2", "k", "2"), second}, // another position's operation
		{o.put(2, "op-1", "k", "1"), first},
		{o.put(2, "op-2", "other key", "2"), second},
	}
	ops := []sdk.OperationID{"op-1", "op-2", "other"}
	keys := []string{"k", "other key"}
	var want []sdk.Quarantine
	for i, a := range attempts {
		from := []*handle{h, other}[i%2]
		var prior *sdk.Receipt
		if a.prior != nil {
			prior = ptr(receiptOf(a.prior))
		}
		c.refuse(ctx, from, a.m, sdk.Quarantined, o.state(2), prior)
		want = append(want, a.m.Quarantine())
		sortQuarantine(want)
		c.wantQuarantine(ctx, other, r, want...)
	}
	c.wantState(ctx, h, r, o.state(2))
	c.wantReceipt(ctx, h, first)
	c.wantReceipt(ctx, h, second)
	c.wantNoReceipt(ctx, h, r, ops[2])
	c.wantValue(ctx, h, r, keys[0], []byte("2"))
	c.wantValue(ctx, h, r, keys[1], nil)
}

func sortQuarantine(q []sdk.Quarantine) {
	slices.SortFunc(q, func(a, b sdk.Quarantine) int {
		return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Segment, b.Segment),
			cmp.Compare(a.Operation, b.Operation), slices.Compare(a.Payload[:], b.Payload[:]))
	})
}

func conflictOperation(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	first := a.put(1, "op-1", "k", "1")
	c.accept(ctx, h, first)
	prior := ptr(receiptOf(first))
	next, takeover := a.put(2, "op-1", "k", "2"), b.put(1, "op-1", "k", "3")
	c.refuse(ctx, h, next, sdk.Quarantined, a.state(1), prior)
	c.refuse(ctx, h, takeover, sdk.Quarantined, a.state(1), prior)
	c.wantQuarantine(ctx, h, r, next.Quarantine(), takeover.Quarantine())
	c.wantState(ctx, h, r, a.state(1))
	c.wantReceipt(ctx, h, first)
	c.wantValue(ctx, h, r, "k", []byte("1"))
	c.accept(ctx, h, a.put(2, "op-2", "k", "4"))
	c.accept(ctx, h, b.put(1, "op-3", "k", "5"))
}

func conflictIdempotent(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, h, o.put(1, "op-1", "k", "1"))
	clash := o.put(1, "op-1", "k", "clash")
	later := *clash
	later.Time = clash.Time.Add(1e9)
	for range 5 {
		c.expect(ctx, h, clash, sdk.Quarantined)
		c.expect(ctx, other, &later, sdk.Quarantined)
	}
	c.wantQuarantine(ctx, h, r, clash.Quarantine())
	want := []sdk.Quarantine{clash.Quarantine()}
	for _, v := range []string{"a", "b", "c"} {
		m := o.put(1, "op-1", "k", v)
		c.expect(ctx, other, m, sdk.Quarantined)
		want = append(want, m.Quarantine())
	}
	sortQuarantine(want)
	c.wantQuarantine(ctx, h, r, want...)
}

func conflictDurable(ctx context.Context, c *C) {
	h := c.fresh(ctx, sdk.OpenOptions{})
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, h, o.put(1, "op-1", "k", "1"))
	var want []sdk.Quarantine
	for _, op := range []sdk.OperationID{"op-1", "op-2"} {
		m := o.put(1, op, "k", "clash")
		c.expect(ctx, h, m, sdk.Quarantined)
		want = append(want, m.Quarantine())
	}
	c.reopenAll(ctx, h)
	c.wantQuarantine(ctx, c.fresh(ctx, sdk.OpenOptions{}), r, want...)
}

// reopenAll closes every handle of the suite and the given ones.
func (c *C) reopenAll(_ context.Context, hs ...*handle) {
	for _, h := range hs {
		if err := h.close(); err != nil {
			c.errorf("nil", "Close: %v", err)
		}
	}
	c.e.closePool()
	c.touch()
}

func conflictResolve(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	c.accept(ctx, h, a.put(1, "op-1", "k", "1"))
	one, two := a.put(1, "op-1", "k", "clash"), a.put(1, "op-2", "k", "clash")
	c.expect(ctx, h, one, sdk.Quarantined)
	c.expect(ctx, h, two, sdk.Quarantined)
	settled := one.Quarantine()
	m := b.mutation(1, "settle", nil, sdk.Resolve(settled), sdk.Put("k", []byte("settled")))
	c.accept(ctx, h, m)
	settled.ResolvedBy = "settle"
	c.wantQuarantine(ctx, h, r, settled, two.Quarantine())
	c.wantValue(ctx, h, r, "k", []byte("settled"))
	c.accept(ctx, h, b.mutation(2, "settle again", nil, sdk.Resolve(settled)))
	c.wantQuarantine(ctx, c.handle(ctx, 1), r, settled, two.Quarantine())
	c.expect(ctx, h, one, sdk.StaleOwner)
	// A record that does not exist settles nothing and makes none.
	ghost := settled
	ghost.Operation = "never was"
	out, err := h.apply(ctx, b.mutation(3, "settle a ghost", nil, sdk.Resolve(ghost)))
	if !out.Code.Ok() && out.Code != sdk.Invalid && out.Code != sdk.NotApplied {
		c.errorf("ACCEPTED or INVALID", "%s", describeAnswer(out, err))
	}
	c.wantQuarantine(ctx, h, r, settled, two.Quarantine())
}

func conflictCapped(ctx context.Context, c *C) {
	limit := c.Description().Limits.Quarantine
	const most = 2000
	if limit <= 0 || limit > most {
		c.notProven("the store keeps %d records per resource (0: no limit stated); the suite fills up to %d", limit, most)
	}
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, h, o.put(1, "op-1", "k", "1"))
	clash := func(i int) *sdk.Mutation { return o.put(1, "op-1", "k", "clash "+sdk.Token(i).String()) }
	const over = 3
	first := clash(0)
	c.expect(ctx, h, first, sdk.Quarantined)
	c.spread(ctx, limit-1, 32, func(i int) { c.expect(ctx, h, clash(i+1), sdk.Quarantined) })
	full, err := h.quarantined(ctx, r)
	if err != nil || len(full) != limit || full[len(full)-1].Dropped != 0 {
		c.fatalf(sdk.Token(limit).String()+" records", "Quarantined: %d records, error %v", len(full), err)
	}
	for i := range over {
		c.expect(ctx, h, clash(limit+i), sdk.Quarantined)
	}
	c.expect(ctx, h, first, sdk.Quarantined) // a record that is kept is not counted
	got, err := c.handle(ctx, 1).quarantined(ctx, r)
	want := append(slices.Clone(full), sdk.Quarantine{Resource: r, Dropped: over})
	if err != nil || !slices.Equal(quarantineLines(got), quarantineLines(want)) {
		lost, gained := difference(quarantineLines(got), quarantineLines(want))
		c.errorf("all "+sdk.Token(limit).String()+" records and a count of 3: "+orNone(gained), "Quarantined: %d elements, error %v; instead %s", len(got), err, orNone(lost))
	} else if last := got[len(got)-1]; last != (sdk.Quarantine{Resource: r, Dropped: over}) {
		c.errorf("a last element that is zero but for resource and count", "%+v", last)
	}
	c.accept(ctx, h, o.put(2, "op-2", "k", "2"))
	c.accept(ctx, h, o.mutation(3, "settle", nil, sdk.Resolve(first.Quarantine())))
}

func conflictOutsideHead(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	for seg := sdk.Segment(1); seg <= 5; seg++ {
		op := sdk.OperationID("op-" + seg.String())
		m := o.put(seg, op, "k", string(op))
		c.accept(ctx, h, m)
		for _, v := range []string{"x", "y"} {
			c.refuse(ctx, h, o.put(seg, op, "k", v), sdk.Quarantined, o.state(seg), ptr(receiptOf(m)))
		}
		c.wantState(ctx, h, r, o.state(seg))
		c.wantValue(ctx, h, r, "k", []byte(op))
	}
}
