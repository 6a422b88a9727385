package sqlitecoord

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

const columns = "resource, owner, request, token, revision, ttl_millis, params, note, until_millis, state"

// tx is what one transaction sees of a resource.
type tx struct {
	*sql.Conn
	ctx      context.Context
	resource sdk.ResourceID
	now      time.Time
	revision int64
}

// begin ends the lease that has run out, and forgets requests that ended long
// ago; an hour more than R2 asks for allows for a clock that was set.
func (c *Coordinator) begin(ctx context.Context, r sdk.ResourceID) (*tx, error) {
	t := &tx{Conn: c.conn, ctx: ctx, resource: r, now: c.clock.Now()}
	if err := t.QueryRowContext(ctx, "SELECT revision FROM fencedcoord_revision").Scan(&t.revision); err != nil {
		return nil, err
	}
	if err := t.change("UPDATE fencedcoord_request SET state = 'EXPIRED' WHERE resource = ? AND state = 'HELD' AND until_millis <= ?", string(r), t.now.UnixMilli()); err != nil {
		return nil, err
	}
	return t, t.change("DELETE FROM fencedcoord_request WHERE resource = ? AND state <> 'HELD' AND until_millis < ?", string(r), t.now.Add(-registry.Retention-time.Hour).UnixMilli())
}

// change executes a statement; one that changes a row moves the revision.
func (t *tx) change(query string, args ...any) error {
	res, err := t.ExecContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil || n == 0 {
		return err
	}
	t.revision++
	_, err = t.ExecContext(t.ctx, "UPDATE fencedcoord_revision SET revision = ?", t.revision)
	return err
}

// one reads the request that a condition names; nil if there is none.
func (t *tx) one(where string, args ...any) (*registry.Record, error) {
	var r registry.Record
	var token, revision, ttl, until int64
	var state string
	err := t.QueryRowContext(t.ctx, "SELECT "+columns+" FROM fencedcoord_request WHERE resource = ? AND "+where, append([]any{string(t.resource)}, args...)...).
		Scan((*string)(&r.Resource), &r.Owner, &r.RequestID, &token, &revision, &ttl, &r.Params, &r.Note, &until, &state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	r.Token, r.Revision, r.TTL = sdk.Token(token), uint64(revision), time.Duration(ttl)*time.Millisecond
	r.Lease = "sqlite-" + strconv.FormatInt(revision, 10)
	r.State, r.Observed = grant.State(state), uint64(t.revision)
	if r.State == grant.StateHeld {
		// Counted from this process's reading of the clock, so that what becomes of
		// the wall clock afterwards does not move it.
		r.Until = t.now.Add(time.Duration(until-t.now.UnixMilli()) * time.Millisecond)
	}
	return &r, nil
}

func (t *tx) request(k registry.Key) (*registry.Record, error) {
	return t.one("owner = ? AND request = ?", k.Owner, k.RequestID)
}

// highest reads the sequence, and compares it with what this handle has seen.
func (c *Coordinator) highest(t *tx) (sdk.Token, error) {
	var n int64
	err := t.QueryRowContext(t.ctx, "SELECT coalesce(max(highest), 0) FROM fencedcoord_sequence WHERE resource = ?", string(t.resource)).Scan(&n)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := c.seen[t.resource]; sdk.Token(n) < seen {
		return 0, registry.WentBack(t.resource, sdk.Token(n), seen)
	}
	return sdk.Token(n), nil
}

// saw remembers a token that is committed.
func (c *Coordinator) saw(r sdk.ResourceID, n sdk.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[r] = max(c.seen[r], n)
}

// changes returns a channel that is closed when this handle changed r.
func (c *Coordinator) changes(r sdk.ResourceID) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wake[r] == nil {
		c.wake[r] = make(chan struct{})
	}
	return c.wake[r]
}

func (c *Coordinator) changed(r sdk.ResourceID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.wake[r]; ch != nil {
		close(ch)
		delete(c.wake, r)
	}
}

// find runs change on the grant that ref names and returns it as it is then.
func (c *Coordinator) find(ctx context.Context, ref registry.Ref, change func(*tx, *registry.Record) error) (registry.Record, error) {
	if err := ref.Validate(); err != nil {
		return registry.Record{}, err
	}
	var out registry.Record
	err := c.transact(ctx, func(ctx context.Context) error {
		t, err := c.begin(ctx, ref.Resource)
		if err != nil {
			return err
		}
		r, err := t.request(ref.Key)
		switch {
		case err != nil:
			return err
		case r == nil || r.Token != ref.Token:
			return registry.Unknown(ref.Key)
		}
		if r.State == grant.StateHeld && change != nil {
			if err := change(t, r); err != nil {
				return err
			}
			if r, err = t.request(ref.Key); err != nil {
				return err
			}
		}
		out = *r
		return nil
	})
	if err != nil {
		return registry.Record{}, err
	}
	c.saw(ref.Resource, ref.Token)
	return out, nil
}

