package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

func honestCases() []Case {
	return []Case{
		{ID: "honest/ended-context-leaves-nothing", Law: sdk.O1, Run: honestEnded,
			Explain: "A write whose context was over before the call is NOT_APPLIED; the receipt is not there, now or after more writes, and the same call is accepted later."},
		{ID: "honest/cancelled-at-any-point", Law: sdk.O1, Run: honestCancelled,
			Explain: "Writes are cancelled at random points from two handles. ACCEPTED means that the receipt is there; NOT_APPLIED that it is not, now or later; MUTATION_UNKNOWN either. Fence, receipt and value agree, and a retry of each is accepted once."},
		{ID: "honest/refusal-is-an-error", Law: sdk.O1, Run: honestForm,
			Explain: "Each verdict comes in its form: ACCEPTED and REPLAYED without an error and with the receipt; a refusal as an *sdk.Error that matches its sentinel, with the same code, state and receipt in outcome and error; reads that find nothing as NOT_FOUND."},
		{ID: "honest/quarantine-cancelled", Law: sdk.O1, Run: honestQuarantine,
			Explain: "Conflicting writes are cancelled at random points: whoever was answered QUARANTINED left its record."},
		{ID: "echo/new-call-below-is-stale", Law: sdk.O2, Run: echoStale,
			Explain: "An owner's repetition in a new call is REPLAYED while it is the newest, and STALE_OWNER once somebody else wrote: an echo is recognized within a call, never across a takeover."},
		{ID: "echo/retries-in-a-crowd", Law: sdk.O2, Run: echoCrowd,
			Explain: "Eight handles repeat the same writes of one owner again and again, as lost answers make workers do: nobody is told STALE_OWNER, SEGMENT_SKIPPED, ROOT_MISMATCH, QUARANTINED or ALREADY_APPLIED about what is its own."},
		{ID: "resolve/absence-after-claim-is-final", Law: sdk.O3, Run: resolveFinal,
			Explain: "Old attempts are on their way while a new owner claims. A lookup that begins after the claim and finds nothing is final: the attempts land nowhere, then or later. What it finds is really there."},
		{ID: "resolve/absence-after-observed-fence", Law: sdk.O3, Run: resolveObserved,
			Explain: "The same with a fence above one's own that was observed in place of a claim."},
		{ID: "resolve/tombstone", Law: sdk.O3, Run: resolveTombstone,
			Explain: "After a claim the new owner leaves a tombstone under the lost operation's ID. The old attempt, whenever it comes, is refused, and the ID keeps the tombstone's receipt."},
	}
}

func honestEnded(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	for _, e := range endedContexts(ctx) {
		r := c.resource()
		o := ownerOf(r, 7, "")
		m := o.put(1, "op-1", "k", "1")
		out, err := h.apply(e.ctx, m)
		if out.Code != sdk.NotApplied {
			c.errorf("NOT_APPLIED: nothing was sent", "%s: %s", e.name, describeAnswer(out, err))
		}
		c.wantNoReceipt(ctx, h, r, "op-1")
		c.wantState(ctx, h, r, sdk.FenceState{})
		c.accept(ctx, h, o.claim())
		c.wantNoReceipt(ctx, c.handle(ctx, 1), r, "op-1")
		c.accept(ctx, h, o.put(2, "op-1", "k", "1"))
	}
}

// cancelPoint cancels soon; after how long is drawn, from not at all to about
// as long as a write takes here.
func cancelPoint(ctx context.Context, rng *rand.Rand, typical time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	switch rng.IntN(6) {
	case 0:
		cancel()
	case 1:
	default:
		t := time.AfterFunc(time.Duration(rng.Int64N(int64(2*typical)+1)), cancel)
		return ctx, func() { t.Stop(); cancel() }
	}
	return ctx, cancel
}

// typical measures one write, so that cancellations fall inside.
func (c *C) typical(ctx context.Context, h *handle) time.Duration {
	r := c.resource()
	o := ownerOf(r, 7, "")
	began := time.Now()
	for seg := sdk.Segment(1); seg <= 4; seg++ {
		c.accept(ctx, h, o.put(seg, sdk.OperationID("op-"+seg.String()), "k", "v"))
	}
	return time.Since(began) / 4
}

