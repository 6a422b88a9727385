// Package memcoord is the model of a coordinator: the laws in the shortest code,
// in the memory of one process. It is for tests; nothing in it lasts.
package memcoord

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// Coordinator is a registry.Coordinator in memory.
type Coordinator struct {
	clock clock.Clock

	mu        sync.Mutex
	revision  uint64
	resources map[sdk.ResourceID]*resource
}

type resource struct {
	counter  sdk.Token
	holder   *entry
	requests map[registry.Key]*entry
	ended    []*entry // in the order in which they ended
	queue    []*waiter
	watchers map[chan struct{}]bool
}

type entry struct {
	record registry.Record // State and Until are filled in when it is read
	until  time.Time       // end of the lease, or when it ended
	ended  grant.State     // empty while it is held
}

type waiter struct {
	key   registry.Key
	calls int
	wake  chan struct{}
}

var _ registry.Coordinator = (*Coordinator)(nil)

// New returns an empty coordinator; a nil clock is the system's.
func New(c clock.Clock) *Coordinator {
	return &Coordinator{clock: clock.Or(c), resources: map[sdk.ResourceID]*resource{}}
}

// at returns the resource as it is now: a lease that ran out has ended.
func (c *Coordinator) at(r sdk.ResourceID) (*resource, time.Time) {
	now := c.clock.Now()
	res := c.resources[r]
	if res == nil {
		res = &resource{requests: map[registry.Key]*entry{}, watchers: map[chan struct{}]bool{}}
		c.resources[r] = res
	}
	if res.holder != nil && !now.Before(res.holder.until) {
		c.end(res, grant.StateExpired, res.holder.until)
	}
	for len(res.ended) > 0 && now.Sub(res.ended[0].until) > registry.Retention {
		delete(res.requests, res.ended[0].record.Key)
		res.ended = res.ended[1:]
	}
	return res, now
}

func (c *Coordinator) end(res *resource, how grant.State, when time.Time) {
	c.revision++
	res.holder.ended, res.holder.until = how, when
	res.ended = append(res.ended, res.holder)
	res.holder = nil
	res.changed()
}

// changed wakes the first waiter, and who watches.
func (res *resource) changed() {
	if res.holder == nil && len(res.queue) > 0 {
		notify(res.queue[0].wake)
	}
	for ch := range res.watchers {
		notify(ch)
	}
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (c *Coordinator) read(e *entry) registry.Record {
	r := e.record.Clone()
	r.State, r.Observed = e.ended, c.revision
	if e.ended == "" {
		r.State, r.Until = grant.StateHeld, e.until
	}
	return r
}

// Acquire implements registry.Coordinator.
func (c *Coordinator) Acquire(ctx context.Context, a registry.Acquisition) (registry.Record, error) {
	if err := a.Validate(); err != nil {
		return registry.Record{}, err
	}
	if err := ctx.Err(); err != nil {
		return registry.Record{}, sdk.Errorf(sdk.NotApplied, "", "the context was done before anything was asked: %w", err)
	}
	var w *waiter
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		res, now := c.at(a.Resource)
		if e := res.requests[a.Key]; e != nil {
			res.leave(w) // another call with this key was granted
			if err := e.record.Repeats(&a); err != nil {
				return registry.Record{}, err
			}
			return c.read(e), nil
		}
		switch {
		case res.counter < a.Floor:
			res.leave(w)
			return registry.Record{}, registry.WentBack(a.Resource, res.counter, a.Floor)
		case res.counter == sdk.MaxToken:
			res.leave(w)
			return registry.Record{}, registry.Exhausted(a.Resource)
		case res.holder == nil && (len(res.queue) == 0 || res.queue[0] == w):
			return c.grant(res, &a, w, now), nil
		case !a.Wait:
			return registry.Record{}, registry.Busy(a.Key)
		case w == nil:
			w = res.join(a.Key)
			continue
		}
		if err := c.wait(ctx, res, w, now); err != nil {
			res.leave(w)
			return registry.Record{}, sdk.Errorf(sdk.NotApplied, "", "ended while it waited for %q; the place in the queue is given up: %w", a.Resource, err)
		}
	}
}

// wait lets go of the lock until w is woken or the holder's lease may have ended.
func (c *Coordinator) wait(ctx context.Context, res *resource, w *waiter, now time.Time) error {
	left := time.Duration(grant.MaxTTL)
	if res.holder != nil {
		left = res.holder.until.Sub(now)
	}
	timer := c.clock.Timer(left)
	c.mu.Unlock()
	defer c.mu.Lock()
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.wake:
	case <-timer.C:
	}
	return nil
}

// join returns the place of a key in the queue; calls with one key share it.
func (res *resource) join(k registry.Key) *waiter {
	i := slices.IndexFunc(res.queue, func(w *waiter) bool { return w.key == k })
	if i < 0 {
		i = len(res.queue)
		res.queue = append(res.queue, &waiter{key: k, wake: make(chan struct{}, 1)})
	}
	res.queue[i].calls++
	return res.queue[i]
}

