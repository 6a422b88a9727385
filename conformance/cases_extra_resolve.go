package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

func resolveCases() []Case {
	return []Case{
		{ID: "honest/cancelled-while-held", Law: sdk.O1, Needs: []sdk.Capability{sdk.CapApplyTx}, Run: honestHeld, without: hookUnsupported,
			Explain: "Writes are cancelled while caller's code stands still inside their resource's transaction. What was NOT_APPLIED is not there once the resource is free, nor after more writes; none is told a verdict that nobody reached."},
		{ID: "resolve/attempts-before-claim", Law: sdk.O3, Run: resolveBefore,
			Explain: "The old owner's attempts have returned, cancelled somewhere or not, whatever they were told, before a new owner claims. What its lookups do not find lands nowhere, then or later; what they find is there."},
		{ID: "resolve/attempts-under-way", Law: sdk.O3, Run: resolveUnderWay,
			Explain: "The old owner's attempts have begun, and not returned, when a new owner claims. What its lookups do not find lands nowhere, then or later; the claim stays the newest fence."},
		{ID: "resolve/unreadable-is-not-absent", Law: sdk.O3, Run: resolveUnreadable,
			Explain: "A receipt that could not be read, because the context was over before or ended meanwhile, is never NOT_FOUND."},
	}
}

func honestHeld(ctx context.Context, c *C) {
	hs := []*handle{c.handle(ctx, 0), c.handle(ctx, 1)}
	r := c.resource()
	o := ownerOf(r, 8, "")
	var ms []*sdk.Mutation
	codes := make([]sdk.Code, 6)
	for i := range codes {
		op := sdk.OperationID(fmt.Sprintf("waits-%d", i))
		ms = append(ms, o.put(1, op, "k-"+string(op), "v"))
	}
	c.held(ctx, hs[0], r, func() bool {
		c.prompt(ctx, "writes that are cancelled while another holds the resource", func(ctx context.Context) error {
			c.parallel(len(ms), func(i int) {
				wctx, cancel := endSoon(ctx, []string{"cancelled", "expired"}[i/2%2], c.patience()/100)
				defer cancel()
				out, err := hs[i%2].apply(wctx, ms[i])
				codes[i] = out.Code
				switch out.Code {
				case sdk.NotApplied, sdk.MutationUnknown, sdk.Accepted, sdk.Quarantined:
				default:
					c.errorf("NOT_APPLIED or MUTATION_UNKNOWN", "%s", describeAnswer(out, err))
				}
			})
			return nil
		})
		accepted := 0
		for _, code := range codes {
			if code == sdk.Accepted {
				accepted++
			}
		}
		// A conflict is with one that was accepted, or whose answer was cut off.
		if accepted > 1 || accepted == 0 && slices.Contains(codes, sdk.Quarantined) && !slices.Contains(codes, sdk.MutationUnknown) {
			c.errorf("at most one accepted, and conflicts only with it", "%v", codes)
		}
		return accepted > 0 || slices.Contains(codes, sdk.Quarantined)
	})
	if c.failed() {
		return
	}
	for round := range 2 {
		for i, m := range ms {
			if codes[i] == sdk.NotApplied {
				c.wantNoReceipt(ctx, hs[i%2], r, m.Operation)
				c.wantValue(ctx, hs[i%2], r, "k-"+string(m.Operation), nil)
			}
		}
		if round == 0 {
			c.accept(ctx, hs[1], ownerOf(r, 9, "").claim())
		}
	}
}

// oldAttempts are proposals of the next segment by an owner whose fence is
// about to be passed: each another operation, so that one lands at the most.
func (c *C) oldAttempts(ctx context.Context, h *handle, n int) (r sdk.ResourceID, claim *sdk.Mutation, late []*sdk.Mutation) {
	r = c.resource()
	a := ownerOf(r, 7, "")
	c.accept(ctx, h, a.claim())
	for i := range n {
		op := sdk.OperationID(fmt.Sprintf("op-%d", i))
		late = append(late, a.put(2, op, "k-"+string(op), "late"))
	}
	return r, ownerOf(r, 8, "").claim(), late
}

func resolveBefore(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	typical := c.typical(ctx, h)
	n := c.rounds(40)
	seed := c.rng.Uint64()
	c.spread(ctx, n, 8, func(i int) {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		r, claim, late := c.oldAttempts(ctx, h, 3)
		codes := make([]sdk.Code, len(late))
		for k, m := range late {
			cctx, cancel := cancelPoint(ctx, rng, typical)
			out, _ := h.apply(cctx, m)
			cancel()
			codes[k] = out.Code
		}
		c.accept(ctx, other, claim)
		for k, m := range late {
			_, lookup := other.receipt(ctx, r, m.Operation)
			c.resolved(ctx, []*handle{h, other}[k%2], m, lookup, codes[k])
			if codes[k].Ok() && lookup != nil {
				c.errorf("the receipt of an ACCEPTED write", "Receipt: %v", lookup)
			}
		}
		c.wantState(ctx, h, r, ownerOf(r, 8, "").state(1))
	})
	c.figure("claims", int64(n))
}

func resolveUnderWay(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	n := c.rounds(20)
	found := 0
	for round := range n {
		r, claim, late := c.oldAttempts(ctx, hs[0], 4)
		codes := make([]sdk.Code, len(late))
		lookups := make([]error, len(late))
		begun := make(chan struct{}, len(late))
		c.parallel(len(late)+1, func(i int) {
			if i < len(late) {
				begun <- struct{}{}
				out, _ := hs[i].apply(ctx, late[i])
				codes[i] = out.Code
				return
			}
			for range late {
				<-begun
			}
			if round%2 == 1 {
				pause(ctx, 50*time.Microsecond) // so that some land before
			}
			c.accept(ctx, hs[i], claim)
			for k := range late {
				_, lookups[k] = hs[i].receipt(ctx, r, late[k].Operation)
			}
		})
		for k, m := range late {
			c.resolved(ctx, hs[7], m, lookups[k], codes[k])
			if lookups[k] == nil {
				found++
			}
		}
		c.wantState(ctx, hs[6], r, ownerOf(r, 8, "").state(1))
		if c.failed() || ctx.Err() != nil {
			return
		}
	}
	c.figure("found", int64(found))
	c.figure("claims", int64(n))
}

func resolveUnreadable(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	m := ownerOf(r, 7, "").put(1, "op-1", "k", "1")
	c.accept(ctx, h, m)
	check := func(what string, got sdk.Receipt, err error) {
		switch {
		case err == nil:
			c.sameReceipt(&got, receiptOf(m))
		case sdk.CodeOf(err) == sdk.NotFound:
			c.errorf("the receipt, or NOT_APPLIED: it could not be read", "%s: %v", what, err)
		}
	}
	for _, e := range endedContexts(ctx) {
		got, err := h.receipt(e.ctx, r, "op-1")
		check(e.name+" before", got, err)
		if err == nil {
			c.errorf("an error", "%s before: no error", e.name)
		}
	}
	began := time.Now()
	for range 8 {
		c.wantReceipt(ctx, h, m)
	}
	typical := time.Since(began) / 8
	for range c.rounds(60) {
		cctx, cancel := cancelPoint(ctx, c.rng, typical)
		got, err := h.receipt(cctx, r, "op-1")
		cancel()
		check("cancelled meanwhile", got, err)
	}
}
