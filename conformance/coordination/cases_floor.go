package coordination

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

func raise(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	last := sdk.Token(0)
	for n, floor := range []sdk.Token{10, 9_999_999, 1<<53 + 1, 1<<62 + 12345} {
		if at, err := two.Raise(ctx, r, floor); err != nil || at != floor {
			c.errorf(sdk.R5, floor.String(), "%s, %v", at, err)
		}
		if at, err := one.Highest(ctx, r); err != nil || at != floor {
			c.errorf(sdk.R5, "Highest "+floor.String(), "%s, %v", at, err)
		}
		rec := c.acquire(ctx, one, c.ask(r, "a", n))
		if rec.Token <= floor || rec.Token <= last {
			c.errorf(sdk.R5, "a token above "+floor.String(), "%s", rec.Token)
		}
		last = rec.Token
		if at, err := two.Raise(ctx, r, rec.Token+3); err != nil || at != rec.Token+3 {
			c.errorf(sdk.R5, (rec.Token + 3).String(), "%s, %v", at, err)
		}
		c.state(ctx, one, rec, grant.StateHeld)
		c.release(ctx, one, rec.Ref)
	}
}

func raiseNeverLowers(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	if _, err := on.Raise(ctx, r, 100); err != nil {
		c.fatalf(sdk.R5, "100", "%v", err)
	}
	rec := c.acquire(ctx, on, c.ask(r, "a", 1))
	for _, floor := range []sdk.Token{0, 1, 99, 100, rec.Token} {
		if at, err := on.Raise(ctx, r, floor); err != nil || at != rec.Token {
			c.errorf(sdk.R5, rec.Token.String()+" after a floor of "+floor.String(), "%s, %v", at, err)
		}
	}
	c.release(ctx, on, rec.Ref)
	if next := c.acquire(ctx, on, c.ask(r, "a", 2)); next.Token <= rec.Token {
		c.errorf(sdk.R5, "a token above "+rec.Token.String(), "%s", next.Token)
	}
}

func floorOfRequest(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	rec := c.acquire(ctx, on, c.ask(r, "a", 1))
	c.release(ctx, on, rec.Ref)
	high := c.ask(r, "a", 2)
	high.Floor, high.Wait = rec.Token+1, true
	if got, err := on.Acquire(ctx, high); sdk.CodeOf(err) != sdk.FenceRegression {
		c.errorf(sdk.R5, "FENCE_REGRESSION", "token %s, %v", got.Token, err)
	}
	if at, err := on.Highest(ctx, r); err != nil || at != rec.Token {
		c.errorf(sdk.R5, "Highest "+rec.Token.String(), "%s, %v", at, err)
	}
	if _, err := on.Raise(ctx, r, rec.Token+1); err != nil {
		c.errorf(sdk.R5, "raised", "%v", err)
	}
	if got := c.acquire(ctx, on, high); got.Token <= high.Floor {
		c.errorf(sdk.R5, "a token above "+high.Floor.String(), "%s", got.Token)
	}
}

func exhausted(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	if at, err := one.Raise(ctx, r, sdk.MaxToken-1); err != nil || at != sdk.MaxToken-1 {
		c.fatalf(sdk.R1, "2^63-2", "%s, %v", at, err)
	}
	rec := c.acquire(ctx, one, c.ask(r, "a", 1))
	if rec.Token != sdk.MaxToken {
		c.errorf(sdk.R1, sdk.MaxToken.String(), "%s", rec.Token)
	}
	c.release(ctx, one, rec.Ref)
	for _, on := range []registry.Coordinator{one, two, c.open(ctx)} {
		a := c.ask(r, "b", 1)
		a.Wait = true
		if got, err := on.Acquire(ctx, a); sdk.CodeOf(err) != sdk.Unsuitable {
			c.errorf(sdk.R1, "UNSUITABLE", "token %s, %v", got.Token, err)
		}
		if at, err := on.Raise(ctx, r, 7); err != nil || at != sdk.MaxToken {
			c.errorf(sdk.R1, sdk.MaxToken.String(), "%s, %v", at, err)
		}
	}
	again := c.acquireAny(ctx, two, c.ask(r, "a", 1)) // what was granted is known still
	if again.State != grant.StateReleased {
		c.errorf(sdk.R2, "RELEASED", "%s", again.State)
	}
}

