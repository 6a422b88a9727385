package coordination

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

func oneHolder(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	rec := c.acquire(ctx, one, c.ask(r, "a", 1))
	for _, a := range []registry.Acquisition{c.ask(r, "b", 1), c.ask(r, "a", 2)} {
		for _, on := range []registry.Coordinator{one, two} {
			if got, err := on.Acquire(ctx, a); sdk.CodeOf(err) != sdk.NotHeld {
				c.errorf(sdk.R4, "NOT_HELD", "token %s, %v", got.Token, err)
			}
		}
		if _, err := one.ByRequest(ctx, a.Key); sdk.CodeOf(err) != sdk.NotFound {
			c.errorf(sdk.R4, "NOT_FOUND for a request that was refused", "%v", err)
		}
	}
	c.state(ctx, two, rec, grant.StateHeld)
	c.release(ctx, two, rec.Ref)
	c.acquire(ctx, two, c.ask(r, "b", 1))
}

func oneWinner(ctx context.Context, c *C) {
	r := c.resource()
	handles := []registry.Coordinator{c.open(ctx), c.open(ctx), c.open(ctx), c.open(ctx)}
	var mu sync.Mutex
	var won []registry.Record
	c.parallel(16, func(i int) {
		rec, err := handles[i%4].Acquire(ctx, c.ask(r, "w"+strconv.Itoa(i), 1))
		if err != nil {
			c.code(sdk.R4, "who does not win", err, sdk.NotHeld)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		won = append(won, rec)
	})
	if len(won) != 1 {
		c.fatalf(sdk.R4, "one holder", "%d of 16", len(won))
	}
	c.state(ctx, handles[0], won[0], grant.StateHeld)
}

func exclusive(ctx context.Context, c *C) {
	r := c.resource()
	handles := []registry.Coordinator{c.open(ctx), c.open(ctx), c.open(ctx)}
	var mu sync.Mutex
	inside, last := 0, sdk.Token(0)
	c.parallel(6, func(i int) {
		on := handles[i%3]
		for n := range 3 {
			a := c.ask(r, "w"+strconv.Itoa(i), n)
			a.Wait = true
			rec := c.acquire(ctx, on, a)
			mu.Lock()
			if inside++; inside > 1 {
				c.errorf(sdk.R4, "one holder", "%d", inside)
			}
			if rec.Token <= last {
				c.errorf(sdk.R1, "a token above "+last.String(), "%s", rec.Token)
			}
			last = rec.Token
			mu.Unlock()
			is, err := on.Status(ctx, rec.Ref)
			if err != nil || is.State != grant.StateHeld {
				c.errorf(sdk.R4, "HELD", "%s, %v", is.State, err)
			}
			mu.Lock()
			inside--
			mu.Unlock()
			c.release(ctx, on, rec.Ref)
		}
	})
}

func sameRequest(ctx context.Context, c *C) {
	handles := []registry.Coordinator{c.open(ctx), c.open(ctx)}
	r := c.resource()
	a := c.ask(r, "a", 1)
	var mu sync.Mutex
	var first registry.Record
	c.parallel(8, func(i int) {
		rec := c.acquire(ctx, handles[i%2], a)
		mu.Lock()
		defer mu.Unlock()
		if first.Token == 0 {
			first = rec
		}
		c.same(&first, &rec)
	})
	wait := a
	wait.Wait = true // whether the caller waits is not what is asked for
	again := c.acquire(ctx, handles[0], wait)
	c.same(&first, &again)
	if found, err := handles[1].ByRequest(ctx, a.Key); err != nil {
		c.errorf(sdk.R2, "the grant by its request", "%v", err)
	} else {
		c.same(&first, &found)
	}
	if at, err := handles[1].Highest(ctx, r); err != nil || at != first.Token {
		c.errorf(sdk.R2, "one token drawn", "Highest %s after %s, %v", at, first.Token, err)
	}
	// The same request ID of another owner, or for another resource, is another.
	other := a
	other.Owner, other.Resource = "b", c.resource()
	rec := c.acquire(ctx, handles[0], other)
	if rec.Token != 1 {
		c.errorf(sdk.R2, "a grant of its own", "token %s", rec.Token)
	}
}

func otherParameters(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	a := c.ask(r, "a", 1)
	rec := c.acquire(ctx, on, a)
	for round := range 2 {
		ttl, params := a, a
		ttl.TTL += time.Second
		params.Params = []byte("other")
		for _, other := range []registry.Acquisition{ttl, params} {
			if got, err := on.Acquire(ctx, other); sdk.CodeOf(err) != sdk.Invalid {
				c.errorf(sdk.R2, "INVALID", "round %d: token %s, %v", round, got.Token, err)
			}
		}
		if round == 0 {
			c.state(ctx, on, rec, grant.StateHeld)
			c.release(ctx, on, rec.Ref)
		}
	}
}

func endedRequest(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	released, expired := c.ask(r, "a", 1), c.ask(r, "a", 2)
	first := c.acquire(ctx, one, released)
	c.release(ctx, one, first.Ref)
	second := c.acquire(ctx, one, expired)
	c.expire(ctx, second)
	check := func() {
		for _, x := range []struct {
			a    registry.Acquisition
			was  registry.Record
			want grant.State
		}{{released, first, grant.StateReleased}, {expired, second, grant.StateExpired}} {
			x.a.Wait = true
			got, err := two.Acquire(ctx, x.a)
			if err != nil || got.State != x.want || !got.Until.IsZero() {
				c.errorf(sdk.R2, string(x.want)+" and no end to come", "%s until %v, %v", got.State, got.Until, err)
				continue
			}
			c.same(&x.was, &got)
		}
	}
	check()
	third := c.acquire(ctx, two, c.ask(r, "b", 1))
	check()
	c.release(ctx, one, third.Ref)
	if c.h.Advance != nil {
		c.h.Advance(registry.Retention - c.ttl())
		check()
	}
	if at, err := one.Highest(ctx, r); err != nil || at != third.Token {
		c.errorf(sdk.R2, "no token drawn by a repetition", "Highest %s after %s, %v", at, third.Token, err)
	}
}

func stranger(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	other := c.acquire(ctx, on, c.ask(c.resource(), "b", 1))
	rec := c.acquire(ctx, on, c.ask(r, "a", 1))
	for _, ref := range []registry.Ref{
		{Key: registry.Key{Resource: r, Owner: "b", RequestID: rec.RequestID}, Token: rec.Token},
		{Key: registry.Key{Resource: r, Owner: "a", RequestID: "another"}, Token: rec.Token},
		{Key: rec.Key, Token: rec.Token + 1},
		{Key: registry.Key{Resource: r, Owner: "b", RequestID: other.RequestID}, Token: other.Token},
	} {
		got, err := on.Release(ctx, ref)
		if sdk.CodeOf(err) != sdk.NotFound {
			c.errorf(sdk.R4, "NOT_FOUND for a stranger's release", "%s, %v", got.State, err)
		}
		if got, err = on.Renew(ctx, ref); sdk.CodeOf(err) != sdk.NotFound {
			c.errorf(sdk.R4, "NOT_FOUND for a stranger's renewal", "%s, %v", got.State, err)
		}
		c.state(ctx, on, rec, grant.StateHeld)
	}
	if got, err := on.Acquire(ctx, c.ask(r, "b", 2)); sdk.CodeOf(err) != sdk.NotHeld {
		c.errorf(sdk.R4, "NOT_HELD", "token %s, %v", got.Token, err)
	}
}

func releaseLate(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	old := c.acquire(ctx, one, c.ask(r, "a", 1))
	c.expire(ctx, old)
	now := c.acquire(ctx, two, c.ask(r, "b", 1))
	if is, err := one.Release(ctx, old.Ref); err != nil || is.State != grant.StateExpired {
		c.errorf(sdk.R6, "EXPIRED", "%s, %v", is.State, err)
	}
	c.state(ctx, one, now, grant.StateHeld)
	if got, err := one.Acquire(ctx, c.ask(r, "a", 2)); sdk.CodeOf(err) != sdk.NotHeld {
		c.errorf(sdk.R4, "NOT_HELD", "token %s, %v", got.Token, err)
	}
}

func releaseTwice(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	rec := c.acquire(ctx, on, c.ask(r, "a", 1))
	c.release(ctx, on, rec.Ref)
	c.release(ctx, on, rec.Ref)
	next := c.acquire(ctx, on, c.ask(r, "b", 1))
	c.release(ctx, on, rec.Ref)
	c.state(ctx, on, next, grant.StateHeld)
	c.state(ctx, on, rec, grant.StateReleased)
}
