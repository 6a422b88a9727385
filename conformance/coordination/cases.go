package coordination

import (
	"context"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

func needsClock(h *Harness) string {
	if h.Advance == nil {
		return "its clock cannot be moved"
	}
	return ""
}

func needsRestart(h *Harness) string {
	if h.Restart == nil {
		return "it has no process that could be restarted"
	}
	return ""
}

func needsRewind(h *Harness) string {
	if h.Snapshot == nil || h.Rewind == nil {
		return "its data cannot be put back"
	}
	return ""
}

func cases() []Case {
	return []Case{
		{ID: "tokens-increase", Law: sdk.R1, Run: tokensIncrease,
			Explain: "Owners on two handles take a resource in turn, some leases are released and some run out; every token is above the last."},
		{ID: "tokens-after-idle", Law: sdk.R1, Run: tokensAfterIdle,
			Explain: "After everything was released and nobody holds or waits, the sequence goes on."},
		{ID: "tokens-of-repeats", Law: sdk.R2, Run: tokensOfRepeats,
			Explain: "A repeated request draws no token."},
		{ID: "highest-is-linearizable", Law: sdk.R1, Run: highestLinearizable,
			Explain: "Another handle's Highest is the token that was just granted."},
		{ID: "one-holder", Law: sdk.R4, Run: oneHolder,
			Explain: "While a lease is held every other owner is told NOT_HELD, also the same owner with another request."},
		{ID: "one-winner", Law: sdk.R4, Run: oneWinner,
			Explain: "Sixteen owners on four handles ask at the same time; one is granted."},
		{ID: "exclusive", Law: sdk.R4, Run: exclusive,
			Explain: "Owners wait for a resource and hold it in turn; no two at the same time, and the tokens rise in the order of holding."},
		{ID: "same-request-same-grant", Law: sdk.R2, Run: sameRequest,
			Explain: "A request is sent again, one after the other and at the same time, on several handles: one grant."},
		{ID: "other-parameters", Law: sdk.R2, Run: otherParameters,
			Explain: "A known request with another TTL or other parameters is INVALID and changes nothing."},
		{ID: "ended-request", Law: sdk.R2, Run: endedRequest,
			Explain: "A request whose lease was released or ran out is answered so for a day, and never granted again."},
		{ID: "grant-never-changes", Law: sdk.R3, Run: neverChanges,
			Explain: "Renew, Status, ByRequest and a repetition show the grant as it was."},
		{ID: "renew-extends", Law: sdk.R3, Needs: needsClock, Run: renewExtends,
			Explain: "A renewed lease lasts its TTL from the renewal; an owner that waits is not served before."},
		{ID: "renew-after-end", Law: sdk.R4, Run: renewAfterEnd,
			Explain: "A lease that has ended is not renewed, whether or not the resource was taken since."},
		{ID: "release-by-stranger", Law: sdk.R4, Run: stranger,
			Explain: "Release and Renew under another owner, request or token change nothing."},
		{ID: "release-late", Law: sdk.R6, Run: releaseLate,
			Explain: "The old holder's release after the end of its lease leaves the new holder alone."},
		{ID: "release-twice", Law: sdk.R6, Run: releaseTwice,
			Explain: "Releasing again is answered as the first time."},
		{ID: "raise", Law: sdk.R5, Run: raise,
			Explain: "After Raise the next token is above the floor, exactly also beyond 2^53; the lease that is held stays."},
		{ID: "raise-never-lowers", Law: sdk.R5, Run: raiseNeverLowers,
			Explain: "A floor below what was drawn changes nothing."},
		{ID: "floor-of-a-request", Law: sdk.R5, Run: floorOfRequest,
			Explain: "An acquisition that knows a higher token is told FENCE_REGRESSION and draws none."},
		{ID: "exhausted", Law: sdk.R1, Run: exhausted,
			Explain: "After 2^63-1 nothing is granted any more, on every handle."},
		{ID: "waiters-in-order", Law: sdk.R4, Run: waitersInOrder,
			Explain: "Waiters on several handles are served in the order in which they came."},
		{ID: "waiter-gives-up", Law: sdk.R4, Run: waiterGivesUp,
			Explain: "A wait that is cancelled ends promptly, is not granted, and blocks nobody behind it."},
		{ID: "waiter-after-expiry", Law: sdk.R4, Run: waiterAfterExpiry,
			Explain: "A waiter is served when the holder's lease runs out (C103)."},
		{ID: "apart", Law: sdk.R1, Run: apart,
			Explain: "Resources whose names begin alike have their own holders and sequences."},
		{ID: "out-of-range", Law: sdk.R1, Run: outOfRange,
			Explain: "Values out of range are INVALID."},
		{ID: "prompt", Law: sdk.O4, Run: prompt,
			Explain: "A call with a context that is done returns, and does nothing."},
		{ID: "watch", Law: sdk.O4, Run: watch,
			Explain: "A watch ends with its context."},
		{ID: "restart", Law: sdk.R2, Needs: needsRestart, Run: restart,
			Explain: "After the backend was killed holder, requests and sequence are what they were."},
		{ID: "exhausted-after-restart", Law: sdk.R1, Needs: needsRestart, Run: exhaustedAfterRestart,
			Explain: "An exhausted sequence is so after a restart (C106)."},
		{ID: "went-back", Law: sdk.R5, Needs: needsRewind, Run: wentBack,
			Explain: "The backend is restored from an older snapshot; a handle that saw more draws no token until the floor is raised (C29)."},
	}
}

func tokensIncrease(ctx context.Context, c *C) {
	handles := []registry.Coordinator{c.open(ctx), c.open(ctx)}
	r := c.resource()
	last := sdk.Token(0)
	for n := range 12 {
		rec := c.acquire(ctx, handles[n%2], c.ask(r, []string{"a", "b", "c"}[n%3], n))
		if rec.Token <= last {
			c.errorf(sdk.R1, "a token above "+last.String(), "%s", rec.Token)
		}
		last = rec.Token
		if n == 4 {
			c.expire(ctx, rec)
		} else {
			c.release(ctx, handles[n/2%2], rec.Ref)
		}
	}
	if last > 1000 {
		// A clock and a random number are above 12; a count is not far.
		c.errorf(sdk.R1, "a count", "%s after 12 grants", last)
	}
}

func tokensAfterIdle(ctx context.Context, c *C) {
	r := c.resource()
	first := c.acquire(ctx, c.open(ctx), c.ask(r, "a", 1))
	on := c.open(ctx)
	c.release(ctx, on, first.Ref)
	second := c.acquire(ctx, c.open(ctx), c.ask(r, "a", 2))
	if second.Token <= first.Token {
		c.errorf(sdk.R1, "a token above "+first.Token.String(), "%s after the resource was idle", second.Token)
	}
}

func tokensOfRepeats(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	a := c.ask(r, "a", 1)
	first := c.acquire(ctx, on, a)
	for range 3 {
		c.acquire(ctx, on, a)
	}
	if at, err := on.Highest(ctx, r); err != nil || at != first.Token {
		c.errorf(sdk.R2, "Highest "+first.Token.String(), "%s, %v", at, err)
	}
}

func highestLinearizable(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	if at, err := two.Highest(ctx, r); err != nil || at != 0 {
		c.errorf(sdk.R1, "Highest 0 of a resource that is new", "%s, %v", at, err)
	}
	for n := range 5 {
		rec := c.acquire(ctx, one, c.ask(r, "a", n))
		if at, err := two.Highest(ctx, r); err != nil || at != rec.Token {
			c.errorf(sdk.R1, "Highest "+rec.Token.String(), "%s, %v", at, err)
		}
		c.release(ctx, one, rec.Ref)
		if at, err := two.Highest(ctx, r); err != nil || at != rec.Token {
			c.errorf(sdk.R1, "Highest "+rec.Token.String()+" after the release", "%s, %v", at, err)
		}
	}
}

func neverChanges(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	a := c.ask(r, "a", 1)
	was := c.acquire(ctx, one, a)
	again := a
	again.Note = []byte("another note")
	for name, call := range map[string]func() (registry.Record, error){
		"Renew":     func() (registry.Record, error) { return two.Renew(ctx, was.Ref) },
		"Status":    func() (registry.Record, error) { return two.Status(ctx, was.Ref) },
		"ByRequest": func() (registry.Record, error) { return two.ByRequest(ctx, was.Key) },
		"Acquire":   func() (registry.Record, error) { return two.Acquire(ctx, again) },
	} {
		is, err := call()
		if err != nil {
			c.errorf(sdk.R3, "the grant by "+name, "%v", err)
			continue
		}
		c.granted(&a, &is)
		c.same(&was, &is)
	}
	if other, err := one.Status(ctx, registry.Ref{Key: registry.Key{Resource: r, Owner: "b", RequestID: "a-1"}, Token: was.Token}); sdk.CodeOf(err) != sdk.NotFound {
		c.errorf(sdk.R2, "NOT_FOUND for another owner", "%s, %v", other.State, err)
	}
	c.release(ctx, two, was.Ref)
	c.state(ctx, one, was, grant.StateReleased)
}

func renewExtends(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	rec := c.acquire(ctx, one, c.ask(r, "a", 1))
	for range 3 {
		c.h.Advance(c.ttl() - time.Millisecond)
		if is, err := two.Renew(ctx, rec.Ref); err != nil {
			c.fatalf(sdk.R3, "a renewed lease", "%v", err)
		} else {
			c.same(&rec, &is)
		}
		if _, err := two.Acquire(ctx, c.ask(r, "b", 1)); sdk.CodeOf(err) != sdk.NotHeld {
			c.errorf(sdk.R4, "NOT_HELD", "%v", err)
		}
	}
	c.h.Advance(c.ttl() - time.Millisecond)
	c.state(ctx, one, rec, grant.StateHeld)
	c.h.Advance(time.Millisecond)
	c.state(ctx, one, rec, grant.StateExpired)
}

func renewAfterEnd(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	expired := c.acquire(ctx, one, c.ask(r, "a", 1))
	c.expire(ctx, expired)
	refuse := func(rec registry.Record, want grant.State) {
		is, err := one.Renew(ctx, rec.Ref)
		if sdk.CodeOf(err) != sdk.NotHeld || is.State != want {
			c.errorf(sdk.R4, "NOT_HELD with "+string(want), "%s, %v", is.State, err)
		}
	}
	refuse(expired, grant.StateExpired)
	released := c.acquire(ctx, two, c.ask(r, "b", 1))
	refuse(expired, grant.StateExpired)
	c.state(ctx, one, released, grant.StateHeld)
	c.release(ctx, two, released.Ref)
	refuse(released, grant.StateReleased)
	c.acquire(ctx, one, c.ask(r, "c", 1))
	refuse(released, grant.StateReleased)
}