// acquireAny is Acquire of a request that was granted before.
func (c *C) acquireAny(ctx context.Context, on registry.Coordinator, a registry.Acquisition) registry.Record {
	r, err := on.Acquire(ctx, a)
	if err != nil {
		c.fatalf(sdk.R2, "the grant", "%v", err)
	}
	return r
}

func waitersInOrder(ctx context.Context, c *C) {
	handles := []registry.Coordinator{c.open(ctx), c.open(ctx)}
	r := c.resource()
	holder := c.acquire(ctx, handles[0], c.ask(r, "holder", 1))
	const n = 5
	var waiters []*waiting
	for i := range n {
		waiters = append(waiters, c.wait(ctx, handles[i%2], c.ask(r, "w"+strconv.Itoa(i), 1), i+1))
	}
	if got, err := handles[0].Acquire(ctx, c.ask(r, "late", 1)); sdk.CodeOf(err) != sdk.NotHeld {
		c.errorf(sdk.R4, "NOT_HELD", "token %s, %v", got.Token, err)
	}
	for i, w := range waiters {
		for j := i; j < n; j++ {
			select {
			case <-waiters[j].done:
				c.fatalf(sdk.R4, "waiter "+strconv.Itoa(j)+" still waits", "token %s, %v, before the release", waiters[j].record.Token, waiters[j].err)
			default:
			}
		}
		c.release(ctx, handles[1-i%2], holder.Ref)
		if err := w.answer(ctx); err != nil {
			c.fatalf(sdk.R4, "waiter "+strconv.Itoa(i)+" is served", "%v", err)
		}
		if w.record.Token <= holder.Token {
			c.errorf(sdk.R1, "a token above "+holder.Token.String(), "%s", w.record.Token)
		}
		holder = w.record
	}
}

func waiterGivesUp(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	holder := c.acquire(ctx, one, c.ask(r, "holder", 1))
	first := c.wait(ctx, two, c.ask(r, "first", 1), 1)
	second := c.wait(ctx, two, c.ask(r, "second", 1), 2)
	first.cancel()
	if !first.over(ctx) {
		c.fatalf(sdk.O4, "an answer after the context ended", "none")
	}
	c.code(sdk.O4, "a wait that was cancelled", first.err, sdk.NotApplied, sdk.MutationUnknown)
	c.queued(ctx, r, 1)
	c.release(ctx, one, holder.Ref)
	if err := second.answer(ctx); err != nil {
		c.fatalf(sdk.R4, "the next waiter is served", "%v", err)
	}
	if _, err := one.ByRequest(ctx, c.ask(r, "first", 1).Key); sdk.CodeOf(err) != sdk.NotFound {
		c.errorf(sdk.R4, "NOT_FOUND for who gave up", "%v", err)
	}
}

func waiterAfterExpiry(ctx context.Context, c *C) {
	one, two, r := c.open(ctx), c.open(ctx), c.resource()
	holder := c.acquire(ctx, one, c.ask(r, "holder", 1))
	w := c.wait(ctx, two, c.ask(r, "w", 1), 1)
	c.expire(ctx, holder)
	if err := w.answer(ctx); err != nil {
		c.fatalf(sdk.R4, "the waiter is served", "%v", err)
	}
	if w.record.Token <= holder.Token {
		c.errorf(sdk.R1, "a token above "+holder.Token.String(), "%s", w.record.Token)
	}
	c.state(ctx, one, holder, grant.StateExpired)
	c.state(ctx, one, w.record, grant.StateHeld)
}

