package conformance

import (
	"context"
	"fmt"

	"github.com/fencedstore/fencedstore/sdk"
)

func replayCases() []Case {
	return []Case{
		{ID: "replay/original-receipt", Law: sdk.F4, Run: replayReceipt,
			Explain: "An accepted mutation sent again, at once and after others, from this handle and another, is REPLAYED with the original receipt, byte for byte, and nothing changes."},
		{ID: "replay/no-second-effect", Law: sdk.F4, Run: replayNoSecondEffect,
			Explain: "A replay does not carry its effects out again: a key that a later mutation changed or deleted stays as it is."},
		{ID: "replay/later-attempt-has-other-clock", Law: sdk.F4, Run: replayOtherClock,
			Explain: "The same mutation admitted again later, by another gate with another clock, is still the same: REPLAYED, with the time and owner of the first."},
		{ID: "replay/hook-not-run-twice", Law: sdk.F4, Needs: []sdk.Capability{sdk.CapApplyTx}, Run: replayHook, without: hookUnsupported,
			Explain: "Caller's code in the transaction counts its runs: once accepted, a replay does not commit it again and returns the first result."},
		{ID: "claim/accepted-then-replayed", Law: sdk.F4, Run: claimReplayed,
			Explain: "A claim raises the fence without effects; sent again it is REPLAYED. Also after other segments, and from another handle."},
		{ID: "claim/never-quarantined", Law: sdk.F5, Run: claimNeverQuarantined,
			Explain: "When the fence is this grant's already by another mutation, a claim changes nothing, is NOT_APPLIED with the state observed, and leaves no quarantine record."},
	}
}

func replayReceipt(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	o := ownerOf(r, 7, "")
	var ms []*sdk.Mutation
	var ops []sdk.OperationID
	for seg := sdk.Segment(1); seg <= 4; seg++ {
		op := sdk.OperationID("op-" + seg.String())
		m := o.put(seg, op, "k-"+seg.String(), string(op))
		c.accept(ctx, h, m)
		c.again(ctx, h, m)
		ms, ops = append(ms, m), append(ops, op)
	}
	keys := []string{"k-1", "k-2", "k-3", "k-4"}
	before := c.view(ctx, h, r, ops, keys)
	for _, m := range ms {
		c.again(ctx, other, m)
		c.again(ctx, h, m)
	}
	c.unchanged(before, c.view(ctx, h, r, ops, keys), "replays")
	c.wantState(ctx, h, r, o.state(4))
}

// again sends an accepted mutation once more.
func (c *C) again(ctx context.Context, h *handle, m *sdk.Mutation) {
	out, _ := c.expect(ctx, h, m, sdk.Replayed)
	c.sameReceipt(out.Receipt, receiptOf(m))
}

func replayNoSecondEffect(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	first := o.mutation(1, "op-1", nil, sdk.Put("k", []byte("1")), sdk.Put("gone", []byte("1")))
	c.accept(ctx, h, first)
	second := o.mutation(2, "op-2", nil, sdk.Put("k", []byte("2")), sdk.Delete("gone"))
	c.accept(ctx, h, second)
	c.again(ctx, h, first)
	c.wantValue(ctx, h, r, "k", []byte("2"))
	c.wantValue(ctx, h, r, "gone", nil)
	c.accept(ctx, h, o.mutation(3, "op-3", nil, sdk.Put("gone", []byte("3"))))
	c.again(ctx, h, second)
	c.wantValue(ctx, h, r, "gone", []byte("3"))
	c.wantState(ctx, h, r, o.state(3))
}

func replayOtherClock(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	m := o.put(1, "op-1", "k", "1")
	c.accept(ctx, h, m)
	later := *m
	later.Time = m.Time.Add(1e9)
	later.Generations = sdk.Generations{Policy: 9, Trust: 9}
	out, _ := c.expect(ctx, h, &later, sdk.Replayed)
	c.sameReceipt(out.Receipt, receiptOf(m))
	c.wantReceipt(ctx, h, m)
	c.wantState(ctx, h, r, o.state(1))
}

// hooked is a mutation whose effects are code; run counts how often it ran.
func (o owner) hooked(seg sdk.Segment, op sdk.OperationID, f sdk.Hook) *sdk.Mutation {
	m := o.mutation(seg, op, nil)
	m.Payload = sdk.InputDigest(op, []byte("input"))
	m.Hook = f
	return m
}

func replayHook(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	runs := 0
	m := o.hooked(1, "op-1", func(context.Context, any) ([]byte, error) {
		runs++
		return fmt.Appendf(nil, "run %d", runs), nil
	})
	out, _ := c.expect(ctx, h, m, sdk.Accepted)
	want := receiptOf(m)
	want.Result = fmt.Appendf(nil, "run %d", runs)
	if runs == 0 {
		c.errorf("the code runs in the transaction", "ACCEPTED without running it")
	}
	c.sameReceipt(out.Receipt, want)
	again, _ := c.expect(ctx, h, m, sdk.Replayed)
	c.sameReceipt(again.Receipt, want)
	got, err := h.receipt(ctx, r, "op-1")
	if err != nil {
		c.errorf(showReceipt(&want), "Receipt: %v", err)
		return
	}
	c.sameReceipt(&got, want)
}

// hookUnsupported is the other side of apply_tx.
func hookUnsupported(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	ran := false
	m := ownerOf(r, 7, "").hooked(1, "op-1", func(context.Context, any) ([]byte, error) {
		ran = true
		return nil, nil
	})
	c.refuse(ctx, h, m, sdk.Unsupported, sdk.FenceState{}, nil)
	if ran {
		c.errorf("UNSUPPORTED before anything ran", "the code ran")
	}
	c.wantState(ctx, h, r, sdk.FenceState{})
	c.wantNoReceipt(ctx, h, r, "op-1")
}

func claimReplayed(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	c.accept(ctx, h, a.claim())
	c.again(ctx, h, a.claim())
	c.wantState(ctx, h, r, a.state(1))
	c.accept(ctx, h, a.put(2, "op-2", "k", "2"))
	c.again(ctx, c.handle(ctx, 1), a.claim())
	c.wantState(ctx, h, r, a.state(2))
	c.accept(ctx, h, b.claim())
	c.wantState(ctx, h, r, b.state(1))
	c.wantValue(ctx, h, r, "k", []byte("2"))
}

func claimNeverQuarantined(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	c.accept(ctx, h, a.claim())
	// B's first write is not a claim; claiming afterwards is a read.
	c.accept(ctx, h, b.put(1, "op-b", "k", "b"))
	out, err := h.apply(ctx, b.claim())
	if out.Code != sdk.NotApplied || out.Observed != b.state(1) {
		c.errorf("NOT_APPLIED with the state observed: the fence is this grant's already", "%s", describeAnswer(out, err))
	}
	c.wantQuarantine(ctx, h, r)
	c.wantState(ctx, h, r, b.state(1))
	c.wantNoReceipt(ctx, h, r, sdk.ClaimID(b.grant))
	c.wantValue(ctx, h, r, "k", []byte("b"))
}
