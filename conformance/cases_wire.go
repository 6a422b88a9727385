package conformance

import (
	"context"
	"fmt"

	"github.com/fencedstore/fencedstore/sdk"
)

func wireCases() []Case {
	dial := []sdk.Capability{sdk.CapDial}
	return []Case{
		{ID: "wire/cut-while-sending", Law: sdk.O1, Needs: dial, Run: wireCutSending, without: wireUndeclared,
			Explain: "The connection is cut after each of a sweep of bytes sent. NOT_APPLIED is answered only where the receipt never appears; in doubt it is MUTATION_UNKNOWN."},
		{ID: "wire/lost-acknowledgement", Law: sdk.O2, Needs: dial, Run: wireLostAck, without: wireUndeclared,
			Explain: "The connection is cut after each of a sweep of bytes received, so that a write lands and its acknowledgement is lost. The answer is ACCEPTED, REPLAYED or MUTATION_UNKNOWN, never a refusal that the write's own success brought about; first write, next segment, takeover and claim."},
		{ID: "wire/lost-reads", Law: sdk.O3, Needs: dial, Run: wireLostReads, without: wireUndeclared,
			Explain: "The connection is cut while receipts are read: the answer is the receipt or NOT_APPLIED, never NOT_FOUND for one that is there."},
		{ID: "wire/cancelled-while-silent", Law: sdk.O4, Needs: dial, Run: wireSilent, without: wireUndeclared,
			Explain: "Nothing comes back from the store, and the call is cancelled or runs into its deadline: it returns promptly, with an answer that is true afterwards."},
	}
}

// cutPoints sweep from nothing to just beyond what one call takes, finely where
// it ends.
func cutPoints(bytes int64, n int) []int64 {
	var out []int64
	for i := range n {
		out = append(out, bytes*int64(i)/int64(n))
	}
	return append(out, max(0, bytes-1), bytes, bytes+1)
}

// wired is a handle whose connections can be cut.
type wired struct {
	h *handle
	w *wire
}

func (c *C) wired(ctx context.Context) wired {
	w := newWire()
	h := c.fresh(ctx, sdk.OpenOptions{Dial: w.dial})
	c.accept(ctx, h, ownerOf(c.resource(), 7, "").put(1, "warm-up", "k", "v"))
	return wired{h, w}
}

// paths are the ways on which a write takes effect; each makes the mutation to
// cut from a resource of its own.
func (c *C) paths() map[string]func(ctx context.Context, h *handle) *sdk.Mutation {
	return map[string]func(ctx context.Context, h *handle) *sdk.Mutation{
		"first write": func(context.Context, *handle) *sdk.Mutation {
			return ownerOf(c.resource(), 7, "").put(1, "op", "k", "v")
		},
		"next segment": func(ctx context.Context, h *handle) *sdk.Mutation {
			o := ownerOf(c.resource(), 7, "")
			c.accept(ctx, h, o.claim())
			return o.put(2, "op", "k", "v")
		},
		"takeover": func(ctx context.Context, h *handle) *sdk.Mutation {
			r := c.resource()
			c.accept(ctx, h, ownerOf(r, 7, "").put(1, "before", "k", "before"))
			return ownerOf(r, 8, "").put(1, "op", "k", "v")
		},
		"claim": func(ctx context.Context, h *handle) *sdk.Mutation {
			r := c.resource()
			c.accept(ctx, h, ownerOf(r, 7, "").put(1, "before", "k", "before"))
			return ownerOf(r, 8, "").claim()
		},
	}
}

func wireCutSending(ctx context.Context, c *C) {
	c.sweep(ctx, func(x wired, at int64) { x.w.cutAfter(at, -1) }, func(w *wire) int64 { return w.sent.Load() })
}

func wireLostAck(ctx context.Context, c *C) {
	c.sweep(ctx, func(x wired, at int64) { x.w.cutAfter(-1, at) }, func(w *wire) int64 { return w.received.Load() })
}

