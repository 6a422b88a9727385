package zkcoord

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
	"github.com/go-zookeeper/zk"
)

// attempt is one Acquire under way.
type attempt struct {
	c    *Coordinator
	a    *registry.Acquisition
	id   string // in the names of what this attempt creates
	node string // its place in the queue, a whole path; empty without one
	// unsure: a place may have been made of which nothing is known.
	unsure bool
}

// Acquire implements registry.Coordinator.
func (c *Coordinator) Acquire(ctx context.Context, a registry.Acquisition) (registry.Record, error) {
	if err := a.Validate(); err != nil {
		return registry.Record{}, err
	}
	t := &attempt{c: c, a: &a, id: rand.Text()}
	r, err := t.run(ctx)
	if t.node != "" {
		t.leave(ctx)
	}
	if t.unsure {
		c.tidy(c.resource(a.Resource).queue, t.id)
	}
	if err != nil {
		return registry.Record{}, err
	}
	return r, r.Repeats(&a)
}

func (t *attempt) run(ctx context.Context) (registry.Record, error) {
	for {
		v, known, err := t.c.look(ctx, t.a.Key)
		if err != nil {
			return registry.Record{}, t.ended(ctx, err)
		}
		if v.record != nil {
			t.c.saw(t.a.Resource, v.record.Token)
			return t.c.shown(v), nil
		}
		if known = max(known, t.a.Floor); v.counter < known {
			return registry.Record{}, registry.WentBack(t.a.Resource, v.counter, known)
		}
		t.c.saw(t.a.Resource, v.counter)
		if v.counter == sdk.MaxToken {
			return registry.Record{}, registry.Exhausted(t.a.Resource)
		}
		if err := t.c.fits(t.a.TTL); err != nil {
			return registry.Record{}, err
		}
		before, err := t.before(ctx, v)
		if err != nil {
			return registry.Record{}, t.ended(ctx, err)
		}
		switch {
		case !v.held && before == "":
			r, err := t.grant(ctx, v)
			if moved(err) {
				continue
			}
			return r, err
		case !t.a.Wait:
			return registry.Record{}, registry.Busy(t.a.Key)
		case t.node == "":
			err = t.enqueue(ctx, v)
		default:
			err = t.wait(ctx, v, before)
		}
		if err != nil {
			return registry.Record{}, t.ended(ctx, err)
		}
	}
}

// ended is the answer to a wait that is over: this call grants no more.
func (t *attempt) ended(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return sdk.Errorf(sdk.NotApplied, "", "ended before it was granted %q: %w", t.a.Resource, cause)
	}
	return err
}

// grant is the one multi that makes an owner.
func (t *attempt) grant(ctx context.Context, v *view) (registry.Record, error) {
	token := v.counter + 1
	w := record{Resource: string(t.a.Resource), Owner: t.a.Owner, RequestID: t.a.RequestID, Token: token.String(), Attempt: t.id,
		TTL: t.a.TTL.Milliseconds(), Params: t.a.Params, Note: t.a.Note, State: string(grant.StateHeld)}
	ops := []any{
		&zk.SetDataRequest{Path: v.sequence, Data: []byte(token.String()), Version: v.version},
		&zk.CreateRequest{Path: v.paths.holder, Data: encode(place{w.Resource, w.Owner, w.RequestID, w.Token}), Acl: t.c.acl, Flags: zk.FlagEphemeral},
		&zk.CreateRequest{Path: v.paths.record, Data: encode(w), Acl: t.c.acl},
	}
	if t.node != "" {
		ops = append(ops, &zk.DeleteRequest{Path: t.node, Version: -1})
	}
	sent := t.c.clock.Now()
	err := t.c.multi(ctx, writing, ops...)
	if moved(err) {
		return registry.Record{}, err
	}
	if err == nil || sdk.CodeOf(err) == sdk.MutationUnknown {
		// Unknown, it may hold all the same, and ends all the same.
		t.c.keep(t.a.Key, sent.Add(t.a.TTL), t.a.TTL, 0)
	}
	if err == nil {
		t.node = ""
		t.c.saw(t.a.Resource, token)
	}
	if err != nil && (sdk.CodeOf(err) != sdk.MutationUnknown || ctx.Err() != nil) {
		return registry.Record{}, err
	}
	// The record as it is, with its revision; after a lost answer, whether there is
	// one.
	again, _, rerr := t.c.look(ctx, t.a.Key)
	switch {
	case rerr != nil || again.record == nil && err != nil:
		return registry.Record{}, sdk.Errorf(sdk.MutationUnknown, "zookeeper", "it is not known whether it was granted; ask again with the same request ID: %w", first(err, rerr))
	case again.record == nil:
		return registry.Record{}, sdk.Errorf(sdk.MutationUnknown, "record", "granted, and it is gone")
	}
	if again.wire.Attempt != t.id {
		// Another call with this request was granted.
		t.c.drop(t.a.Key)
	}
	t.c.saw(t.a.Resource, again.record.Token)
	return t.c.shown(again), nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// enqueue takes a place in the queue. Where the answer was lost the place is
// looked for by the attempt's ID; one of another session of this handle is about
// to go, and not taken (C31).
func (t *attempt) enqueue(ctx context.Context, v *view) error {
	got := make(chan string, 1)
	err := t.c.do(ctx, writing, func() error {
		node, err := t.c.conn.Create(v.queue+"/"+t.id+"-", []byte(t.a.Owner), zk.FlagEphemeral|zk.FlagSequence, t.c.acl)
		if err == nil {
			got <- node
		}
		return err
	})
	if err == nil {
		t.node = <-got
		return nil
	}
	if sdk.CodeOf(err) != sdk.MutationUnknown {
		return err
	}
	t.unsure = true
	if ctx.Err() != nil {
		return err
	}
	return t.adopt(ctx, v)
}

func (t *attempt) adopt(ctx context.Context, v *view) error {
	names, err := t.c.children(ctx, v.queue)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, t.id+"-") {
			continue
		}
		n, err := t.c.get(ctx, v.queue+"/"+name)
		if err != nil {
			return err
		}
		if n != nil && n.stat.EphemeralOwner == t.c.conn.SessionID() {
			t.node = v.queue + "/" + name
		}
	}
	return nil // without one, it is created at the next round
}

