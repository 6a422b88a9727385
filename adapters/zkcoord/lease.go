package zkcoord

import (
	"context"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// lease is a holder that this handle granted or renewed, and ends when its time is
// over.
type lease struct {
	deadline time.Time
	ttl      time.Duration
	version  int32         // of the record, after the last renewal that is known
	changed  chan struct{} // closed when the lease is of no more concern
}

// fits refuses a TTL that the session does not outlast: the holder's node could go
// before the lease.
func (c *Coordinator) fits(ttl time.Duration) error {
	if session := time.Duration(c.session.Load()) * time.Millisecond; ttl > session {
		return sdk.Errorf(sdk.Unsuitable, "TTL", "%v, and the server allows this session %v; use up to that, or raise ?session= and the server's maxSessionTimeout", ttl, session)
	}
	return nil
}

// keep has the lease end at a deadline unless it is extended.
func (c *Coordinator) keep(k registry.Key, deadline time.Time, ttl time.Duration, version int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.leases[k]; old != nil {
		close(old.changed)
	}
	if c.over {
		delete(c.leases, k)
		return
	}
	l := &lease{deadline, ttl, version, make(chan struct{})}
	c.leases[k] = l
	c.work.Add(1)
	go c.watch(k, l)
}

// drop forgets a lease that has ended.
func (c *Coordinator) drop(k registry.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.leases[k]; l != nil {
		close(l.changed)
		delete(c.leases, k)
	}
}

// watch ends a lease at its deadline, and tries until it has.
func (c *Coordinator) watch(k registry.Key, l *lease) {
	defer c.work.Done()
	timer := c.clock.Timer(l.deadline.Sub(c.clock.Now()))
	defer timer.Stop()
	select {
	case <-c.closed:
		return
	case <-l.changed:
		return
	case <-timer.C:
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.closed:
		case <-l.changed:
		case <-ctx.Done():
		}
		cancel()
	}()
	for ctx.Err() == nil {
		if c.expire(ctx, k, l) {
			return
		}
		// The server is away. The session's own end is the lease's, at the latest.
		again := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
		again.Stop()
	}
}

// expire ends a lease whose time is over, unless it was renewed meanwhile. false:
// it is not known.
func (c *Coordinator) expire(ctx context.Context, k registry.Key, l *lease) bool {
	now := c.clock.Now()
	v, _, err := c.look(ctx, k)
	switch {
	case err != nil:
		return false
	case v.record == nil || v.record.State != grant.StateHeld || v.session != c.conn.SessionID():
		c.forget(k, l) // it has ended, or lives on another session, whose handle ends it
		return true
	case v.rstat.Version != l.version:
		// A renewal whose answer was lost.
		c.mu.Lock()
		current := c.leases[k] == l
		c.mu.Unlock()
		if current {
			c.keep(k, now.Add(l.ttl), l.ttl, v.rstat.Version)
		}
		return true
	}
	if err := c.finish(ctx, v, grant.StateExpired); err != nil {
		return false
	}
	c.forget(k, l)
	return true
}

func (c *Coordinator) forget(k registry.Key, l *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases[k] == l {
		delete(c.leases, k)
	}
}
