package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/fencedstore/fencedstore/sdk"
)

// racers is how many independent handles race.
const racers = 8

func raceCases() []Case {
	return []Case{
		{ID: "races/first-write", Law: sdk.F6, Run: raceFirstWrite,
			Explain: "Eight handles write to a resource that nobody wrote to, all under one grant at segment 1 with different operations: exactly one is accepted, the others are QUARANTINED, and all of the winner and nothing of the others is there."},
		{ID: "races/next-segment", Law: sdk.F3, Run: raceNextSegment,
			Explain: "Eight handles propose the next segment of one fence, round after round: exactly one wins each position, and every accepted write stays."},
		{ID: "races/takeover", Law: sdk.F1, Run: raceTakeover,
			Explain: "Eight handles take over with different tokens at once, while the old owner goes on: the highest token wins, whoever was refused left nothing, and the answers have an order that the laws explain."},
		{ID: "races/same-mutation", Law: sdk.F4, Run: raceSameMutation,
			Explain: "Eight handles send the identical mutation at once: one is ACCEPTED, seven are REPLAYED with its receipt, none is told anything else."},
		{ID: "races/same-operation", Law: sdk.F10, Run: raceSameOperation,
			Explain: "Eight owners with different tokens do the same operation at once: it has one receipt, one ACCEPTED, and everybody else is ALREADY_APPLIED or stale."},
		{ID: "races/linearizable", Law: sdk.F8, Run: raceMixed,
			Explain: "Eight handles write, repeat, conflict, take over and read on one resource, in an order drawn from the seed and the machine. The whole history is checked for linearizability against the laws; an unknown outcome may have taken effect at any time after, or never."},
	}
}

// rounds scales a race by profile.
func (c *C) rounds(quick int) int {
	n := quick
	switch c.e.opts.Profile {
	case Standard:
		n = 4 * quick
	case Release:
		n = 20 * quick
	}
	if c.e.h.Network {
		n = max(n/4, 4)
	}
	return n
}

// race opens racers handles and starts f on all of them at once.
func (c *C) race(hs []*handle, f func(i int, h *handle)) {
	start := make(chan struct{})
	ready := make(chan struct{}, len(hs))
	go func() {
		for range hs {
			<-ready
		}
		close(start)
	}()
	c.parallel(len(hs), func(i int) {
		ready <- struct{}{}
		<-start
		f(i, hs[i])
	})
}

func (c *C) racers(ctx context.Context) []*handle {
	var hs []*handle
	for i := range racers {
		hs = append(hs, c.handle(ctx, i))
	}
	return hs
}

// winner checks that exactly one racer was accepted and returns it.
func (c *C) winner(codes []sdk.Code, others ...sdk.Code) int {
	won := -1
	for i, code := range codes {
		switch {
		case code == sdk.Accepted && won < 0:
			won = i
		case code == sdk.Accepted:
			c.fatalf("exactly one ACCEPTED", "handles %d and %d both: %v", won+1, i+1, codes)
		default:
			ok := false
			for _, o := range others {
				ok = ok || code == o
			}
			if !ok {
				c.fatalf(fmt.Sprintf("one ACCEPTED, the others %v", others), "%v", codes)
			}
		}
	}
	if won < 0 {
		c.fatalf("exactly one ACCEPTED", "%v", codes)
	}
	return won
}

func raceFirstWrite(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	for range c.rounds(10) {
		r := c.resource()
		o := ownerOf(r, 7, "")
		codes := make([]sdk.Code, racers)
		ms := make([]*sdk.Mutation, racers)
		c.race(hs, func(i int, h *handle) {
			op := sdk.OperationID(fmt.Sprintf("op-%d", i))
			ms[i] = o.mutation(1, op, nil, sdk.Put("k", []byte(op)), sdk.Put("k-"+string(op), []byte(op)))
			out, _ := h.settle(ctx, ms[i], sdk.Accepted)
			codes[i] = out.Code
		})
		won := c.winner(codes, sdk.Quarantined)
		c.wantState(ctx, hs[0], r, o.state(1))
		for i, m := range ms {
			key := "k-" + string(m.Operation)
			if i == won {
				c.wantReceipt(ctx, hs[i], m)
				c.wantValue(ctx, hs[i], r, "k", []byte(m.Operation))
				c.wantValue(ctx, hs[i], r, key, []byte(m.Operation))
			} else {
				c.wantNoReceipt(ctx, hs[i], r, m.Operation)
				c.wantValue(ctx, hs[i], r, key, nil)
			}
		}
		if q, err := hs[0].quarantined(ctx, r); err != nil || len(q) != racers-1 {
			c.errorf(fmt.Sprintf("%d quarantine records", racers-1), "%d, error %v", len(q), err)
		}
	}
}

func raceNextSegment(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	r := c.resource()
	o := ownerOf(r, 7, "")
	var won []*sdk.Mutation
	for seg := sdk.Segment(1); seg <= sdk.Segment(c.rounds(12)); seg++ {
		codes := make([]sdk.Code, racers)
		ms := make([]*sdk.Mutation, racers)
		c.race(hs, func(i int, h *handle) {
			op := sdk.OperationID(fmt.Sprintf("op-%s-%d", seg, i))
			ms[i] = o.put(seg, op, "k-"+seg.String(), string(op))
			out, _ := h.settle(ctx, ms[i], sdk.Accepted)
			codes[i] = out.Code
		})
		won = append(won, ms[c.winner(codes, sdk.Quarantined)])
		c.wantState(ctx, hs[int(seg)%racers], r, o.state(seg))
	}
	for i, m := range won {
		c.wantReceipt(ctx, hs[i%racers], m)
		c.wantValue(ctx, hs[i%racers], r, "k-"+m.Segment.String(), []byte(m.Operation))
	}
	c.figure("positions", int64(len(won)))
}