// sequence reads the suffix of a waiter's name.
func sequence(name string) (int32, bool) {
	_, suffix, ok := strings.Cut(name, "-")
	n, err := strconv.ParseInt(suffix, 10, 32)
	return int32(n), ok && err == nil
}

// order sorts waiters as they came. The suffix has 32 bits, and after the highest
// comes the lowest: their difference tells the order, not their size or spelling
// (C30). Nothing but fairness hangs on it.
func order(names []string) {
	slices.SortFunc(names, func(a, b string) int {
		x, _ := sequence(a)
		y, _ := sequence(b)
		switch d := x - y; {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return strings.Compare(a, b)
	})
}

// before is the waiter who stands before this attempt, the last of all for one
// without a place; empty for none.
func (t *attempt) before(ctx context.Context, v *view) (string, error) {
	names, err := t.c.children(ctx, v.queue)
	if err != nil {
		return "", err
	}
	names = slices.DeleteFunc(names, func(n string) bool { _, ok := sequence(n); return !ok })
	order(names)
	i := len(names)
	if t.node != "" {
		if i = slices.Index(names, strings.TrimPrefix(t.node, v.queue+"/")); i < 0 {
			t.node = "" // gone with a session
			i = len(names)
		}
	}
	if i == 0 {
		return "", nil
	}
	return names[i-1], nil
}

// wait returns when it is time to look again: whoever stands before is gone, or
// the holder where nobody does, or this request was granted to another call.
func (t *attempt) wait(ctx context.Context, v *view, before string) error {
	path := v.paths.holder
	if before != "" {
		path = v.queue + "/" + before
	}
	there, gone, err := t.c.exists(ctx, path)
	if err != nil || !there {
		return err
	}
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return classify(reading, ctx.Err())
	case <-t.c.closed:
		return sdk.Errorf(sdk.Closed, "", "the coordinator was closed")
	case <-gone:
	case <-timer.C:
	}
	return nil
}

// tidy deletes what an attempt left in a queue, behind the call's back: the session
// lives on with the handle, and a place on it would block who came later.
func (c *Coordinator) tidy(queue, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.work.Add(1)
	go func() {
		defer c.work.Done()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		tick := time.NewTicker(recheck)
		defer tick.Stop()
		for {
			// A create that was on its way is carried out before the session's next
			// request.
			names, err := c.children(ctx, queue)
			for _, name := range names {
				if err == nil && strings.HasPrefix(name, id+"-") {
					err = c.do(ctx, reading, func() error { return c.conn.Delete(queue+"/"+name, -1) })
				}
			}
			if err == nil || is(err, zk.ErrNoNode) || sdk.CodeOf(err) == sdk.Closed {
				return
			}
			select {
			case <-c.closed:
				return
			case <-tick.C:
			}
		}
	}()
}

// leaveTimeout bounds what a call that has ended still does for the others.
const leaveTimeout = 250 * time.Millisecond

// leave gives up the place; where that fails it goes with the session.
func (t *attempt) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	node := t.node
	if err := t.c.do(ctx, reading, func() error { return t.c.conn.Delete(node, -1) }); err != nil && !is(err, zk.ErrNoNode) {
		t.c.log.Debug("a place in the queue is left to the session's end", "node", node, "error", err)
	}
}