func apart(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	names := []sdk.ResourceID{r, r + "/b", r + "/b/c", r + "b", r + " b", r + "/é", r + "/日本", r + ":", r + sdk.ResourceID("/"+strings.Repeat("x", 300))}
	for i, name := range names {
		for n := range i + 1 {
			rec := c.acquire(ctx, on, c.ask(name, "owner/with \"odd\" names", n))
			if rec.Token != sdk.Token(n+1) {
				c.errorf(sdk.R1, fmt.Sprintf("token %d of %q", n+1, name), "%s", rec.Token)
			}
			if n < i {
				c.release(ctx, on, rec.Ref)
			}
		}
	}
	for i, name := range names {
		if at, err := on.Highest(ctx, name); err != nil || at != sdk.Token(i+1) {
			c.errorf(sdk.R1, fmt.Sprintf("Highest %d of %q", i+1, name), "%s, %v", at, err)
		}
	}
}

func outOfRange(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	for name, change := range map[string]func(*registry.Acquisition){
		"resource": func(a *registry.Acquisition) { a.Resource += "/" },
		"owner":    func(a *registry.Acquisition) { a.Owner = "" },
		"request":  func(a *registry.Acquisition) { a.RequestID = "a\nb" },
		"ttl":      func(a *registry.Acquisition) { a.TTL = 0 },
		"long ttl": func(a *registry.Acquisition) { a.TTL = grant.MaxTTL + time.Second },
		"fraction": func(a *registry.Acquisition) { a.TTL += time.Microsecond },
		"floor":    func(a *registry.Acquisition) { a.Floor = sdk.MaxToken + 1 },
		"params":   func(a *registry.Acquisition) { a.Params = make([]byte, registry.MaxNoteBytes+1) },
	} {
		a := c.ask(r, "a", 1)
		change(&a)
		_, err := on.Acquire(ctx, a)
		c.code(sdk.R1, name, err, sdk.Invalid)
	}
	bad := registry.Ref{Key: c.ask(r, "a", 1).Key}
	_, err := on.Renew(ctx, bad)
	c.code(sdk.R1, "token 0", err, sdk.Invalid)
	_, err = on.Raise(ctx, r, sdk.MaxToken+1)
	c.code(sdk.R1, "floor 2^63", err, sdk.Invalid)
	_, err = on.Highest(ctx, "")
	c.code(sdk.R1, "no resource", err, sdk.Invalid)
	if at, err := on.Highest(ctx, r); err != nil || at != 0 {
		c.errorf(sdk.R1, "nothing drawn", "%s, %v", at, err)
	}
}

func prompt(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	rec := c.acquire(ctx, on, c.ask(r, "a", 1))
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err := on.Acquire(over, c.ask(c.resource(), "a", 1))
	c.code(sdk.O4, "Acquire", err, sdk.NotApplied, sdk.MutationUnknown)
	_, err = on.Renew(over, rec.Ref)
	c.code(sdk.O4, "Renew", err, sdk.NotApplied, sdk.MutationUnknown)
	_, err = on.Release(over, rec.Ref)
	c.code(sdk.O4, "Release", err, sdk.NotApplied, sdk.MutationUnknown)
	_, err = on.Raise(over, r, 50)
	c.code(sdk.O4, "Raise", err, sdk.NotApplied, sdk.MutationUnknown)
	_, err = on.Status(over, rec.Ref)
	c.code(sdk.O4, "Status", err, sdk.NotApplied)
	_, err = on.Highest(over, r)
	c.code(sdk.O4, "Highest", err, sdk.NotApplied)
	if err != nil && !errors.Is(err, context.Canceled) {
		c.errorf(sdk.O4, "an error that wraps context.Canceled", "%v", err)
	}
}