func honestCancelled(ctx context.Context, c *C) {
	hs := []*handle{c.handle(ctx, 0), c.handle(ctx, 1)}
	typical := c.typical(ctx, hs[0])
	n := c.rounds(60)
	seed := c.rng.Uint64()
	c.spread(ctx, n, 8, func(i int) {
		c.cancelledWrites(ctx, hs, i, rand.New(rand.NewPCG(seed, uint64(i))), typical)
	})
	c.figure("resources", int64(n))
}

// cancelledWrites sends a few writes to one resource, each cancelled somewhere,
// and follows what the answers claim.
func (c *C) cancelledWrites(ctx context.Context, hs []*handle, i int, rng *rand.Rand, typical time.Duration) {
	h, other := hs[i%2], hs[(i+1)%2]
	r := c.resource()
	o := ownerOf(r, 7, "")
	var absent []*sdk.Mutation // answered NOT_APPLIED and never sent again
	seg := sdk.Segment(1)
	for k := range 5 {
		m := o.put(seg, sdk.OperationID(fmt.Sprintf("op-%d", k)), fmt.Sprintf("k%d", k), "v")
		cctx, cancel := cancelPoint(ctx, rng, typical)
		out, err := h.apply(cctx, m)
		cancel()
		_, rerr := other.receipt(ctx, r, m.Operation)
		there := rerr == nil
		switch out.Code {
		case sdk.Accepted:
			if !there {
				c.errorf("the receipt of an ACCEPTED write", "Receipt: %v", rerr)
				return
			}
		case sdk.NotApplied:
			if there {
				c.errorf("NOT_APPLIED only where nothing was applied", "NOT_APPLIED, and the receipt is there (%s)", describeAnswer(out, err))
				return
			}
			absent = append(absent, m)
			if rng.IntN(2) == 0 {
				continue // another operation at the same position
			}
			absent = absent[:len(absent)-1]
			c.accept(ctx, h, m)
		case sdk.MutationUnknown:
			again, err := h.settle(ctx, m, sdk.Accepted)
			if !again.Code.Ok() {
				c.errorf("ACCEPTED or REPLAYED when sent again", "%s", describeAnswer(again, err))
				return
			}
			if there && again.Code == sdk.Accepted && again.Receipt == nil {
				c.errorf("REPLAYED: the receipt was there", "%s", describeAnswer(again, err))
			}
		default:
			c.errorf("ACCEPTED, NOT_APPLIED or MUTATION_UNKNOWN", "%s for a cancelled %s", describeAnswer(out, err), showMutation(m))
			return
		}
		c.wantReceipt(ctx, other, m)
		c.wantValue(ctx, other, r, fmt.Sprintf("k%d", k), []byte("v"))
		c.wantState(ctx, other, r, o.state(seg))
		seg++
	}
	for _, m := range absent {
		c.wantNoReceipt(ctx, h, r, m.Operation)
		key, _, _ := sdk.ParsePut(m.Effects[0].Body)
		c.wantValue(ctx, h, r, key, nil)
	}
}