// sweep cuts at each point of each path, and holds the answer against what is
// there afterwards.
func (c *C) sweep(ctx context.Context, cut func(wired, int64), cost func(*wire) int64) {
	x, sure := c.wired(ctx), c.handle(ctx, 0)
	paths := c.paths()
	var cuts, unknown int64
	for _, name := range sortedKeys(paths) {
		whole := paths[name](ctx, sure)
		x.w.cutAfter(-1, -1)
		c.accept(ctx, x.h, whole)
		for _, at := range cutPoints(cost(x.w), c.rounds(12)) {
			cuts++
			m := paths[name](ctx, sure)
			cut(x, at)
			out, err := x.h.apply(ctx, m)
			x.w.cutAfter(-1, -1)
			_, rerr := sure.receipt(ctx, m.Resource, m.Operation)
			what := fmt.Sprintf("%s, cut at byte %d: %s", name, at, describeAnswer(out, err))
			switch out.Code {
			case sdk.Accepted, sdk.Replayed:
				if rerr != nil {
					c.errorf("the receipt", "%s, and Receipt: %v", what, rerr)
				}
			case sdk.NotApplied:
				if rerr == nil {
					c.fail(sdk.O1, what+", and the receipt is there", "NOT_APPLIED only where nothing was or will be applied")
				}
			case sdk.MutationUnknown:
				unknown++
			default:
				c.errorf("ACCEPTED, REPLAYED, MUTATION_UNKNOWN, or NOT_APPLIED where it is proved", "%s", what)
			}
			final, ferr := sure.settle(ctx, m, sdk.Accepted)
			if !final.Code.Ok() || out.Code == sdk.NotApplied && final.Code == sdk.Replayed {
				c.errorf("ACCEPTED or REPLAYED once the connection is good, and not REPLAYED after NOT_APPLIED", "%s, then %s", what, describeAnswer(final, ferr))
			}
			c.wantReceipt(ctx, sure, m)
			if c.failed() || ctx.Err() != nil {
				return
			}
		}
	}
	c.figure("cuts", cuts)
	c.figure("unknown", unknown)
}

func wireLostReads(ctx context.Context, c *C) {
	x, sure := c.wired(ctx), c.handle(ctx, 0)
	o := ownerOf(c.resource(), 7, "")
	m := o.put(1, "op", "k", "v")
	c.accept(ctx, sure, m)
	x.w.cutAfter(-1, -1)
	c.wantReceipt(ctx, x.h, m)
	for _, sent := range []bool{true, false} {
		cost := x.w.received.Load()
		if sent {
			cost = x.w.sent.Load()
		}
		for _, at := range cutPoints(cost, c.rounds(12)) {
			if sent {
				x.w.cutAfter(at, -1)
			} else {
				x.w.cutAfter(-1, at)
			}
			got, err := x.h.receipt(ctx, o.resource, "op")
			s, serr := x.h.inspect(ctx, o.resource)
			x.w.cutAfter(-1, -1)
			if err == nil {
				c.sameReceipt(&got, receiptOf(m))
			} else {
				c.wantCode(fmt.Sprintf("Receipt, cut at byte %d", at), err, sdk.NotApplied)
			}
			if serr == nil && s != o.state(1) {
				c.errorf(showState(o.state(1)), "Inspect, cut at byte %d: %s", at, showState(s))
			}
		}
	}
}

func wireSilent(ctx context.Context, c *C) {
	x, sure := c.wired(ctx), c.handle(ctx, 0)
	for _, how := range []string{"cancelled", "expired"} {
		m := ownerOf(c.resource(), 7, "").put(1, "op", "k", "v")
		answered := make(chan sdk.Code, 1)
		x.w.hold(true)
		c.prompt(ctx, "a write that is "+how+" while the store is silent", func(ctx context.Context) error {
			ctx, cancel := endSoon(ctx, how, c.patience()/100)
			defer cancel()
			out, err := x.h.apply(ctx, m)
			if out.Code != sdk.NotApplied && out.Code != sdk.MutationUnknown {
				c.errorf("NOT_APPLIED or MUTATION_UNKNOWN", "%s: %s", how, describeAnswer(out, err))
			}
			answered <- out.Code
			return nil
		})
		c.prompt(ctx, "a read that is "+how+" while the store is silent", func(ctx context.Context) error {
			ctx, cancel := endSoon(ctx, how, c.patience()/100)
			defer cancel()
			_, err := x.h.inspect(ctx, m.Resource)
			c.wantCode("Inspect, "+how, err, sdk.NotApplied)
			return nil
		})
		x.w.hold(false)
		x.w.cut()
		if c.failed() {
			return
		}
		said := <-answered
		final, err := sure.settle(ctx, m, sdk.Accepted)
		if !final.Code.Ok() || said == sdk.NotApplied && final.Code == sdk.Replayed {
			c.errorf("ACCEPTED or REPLAYED afterwards, and not REPLAYED after NOT_APPLIED", "%s, then %s", said, describeAnswer(final, err))
		}
		c.wantReceipt(ctx, sure, m)
	}
}
