package zkcoord

import (
	"context"
	"errors"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-zookeeper/zk"
)

// phase is what an error without a rule means.
type phase = sdk.Code

const (
	reading = sdk.NotApplied      // nothing of weight is changed by it
	writing = sdk.MutationUnknown // it may have been applied
)

// rules are the answers of which it is known that the request was not carried
// out. Everything else is unknown: a closed connection and an expired session
// among them, since the request may have been on its way.
var rules = []struct {
	err    error
	code   sdk.Code
	advice string
}{
	{zk.ErrNoAuth, sdk.Unsuitable, "the user may not do this to the coordinator's nodes"},
	{zk.ErrAuthFailed, sdk.Unsuitable, "user or password are wrong"},
	{zk.ErrInvalidACL, sdk.Unsuitable, "the server does not take the nodes' ACL"},
	{zk.ErrNoServer, sdk.NotApplied, "no server could be reached, and nothing was sent"},
	{zk.ErrNoNode, sdk.NotApplied, "a node is gone"},
	{zk.ErrNodeExists, sdk.NotApplied, "a node is there"},
	{zk.ErrBadVersion, sdk.NotApplied, "a node has changed"},
	{zk.ErrNotEmpty, sdk.NotApplied, "a node has children"},
	{zk.ErrSessionMoved, sdk.NotApplied, "the session moved to another server"},
}

// classify says what an error means; one that is ours already stays.
func classify(p phase, err error) error {
	if err == nil || sdk.CodeOf(err) != 0 {
		return err
	}
	for _, r := range rules {
		if errors.Is(err, r.err) {
			return sdk.Errorf(r.code, "zookeeper", "%s: %w", r.advice, err)
		}
	}
	return sdk.Errorf(p, "zookeeper", "%w", err)
}

// is reports whether the server answered one of these.
func is(err error, any ...error) bool {
	for _, e := range any {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// moved reports whether what a multi was conditioned on has changed.
func moved(err error) bool { return is(err, zk.ErrBadVersion, zk.ErrNoNode, zk.ErrNodeExists) }

// do runs a request of the client library, which knows no contexts. A request
// whose call has ended goes on until it is answered or the handle closed; f
// writes to nothing that the caller reads after an error.
func (c *Coordinator) do(ctx context.Context, p phase, f func() error) error {
	if err := ctx.Err(); err != nil {
		return sdk.Errorf(sdk.NotApplied, "zookeeper", "nothing was sent: %w", err)
	}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return sdk.Errorf(sdk.Closed, "", "the coordinator was closed")
	}
	c.work.Add(1)
	c.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		defer c.work.Done()
		err := f()
		for errors.Is(err, zk.ErrNoServer) && c.later(ctx) {
			err = f() // nothing was sent
		}
		done <- err
	}()
	select {
	case err := <-done:
		return classify(p, err)
	case <-ctx.Done():
		return classify(p, ctx.Err())
	}
}

// later waits a moment, and reports whether there is a reason to.
func (c *Coordinator) later(ctx context.Context) bool {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-c.closed:
		return false
	case <-timer.C:
		return true
	}
}

func (c *Coordinator) multi(ctx context.Context, p phase, ops ...any) error {
	return c.do(ctx, p, func() error {
		_, err := c.conn.Multi(ops...)
		return err
	})
}

// answer is what a read gives.
type answer struct {
	data []byte
	stat zk.Stat
}

// get reads a node; nil if there is none.
func (c *Coordinator) get(ctx context.Context, path string) (*answer, error) {
	got := make(chan *answer, 1)
	err := c.do(ctx, reading, func() error {
		data, stat, err := c.conn.Get(path)
		if err == nil {
			got <- &answer{data, *stat}
		}
		return err
	})
	switch {
	case is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return <-got, nil
}

func (c *Coordinator) children(ctx context.Context, path string) ([]string, error) {
	got := make(chan []string, 1)
	err := c.do(ctx, reading, func() error {
		names, _, err := c.conn.Children(path)
		if err == nil {
			got <- names
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-got, nil
}

// exists watches a node, there or not; there reports which.
func (c *Coordinator) exists(ctx context.Context, path string) (there bool, events <-chan zk.Event, err error) {
	type result struct {
		there  bool
		events <-chan zk.Event
	}
	got := make(chan result, 1)
	err = c.do(ctx, reading, func() error {
		there, _, events, err := c.conn.ExistsW(path)
		if err == nil {
			got <- result{there, events}
		}
		return err
	})
	if err != nil {
		return false, nil, err
	}
	r := <-got
	return r.there, r.events, nil
}