func honestForm(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	t := c.takeover(ctx, h)
	root := t.b
	root.root = sdk.SumDigest([]byte("another job"))
	for _, x := range []struct {
		m    *sdk.Mutation
		want sdk.Code
		is   error
	}{
		{t.a.put(2, "late", "k", "late"), sdk.StaleOwner, sdk.ErrStaleOwner},
		{t.ma, sdk.StaleOwner, sdk.ErrStaleOwner},
		{t.b.put(3, "late", "k", "late"), sdk.SegmentSkipped, sdk.ErrSegmentSkipped},
		{root.put(2, "late", "k", "late"), sdk.RootMismatch, sdk.ErrRootMismatch},
		{t.b.put(1, "late", "k", "late"), sdk.Quarantined, sdk.ErrQuarantined},
		{t.b.mutation(2, "op-a", t.ma.Result, t.ma.Effects...), sdk.AlreadyApplied, sdk.ErrAlreadyApplied},
		{ownerOf(t.r, 8, "twin").put(2, "late", "k", "late"), sdk.FenceRegression, sdk.ErrFenceRegression},
		{t.b.put(0, "late", "k", "late"), sdk.Invalid, sdk.ErrInvalid},
		{t.b.mutation(2, "late", nil, sdk.Effect{Kind: "conformance.unknown.v1"}), sdk.Unsupported, sdk.ErrUnsupported},
	} {
		out, err := h.apply(ctx, x.m)
		if !errorsIs(err, x.is) || out.Code != x.want {
			c.errorf(x.want.String()+", matched by its sentinel", "%s (error %v)", describeAnswer(out, err), err)
		}
	}
	out, err := h.apply(ctx, t.mb)
	if err != nil || out.Code != sdk.Replayed || out.Receipt == nil {
		c.errorf("REPLAYED with its receipt and no error", "%s", describeAnswer(out, err))
	}
	out, err = h.apply(ctx, t.b.put(2, "op-2", "k", "2"))
	if err != nil || out.Code != sdk.Accepted || out.Receipt == nil || out.Observed != t.b.state(2) {
		c.errorf("ACCEPTED with its receipt, the new state and no error", "%s", describeAnswer(out, err))
	}
	_, err = h.receipt(ctx, t.r, "never")
	c.wantCode("Receipt of what never was", err, sdk.NotFound)
	_, err = h.read(ctx, t.r, "never")
	c.wantCode("Read of what never was", err, sdk.NotFound)
}

func honestQuarantine(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	typical := c.typical(ctx, h)
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, h, o.put(1, "op-1", "k", "1"))
	n := min(c.rounds(20), 60)
	if limit := c.Description().Limits.Quarantine; limit > 0 {
		n = min(n, limit)
	}
	var want []sdk.Quarantine
	for i := range n {
		m := o.put(1, "op-1", "k", fmt.Sprintf("clash %d", i))
		cctx, cancel := cancelPoint(ctx, c.rng, typical)
		out, err := h.apply(cctx, m)
		cancel()
		switch out.Code {
		case sdk.Quarantined:
			want = append(want, m.Quarantine())
		case sdk.NotApplied, sdk.MutationUnknown:
		default:
			c.errorf("QUARANTINED, NOT_APPLIED or MUTATION_UNKNOWN", "%s", describeAnswer(out, err))
		}
	}
	got, err := other.quarantined(ctx, r)
	if _, missing := difference(quarantineLines(got), quarantineLines(want)); err != nil || len(missing) > 0 {
		c.errorf(orNone(missing), "Quarantined lacks them; %d records, error %v", len(got), err)
	}
	c.wantState(ctx, other, r, o.state(1))
	c.wantValue(ctx, other, r, "k", []byte("1"))
}

func echoStale(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	first, second := a.put(1, "op-1", "k", "1"), a.put(2, "op-2", "k", "2")
	c.accept(ctx, h, first)
	c.accept(ctx, h, second)
	for _, st := range []*handle{h, other} {
		c.again(ctx, st, first)
		c.again(ctx, st, second)
	}
	c.accept(ctx, other, b.claim())
	for _, st := range []*handle{h, other} {
		c.refuse(ctx, st, first, sdk.StaleOwner, b.state(1), ptr(receiptOf(first)))
		c.refuse(ctx, st, second, sdk.StaleOwner, b.state(1), ptr(receiptOf(second)))
	}
}

func echoCrowd(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	for range c.rounds(4) {
		r := c.resource()
		o := ownerOf(r, 7, "")
		ms := []*sdk.Mutation{o.claim()}
		for seg := sdk.Segment(2); seg <= 6; seg++ {
			ms = append(ms, o.put(seg, sdk.OperationID("op-"+seg.String()), "k", seg.String()))
		}
		c.race(hs, func(_ int, h *handle) {
			for _, m := range ms { // everybody sends all of them, in order
				out, err := h.settle(ctx, m, sdk.Accepted)
				if !out.Code.Ok() {
					c.fatalf("ACCEPTED or REPLAYED", "%s for %s", describeAnswer(out, err), showMutation(m))
				}
				c.sameReceipt(out.Receipt, receiptOf(m))
			}
		})
		c.wantState(ctx, hs[1], r, o.state(6))
		c.wantQuarantine(ctx, hs[1], r)
	}
}

