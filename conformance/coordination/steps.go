package coordination

import (
	"context"
	"strconv"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// open returns a handle of its own.
func (c *C) open(ctx context.Context) registry.Coordinator {
	h, err := c.h.Open(ctx)
	if err != nil {
		c.fatalf(c.cs.Law, "a handle", "%v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handles = append(c.handles, h)
	return h
}

// resource returns a name that no run used before.
func (c *C) resource() sdk.ResourceID {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return sdk.ResourceID(c.name + "/" + strconv.Itoa(c.next))
}

func (c *C) ttl() time.Duration {
	if c.h.TTL == 0 {
		return 10 * time.Second
	}
	return c.h.TTL
}

// ask is the acquisition of a resource by an owner, who numbers the requests.
func (c *C) ask(r sdk.ResourceID, owner string, n int) registry.Acquisition {
	return registry.Acquisition{Key: registry.Key{Resource: r, Owner: owner, RequestID: owner + "-" + strconv.Itoa(n)}, TTL: c.ttl(),
		Params: []byte("params of " + owner), Note: []byte("note")}
}

// acquire expects a grant.
func (c *C) acquire(ctx context.Context, on registry.Coordinator, a registry.Acquisition) registry.Record {
	r, err := on.Acquire(ctx, a)
	if err != nil {
		c.fatalf(c.cs.Law, "a grant", "%v", err)
	}
	c.granted(&a, &r)
	return r
}

// granted checks that a record answers an acquisition as HELD.
func (c *C) granted(a *registry.Acquisition, r *registry.Record) {
	switch {
	case r.Key != a.Key || r.TTL != a.TTL || string(r.Params) != string(a.Params):
		c.errorf(sdk.R2, "the record of this request", "%+v", *r)
	case !r.Token.Valid() || r.Lease == "" || len(r.Lease) > sdk.MaxNameBytes:
		c.errorf(sdk.R1, "a token of 1 to 2^63-1 and a lease", "token %s, lease %q", r.Token, r.Lease)
	case r.State != grant.StateHeld || r.Until.IsZero():
		c.errorf(c.cs.Law, "HELD until some time", "%s until %v", r.State, r.Until)
	}
}

// release expects RELEASED.
func (c *C) release(ctx context.Context, on registry.Coordinator, ref registry.Ref) {
	r, err := on.Release(ctx, ref)
	if err != nil || r.State != grant.StateReleased || r.Ref != ref {
		c.errorf(sdk.R6, "RELEASED", "%s of %s, %v", r.State, r.Token, err)
	}
}

// expire ends a lease by its time.
func (c *C) expire(ctx context.Context, r registry.Record) {
	if err := c.h.Expire(ctx, r); err != nil {
		c.fatalf(c.cs.Law, "the end of an unrenewed lease", "%v", err)
	}
}

// state expects a state of a grant, and that nothing else of it changed.
func (c *C) state(ctx context.Context, on registry.Coordinator, was registry.Record, want grant.State) registry.Record {
	r, err := on.Status(ctx, was.Ref)
	if err != nil || r.State != want {
		c.errorf(c.cs.Law, string(want)+" by Status", "%s, %v", r.State, err)
		return r
	}
	c.same(&was, &r)
	return r
}

// same checks that a grant did not change.
func (c *C) same(was, is *registry.Record) {
	if was.Ref != is.Ref || was.Lease != is.Lease || was.Revision != is.Revision || was.TTL != is.TTL || string(was.Params) != string(is.Params) || string(was.Note) != string(is.Note) {
		c.errorf(sdk.R3, "the grant as it was", "first %+v, then %+v", *was, *is)
	}
}

// code expects the code of an error.
func (c *C) code(law sdk.Law, what string, err error, want ...sdk.Code) {
	for _, w := range want {
		if sdk.CodeOf(err) == w {
			return
		}
	}
	names := ""
	for _, w := range want {
		names += " " + w.String()
	}
	c.errorf(law, what+":"+names, "%v", err)
}

// queued waits until n calls stand in the queue of r.
func (c *C) queued(ctx context.Context, r sdk.ResourceID, n int) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		have, err := c.h.Queued(ctx, r)
		if err == nil && have == n {
			return
		}
		select {
		case <-ctx.Done():
			c.fatalf(c.cs.Law, strconv.Itoa(n)+" waiters", "%d, %v", have, err)
		case <-tick.C:
		}
	}
}

// waiting is an Acquire under way.
type waiting struct {
	cancel context.CancelFunc
	done   chan struct{}
	record registry.Record
	err    error
}

// wait starts an Acquire that queues, and returns once it is the n-th in the
// queue.
func (c *C) wait(ctx context.Context, on registry.Coordinator, a registry.Acquisition, n int) *waiting {
	a.Wait = true
	w := &waiting{done: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(ctx)
	go func() {
		defer close(w.done)
		w.record, w.err = on.Acquire(ctx, a)
	}()
	c.queued(ctx, a.Resource, n)
	return w
}

// answer waits for the answer; until it is there its fields are another
// goroutine's.
func (w *waiting) answer(ctx context.Context) error {
	if !w.over(ctx) {
		return ctx.Err()
	}
	return w.err
}

// over waits until there is an answer.
func (w *waiting) over(ctx context.Context) bool {
	select {
	case <-w.done:
		return true
	case <-ctx.Done():
		return false
	}
}
