package sqlitecoord

import (
	"context"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// Acquire implements registry.Coordinator.
func (c *Coordinator) Acquire(ctx context.Context, a registry.Acquisition) (registry.Record, error) {
	if err := a.Validate(); err != nil {
		return registry.Record{}, err
	}
	for {
		var out *registry.Record
		err := c.transact(ctx, func(ctx context.Context) (err error) {
			out, err = c.try(ctx, &a)
			return err
		})
		if err == nil && out != nil {
			c.saw(a.Resource, out.Token)
			c.changed(a.Resource)
			return *out, nil
		}
		if err == nil {
			// In the queue.
			if err = c.pause(ctx, a.Resource); err == nil {
				continue
			}
			err = classify(err)
		}
		if a.Wait && sdk.CodeOf(err) != sdk.Invalid {
			err = c.leave(ctx, &a, err)
		}
		return registry.Record{}, err
	}
}

// try grants, or stands in the queue: nil, nil.
func (c *Coordinator) try(ctx context.Context, a *registry.Acquisition) (*registry.Record, error) {
	t, err := c.begin(ctx, a.Resource)
	if err != nil {
		return nil, err
	}
	if r, err := t.request(a.Key); err != nil {
		return nil, err
	} else if r != nil {
		return r, r.Repeats(a)
	}
	highest, err := c.highest(t)
	switch {
	case err != nil:
		return nil, err
	case highest < a.Floor:
		return nil, registry.WentBack(a.Resource, highest, a.Floor)
	case highest == sdk.MaxToken:
		return nil, registry.Exhausted(a.Resource)
	}
	holder, err := t.one("state = 'HELD'")
	if err != nil {
		return nil, err
	}
	var before bool
	err = t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM fencedcoord_waiter WHERE resource = ?1 AND seen_millis >= ?2
		AND place < coalesce((SELECT place FROM fencedcoord_waiter WHERE resource = ?1 AND owner = ?3 AND request = ?4), 9223372036854775807))`,
		string(a.Resource), time.Now().Add(-WaiterLife).UnixMilli(), a.Owner, a.RequestID).Scan(&before)
	if err != nil {
		return nil, err
	}
	if holder == nil && !before {
		return c.grant(t, a, highest+1)
	}
	if !a.Wait {
		return nil, registry.Busy(a.Key)
	}
	// Whether a waiter lives is a matter of its process, by the real clock.
	_, err = t.ExecContext(ctx, `INSERT INTO fencedcoord_waiter (resource, owner, request, seen_millis) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET seen_millis = excluded.seen_millis WHERE seen_millis < excluded.seen_millis - 1000`, string(a.Resource), a.Owner, a.RequestID, time.Now().UnixMilli())
	return nil, err
}

func (c *Coordinator) grant(t *tx, a *registry.Acquisition, token sdk.Token) (*registry.Record, error) {
	if err := t.change(raise, string(a.Resource), int64(token)); err != nil {
		return nil, err
	}
	err := t.change("INSERT INTO fencedcoord_request ("+columns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", string(a.Resource), a.Owner, a.RequestID,
		int64(token), t.revision, a.TTL.Milliseconds(), notNil(a.Params), notNil(a.Note), t.now.Add(a.TTL).UnixMilli(), string(grant.StateHeld))
	if err != nil {
		return nil, err
	}
	// With it go the places of those who were not seen any more.
	_, err = t.ExecContext(t.ctx, "DELETE FROM fencedcoord_waiter WHERE resource = ? AND (owner = ? AND request = ? OR seen_millis < ?)",
		string(a.Resource), a.Owner, a.RequestID, time.Now().Add(-WaiterLife).UnixMilli())
	if err != nil {
		return nil, err
	}
	return t.request(a.Key)
}

// notNil keeps an empty value apart from NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// leaveTimeout bounds what a wait that has ended still does for the others.
const leaveTimeout = 250 * time.Millisecond

// leave gives up the place in the queue. Another call with the same key that
// waits still takes its place again, at the end.
func (c *Coordinator) leave(ctx context.Context, a *registry.Acquisition, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	// Where this does not succeed the place is lost by itself, after WaiterLife:
	// only a call grants, and this one does not any more.
	if err := c.transact(ctx, func(ctx context.Context) error {
		_, err := c.conn.ExecContext(ctx, "DELETE FROM fencedcoord_waiter WHERE resource = ? AND owner = ? AND request = ?", string(a.Resource), a.Owner, a.RequestID)
		return err
	}); err == nil {
		c.changed(a.Resource)
	}
	return cause
}