func raceTakeover(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	for range c.rounds(10) {
		r := c.resource()
		old := ownerOf(r, 5, "")
		c.accept(ctx, hs[0], old.claim())
		var h history
		h.apply(ctx, hs[0], 0, old.claim()) // the history begins with the claim
		h.events[0].Output = answered{code: sdk.Accepted, receipt: ptr(receiptOf(old.claim()))}
		tokens := rand.New(rand.NewPCG(c.rng.Uint64(), 0)).Perm(racers)
		c.race(hs, func(i int, st *handle) {
			if i == 0 {
				for seg := sdk.Segment(2); seg <= 4; seg++ {
					h.apply(ctx, st, i, old.put(seg, sdk.OperationID("old-"+seg.String()), "k", "old"))
				}
				return
			}
			o := ownerOf(r, sdk.Token(6+tokens[i]), "")
			op := sdk.OperationID("op-" + o.fence.String())
			h.apply(ctx, st, i, o.put(1, op, "k", string(op)))
			h.inspect(ctx, st, i, r)
			h.read(ctx, st, i, r, "k")
		})
		for _, op := range []sdk.OperationID{"old-2", "old-3", "old-4", "op-6", "op-9", "op-13"} {
			h.receipt(ctx, hs[1], 1, r, op)
		}
		h.check(c)
		if c.failed() {
			return
		}
	}
}

func raceSameMutation(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	for round := range c.rounds(10) {
		r := c.resource()
		o := ownerOf(r, 7, "")
		m := o.claim()
		if round%2 == 1 {
			m = o.put(1, "op", "k", "v")
		}
		codes := make([]sdk.Code, racers)
		c.race(hs, func(i int, h *handle) {
			out, err := h.settle(ctx, m, sdk.Accepted)
			if codes[i] = out.Code; out.Code.Ok() {
				c.sameReceipt(out.Receipt, receiptOf(m))
			} else {
				c.errorf("ACCEPTED or REPLAYED", "%s", describeAnswer(out, err))
			}
		})
		c.winner(codes, sdk.Replayed)
		c.wantState(ctx, hs[1], r, o.state(1))
		c.wantReceipt(ctx, hs[1], m)
		c.wantQuarantine(ctx, hs[1], r)
	}
}

func raceSameOperation(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	for range c.rounds(10) {
		r := c.resource()
		codes := make([]sdk.Code, racers)
		ms := make([]*sdk.Mutation, racers)
		c.race(hs, func(i int, h *handle) {
			ms[i] = ownerOf(r, sdk.Token(7+i), "").put(1, "op", "k", "v")
			out, _ := h.settle(ctx, ms[i], sdk.Accepted)
			codes[i] = out.Code
		})
		won := c.winner(codes, sdk.AlreadyApplied, sdk.StaleOwner)
		c.wantReceipt(ctx, hs[0], ms[won])
		c.wantState(ctx, hs[0], r, ownerOf(r, ms[won].Fence, "").state(1))
		for i := range codes {
			if want := sdk.AlreadyApplied; i > won && codes[i] != want {
				c.errorf(want.String(), "%s for fence %d; fence %d was accepted", codes[i], 7+i, 7+won)
			}
		}
	}
}

func raceMixed(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	n := c.rounds(8)
	calls := 0
	for round := range n {
		r := c.resource()
		var h history
		seed := c.rng.Uint64()
		c.race(hs, func(i int, st *handle) {
			c.mixedRacer(ctx, &h, st, i, r, rand.New(rand.NewPCG(seed, uint64(i))))
		})
		calls += len(h.events)
		h.check(c)
		if c.failed() {
			return
		}
		c.progress(round+1, n)
	}
	c.figure("histories", int64(n))
	c.figure("calls", int64(calls))
}

// mixedRacer does what workers do, without looking left or right: the fence and
// segment that it tries are guesses from what it saw last.
func (c *C) mixedRacer(ctx context.Context, h *history, st *handle, i int, r sdk.ResourceID, rng *rand.Rand) {
	seen := sdk.FenceState{Highest: 1}
	var last *sdk.Mutation
	unknown := 0
	for step := range 7 {
		if unknown > 0 && rng.IntN(2) == 0 {
			return // one unknown per racer is enough for one history
		}
		switch k := rng.IntN(10); {
		case k < 5:
			o, seg := ownerOf(r, seen.Highest, ""), seen.Segment+1
			if rng.IntN(3) == 0 {
				o, seg = ownerOf(r, seen.Highest+sdk.Token(1+rng.IntN(3)), ""), 1
			}
			op := sdk.OperationID(fmt.Sprintf("op-%d-%d", i, step))
			if rng.IntN(4) == 0 {
				op = sdk.OperationID(fmt.Sprintf("op-%d", rng.IntN(3)))
			}
			last = o.put(seg, op, fmt.Sprintf("k%d", rng.IntN(2)), string(op))
		case k < 7 && last != nil:
		case k == 7:
			h.inspect(ctx, st, i, r)
			continue
		case k == 8:
			h.receipt(ctx, st, i, r, sdk.OperationID(fmt.Sprintf("op-%d", rng.IntN(3))))
			continue
		default:
			h.read(ctx, st, i, r, fmt.Sprintf("k%d", rng.IntN(2)))
			continue
		}
		out, _ := h.apply(ctx, st, i, last)
		if !out.Observed.Absent() {
			seen = out.Observed
		}
		if out.Code == sdk.MutationUnknown {
			unknown++
		}
	}
}