func resolveFinal(ctx context.Context, c *C) { c.resolveRounds(ctx, true) }

func resolveObserved(ctx context.Context, c *C) { c.resolveRounds(ctx, false) }

// resolveRounds lets old attempts race with a takeover, and asks for each
// operation afterwards.
func (c *C) resolveRounds(ctx context.Context, claim bool) {
	hs := c.racers(ctx)
	found, absent := 0, 0
	for round := range c.rounds(10) {
		r := c.resource()
		a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
		c.accept(ctx, hs[0], a.claim())
		// The old owner's next segment, proposed by several attempts that may be
		// anywhere: each another operation, so that one lands at the most.
		late := make([]*sdk.Mutation, 4)
		codes := make([]sdk.Code, len(late))
		for i := range late {
			op := sdk.OperationID(fmt.Sprintf("op-%d", i))
			late[i] = a.put(2, op, "k-"+string(op), "late")
		}
		landed := make([]error, len(late)) // what the new owner's lookups said
		c.race(hs[:len(late)+1], func(i int, h *handle) {
			if i < len(late) {
				if i > 0 && round%2 == 1 {
					pause(ctx, time.Duration(i)*200*time.Microsecond) // some come clearly later
				}
				out, _ := h.apply(ctx, late[i])
				codes[i] = out.Code
				return
			}
			c.accept(ctx, h, b.claim())
			from := h
			if !claim {
				from = hs[len(late)+1] // somebody who only looks
				if s, err := from.inspect(ctx, r); err != nil || s.Highest != b.fence {
					c.fatalf(showState(b.state(1)), "Inspect after a claim: %s, error %v", showState(s), err)
				}
			}
			for i := range late {
				_, landed[i] = from.receipt(ctx, r, late[i].Operation)
			}
		})
		for i, m := range late {
			c.resolved(ctx, hs[7], m, landed[i], codes[i])
			if landed[i] == nil {
				found++
			} else {
				absent++
			}
		}
		if c.failed() {
			return
		}
	}
	c.figure("found", int64(found))
	c.figure("absent", int64(absent))
}

// resolved holds what a lookup said after the takeover against what is there
// once every attempt came to its end, and after one more.
func (c *C) resolved(ctx context.Context, h *handle, m *sdk.Mutation, lookup error, answer sdk.Code) {
	key := "k-" + string(m.Operation)
	switch {
	case lookup == nil:
		c.wantReceipt(ctx, h, m)
		c.wantValue(ctx, h, m.Resource, key, []byte("late"))
	case sdk.CodeOf(lookup) == sdk.NotFound:
		if answer.Ok() {
			c.errorf("a lookup after the takeover that finds nothing is final", "nothing was found, and then the attempt was %s", answer)
		}
		c.expect(ctx, h, m, sdk.StaleOwner)
		c.wantNoReceipt(ctx, h, m.Resource, m.Operation)
		c.wantValue(ctx, h, m.Resource, key, nil)
	default:
		c.errorf("the receipt, or NOT_FOUND", "Receipt: %v", lookup)
	}
}

func resolveTombstone(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	c.accept(ctx, h, a.claim())
	lost := a.put(2, "op-lost", "k", "late")
	c.accept(ctx, h, b.claim())
	c.wantNoReceipt(ctx, h, r, lost.Operation)
	tombstone := b.mutation(2, lost.Operation, []byte("not done; see op-other"))
	c.accept(ctx, h, tombstone)
	c.accept(ctx, h, b.put(3, "op-other", "k", "b"))
	for _, st := range []*handle{h, c.handle(ctx, 1)} {
		c.refuse(ctx, st, lost, sdk.StaleOwner, b.state(3), ptr(receiptOf(tombstone)))
		c.wantReceipt(ctx, st, tombstone)
		c.wantValue(ctx, st, r, "k", []byte("b"))
	}
}