func (res *resource) leave(w *waiter) {
	if w == nil {
		return
	}
	if w.calls--; w.calls > 0 {
		notify(w.wake) // the channel wakes one; it is passed on
		return
	}
	if i := slices.Index(res.queue, w); i >= 0 {
		res.queue = slices.Delete(res.queue, i, i+1)
		res.changed()
	}
}

func (c *Coordinator) grant(res *resource, a *registry.Acquisition, w *waiter, now time.Time) registry.Record {
	if w != nil {
		res.queue = res.queue[1:]
		res.leave(w)
	}
	c.revision++
	res.counter++
	e := &entry{until: now.Add(a.TTL), record: registry.Record{
		Ref: registry.Ref{Key: a.Key, Token: res.counter}, Lease: "mem-" + strconv.FormatUint(c.revision, 10), Revision: c.revision,
		TTL: a.TTL, Params: a.Params, Note: a.Note}.Clone()}
	res.requests[a.Key], res.holder = e, e
	res.changed()
	return c.read(e)
}

// find returns the entry of a grant, with the lock held.
func (c *Coordinator) find(ctx context.Context, ref registry.Ref) (*resource, *entry, time.Time, error) {
	if err := ref.Validate(); err != nil {
		return nil, nil, time.Time{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, time.Time{}, sdk.Errorf(sdk.NotApplied, "", "the context was done before anything was asked: %w", err)
	}
	res, now := c.at(ref.Resource)
	e := res.requests[ref.Key]
	if e == nil || e.record.Token != ref.Token {
		return nil, nil, now, registry.Unknown(ref.Key)
	}
	return res, e, now, nil
}

// Renew implements registry.Coordinator.
func (c *Coordinator) Renew(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, e, now, err := c.find(ctx, ref)
	if err != nil {
		return registry.Record{}, err
	}
	if e.ended != "" {
		r := c.read(e)
		return r, registry.Ended(&r)
	}
	c.revision++
	e.until = now.Add(e.record.TTL)
	return c.read(e), nil
}

// Release implements registry.Coordinator.
func (c *Coordinator) Release(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	res, e, now, err := c.find(ctx, ref)
	if err != nil {
		return registry.Record{}, err
	}
	if e.ended == "" {
		c.end(res, grant.StateReleased, now)
	}
	return c.read(e), nil
}

// Status implements registry.Coordinator.
func (c *Coordinator) Status(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, e, _, err := c.find(ctx, ref)
	if err != nil {
		return registry.Record{}, err
	}
	return c.read(e), nil
}

// ByRequest implements registry.Coordinator.
func (c *Coordinator) ByRequest(ctx context.Context, key registry.Key) (registry.Record, error) {
	if err := key.Validate(); err != nil {
		return registry.Record{}, err
	}
	if err := ctx.Err(); err != nil {
		return registry.Record{}, sdk.Errorf(sdk.NotApplied, "", "the context was done before anything was asked: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	res, _ := c.at(key.Resource)
	e := res.requests[key]
	if e == nil {
		return registry.Record{}, registry.Unknown(key)
	}
	return c.read(e), nil
}

// Highest implements registry.Coordinator.
func (c *Coordinator) Highest(ctx context.Context, r sdk.ResourceID) (sdk.Token, error) {
	return c.Raise(ctx, r, 0)
}

// Raise implements registry.Coordinator.
func (c *Coordinator) Raise(ctx context.Context, r sdk.ResourceID, floor sdk.Token) (sdk.Token, error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	if floor > sdk.MaxToken {
		return 0, sdk.Errorf(sdk.Invalid, "floor", "%s is above %s", floor, sdk.MaxToken)
	}
	if err := ctx.Err(); err != nil {
		return 0, sdk.Errorf(sdk.NotApplied, "", "the context was done before anything was asked: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	res, _ := c.at(r)
	res.counter = max(res.counter, floor)
	return res.counter, nil
}

// Watch implements registry.Coordinator.
func (c *Coordinator) Watch(ctx context.Context, r sdk.ResourceID) (<-chan struct{}, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	res, _ := c.at(r)
	ch := make(chan struct{}, 1)
	res.watchers[ch] = true
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(res.watchers, ch)
		close(ch)
	})
	return ch, nil
}

// Rewind puts the sequence of r back to token and forgets its requests and its
// holder: what a backend restored from an old snapshot looks like.
func (c *Coordinator) Rewind(r sdk.ResourceID, token sdk.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	res, _ := c.at(r)
	res.counter, res.holder, res.ended, res.requests = token, nil, nil, map[registry.Key]*entry{}
	res.changed()
}

// Queued returns how many requests wait for r.
func (c *Coordinator) Queued(r sdk.ResourceID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	res, _ := c.at(r)
	return len(res.queue)
}