// Renew implements registry.Coordinator.
func (c *Coordinator) Renew(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	r, err := c.find(ctx, ref, func(t *tx, r *registry.Record) error {
		return t.change("UPDATE fencedcoord_request SET until_millis = ? WHERE resource = ? AND owner = ? AND request = ?",
			t.now.Add(r.TTL).UnixMilli(), string(ref.Resource), ref.Owner, ref.RequestID)
	})
	if err == nil && r.State != grant.StateHeld {
		err = registry.Ended(&r)
	}
	return r, err
}

// Release implements registry.Coordinator.
func (c *Coordinator) Release(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	r, err := c.find(ctx, ref, func(t *tx, r *registry.Record) error {
		return t.change("UPDATE fencedcoord_request SET state = 'RELEASED', until_millis = ? WHERE resource = ? AND owner = ? AND request = ?",
			t.now.UnixMilli(), string(ref.Resource), ref.Owner, ref.RequestID)
	})
	if err == nil {
		c.changed(ref.Resource)
	}
	return r, err
}

// Status implements registry.Coordinator.
func (c *Coordinator) Status(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	return c.find(ctx, ref, nil)
}

// ByRequest implements registry.Coordinator.
func (c *Coordinator) ByRequest(ctx context.Context, key registry.Key) (registry.Record, error) {
	if err := key.Validate(); err != nil {
		return registry.Record{}, err
	}
	var out registry.Record
	err := c.transact(ctx, func(ctx context.Context) error {
		t, err := c.begin(ctx, key.Resource)
		if err != nil {
			return err
		}
		r, err := t.request(key)
		if err == nil && r == nil {
			err = registry.Unknown(key)
		}
		if err == nil {
			out = *r
		}
		return err
	})
	if err != nil {
		return registry.Record{}, err
	}
	return out, nil
}

// Highest implements registry.Coordinator.
func (c *Coordinator) Highest(ctx context.Context, r sdk.ResourceID) (sdk.Token, error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	var n sdk.Token
	err := c.transact(ctx, func(ctx context.Context) (err error) {
		n, err = c.highest(&tx{Conn: c.conn, ctx: ctx, resource: r})
		return err
	})
	if err != nil {
		return 0, err
	}
	c.saw(r, n)
	return n, nil
}

const raise = `INSERT INTO fencedcoord_sequence (resource, highest) VALUES (?, ?)
	ON CONFLICT (resource) DO UPDATE SET highest = excluded.highest WHERE excluded.highest > highest`

// Raise implements registry.Coordinator.
func (c *Coordinator) Raise(ctx context.Context, r sdk.ResourceID, floor sdk.Token) (sdk.Token, error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	if floor > sdk.MaxToken {
		return 0, sdk.Errorf(sdk.Invalid, "floor", "%s is above %s", floor, sdk.MaxToken)
	}
	if floor == 0 {
		return c.Highest(ctx, r)
	}
	var n int64
	err := c.transact(ctx, func(ctx context.Context) error {
		t, err := c.begin(ctx, r)
		if err == nil {
			err = t.change(raise, string(r), int64(floor))
		}
		if err == nil {
			err = t.QueryRowContext(ctx, "SELECT highest FROM fencedcoord_sequence WHERE resource = ?", string(r)).Scan(&n)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	c.saw(r, sdk.Token(n))
	return sdk.Token(n), nil
}

// Watch implements registry.Coordinator: it sends at every look that a waiter
// would take.
func (c *Coordinator) Watch(ctx context.Context, r sdk.ResourceID) (<-chan struct{}, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	ch := make(chan struct{}, 1)
	go func() {
		defer c.work.Done()
		defer close(ch)
		for c.pause(ctx, r) == nil {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}()
	return ch, nil
}

// pause returns when it is time to look again, or why not to.
func (c *Coordinator) pause(ctx context.Context, r sdk.ResourceID) error {
	t := time.NewTimer(poll)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return sdk.Errorf(sdk.Closed, "", "the coordinator was closed")
	case <-c.changes(r):
	case <-t.C:
	}
	return nil
}