func watch(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	over, cancel := context.WithCancel(ctx)
	ch, err := on.Watch(over, r)
	if err != nil {
		cancel()
		c.fatalf(sdk.O4, "a watch", "%v", err)
	}
	rec := c.acquire(ctx, on, c.ask(r, "a", 1))
	select {
	case <-ch:
	case <-ctx.Done():
		c.errorf(sdk.O4, "a hint of the grant", "none")
	}
	c.release(ctx, on, rec.Ref)
	cancel()
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-ctx.Done():
			c.fatalf(sdk.O4, "a closed channel", "an open one")
		}
	}
}

func restart(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	first := c.acquire(ctx, on, c.ask(r, "a", 1))
	c.release(ctx, on, first.Ref)
	second := c.acquire(ctx, on, c.ask(r, "a", 2))
	c.restarted(ctx)
	for _, on := range []registry.Coordinator{on, c.open(ctx)} {
		c.state(ctx, on, first, grant.StateReleased)
		is, err := on.Status(ctx, second.Ref)
		if err != nil || is.State != grant.StateHeld && is.State != grant.StateExpired {
			c.errorf(sdk.R2, "HELD, or EXPIRED if the restart took long", "%s, %v", is.State, err)
			continue
		}
		c.same(&second, &is)
		if at, err := on.Highest(ctx, r); err != nil || at != second.Token {
			c.errorf(sdk.R1, "Highest "+second.Token.String(), "%s, %v", at, err)
		}
	}
	if _, err := on.Release(ctx, second.Ref); err != nil {
		c.errorf(sdk.R6, "released", "%v", err)
	}
	if next := c.acquire(ctx, on, c.ask(r, "b", 1)); next.Token <= second.Token {
		c.errorf(sdk.R1, "a token above "+second.Token.String(), "%s", next.Token)
	}
}

func (c *C) restarted(ctx context.Context) {
	if err := c.h.Restart(ctx); err != nil {
		c.fatalf(c.cs.Law, "a restart", "%v", err)
	}
}

func exhaustedAfterRestart(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	if _, err := on.Raise(ctx, r, sdk.MaxToken); err != nil {
		c.fatalf(sdk.R1, "2^63-1", "%v", err)
	}
	c.restarted(ctx)
	for _, on := range []registry.Coordinator{on, c.open(ctx)} {
		if got, err := on.Acquire(ctx, c.ask(r, "a", 1)); sdk.CodeOf(err) != sdk.Unsuitable {
			c.errorf(sdk.R1, "UNSUITABLE", "token %s, %v", got.Token, err)
		}
	}
}

func wentBack(ctx context.Context, c *C) {
	on, r := c.open(ctx), c.resource()
	first := c.acquire(ctx, on, c.ask(r, "a", 1))
	c.release(ctx, on, first.Ref)
	if err := c.h.Snapshot(ctx); err != nil {
		c.fatalf(sdk.R5, "a snapshot", "%v", err)
	}
	second := c.acquire(ctx, on, c.ask(r, "b", 1))
	c.release(ctx, on, second.Ref)
	if err := c.h.Rewind(ctx); err != nil {
		c.fatalf(sdk.R5, "the snapshot restored", "%v", err)
	}
	for range 2 {
		got, err := on.Acquire(ctx, c.ask(r, "c", 1))
		if sdk.CodeOf(err) != sdk.FenceRegression {
			c.errorf(sdk.R5, "FENCE_REGRESSION", "token %s, %v", got.Token, err)
		}
		_, err = on.Highest(ctx, r)
		c.code(sdk.R5, "Highest", err, sdk.FenceRegression)
	}
	if at, err := on.Raise(ctx, r, 1000); err != nil || at != 1000 {
		c.errorf(sdk.R5, "1000", "%s, %v", at, err)
	}
	if next := c.acquire(ctx, on, c.ask(r, "c", 1)); next.Token <= 1000 {
		c.errorf(sdk.R5, "a token above 1000", "%s", next.Token)
	}
}
