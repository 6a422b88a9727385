package zkcoord

import (
	"context"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
	"github.com/go-zookeeper/zk"
)

// find looks at the grant that ref names.
func (c *Coordinator) find(ctx context.Context, ref registry.Ref) (*view, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	v, _, err := c.look(ctx, ref.Key)
	if err != nil {
		return nil, err
	}
	if v.record == nil || v.record.Token != ref.Token {
		return nil, registry.Unknown(ref.Key)
	}
	return v, nil
}

// shown is the record with the end of the lease as far as this handle can vouch
// for it: it lives on this session, and was extended through this handle.
func (c *Coordinator) shown(v *view) registry.Record {
	r := v.record.Clone()
	if r.State != grant.StateHeld {
		return r
	}
	r.Until = c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.leases[v.key]; l != nil && v.session == c.conn.SessionID() && l.deadline.After(r.Until) {
		r.Until = l.deadline
	}
	return r
}

// Status implements registry.Coordinator.
func (c *Coordinator) Status(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	v, err := c.find(ctx, ref)
	if err != nil {
		return registry.Record{}, err
	}
	return c.shown(v), nil
}

// ByRequest implements registry.Coordinator.
func (c *Coordinator) ByRequest(ctx context.Context, k registry.Key) (registry.Record, error) {
	if err := k.Validate(); err != nil {
		return registry.Record{}, err
	}
	v, _, err := c.look(ctx, k)
	if err == nil && v.record == nil {
		err = registry.Unknown(k)
	}
	if err != nil {
		return registry.Record{}, err
	}
	return c.shown(v), nil
}

// Renew implements registry.Coordinator.
func (c *Coordinator) Renew(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	for {
		v, err := c.find(ctx, ref)
		if err != nil {
			return registry.Record{}, err
		}
		if v.record.State != grant.StateHeld {
			return v.record.Clone(), registry.Ended(v.record)
		}
		if err := c.fits(v.record.TTL); err != nil {
			return registry.Record{}, err
		}
		sent := c.clock.Now()
		if err := c.extend(ctx, v); moved(err) {
			continue
		} else if err != nil {
			return registry.Record{}, err
		}
		r := v.record.Clone()
		r.Until = sent.Add(r.TTL)
		c.keep(v.key, r.Until, r.TTL, v.rstat.Version+1)
		return r, nil
	}
}

// extend bumps the record's version, by which every handle sees that the lease was
// renewed, and has the holder's node live on this session.
func (c *Coordinator) extend(ctx context.Context, v *view) error {
	ops := []any{&zk.CheckVersionRequest{Path: v.sequence, Version: v.version}}
	if v.session == c.conn.SessionID() {
		ops = append(ops, &zk.CheckVersionRequest{Path: v.paths.holder, Version: -1})
	} else {
		ops = append(ops, &zk.DeleteRequest{Path: v.paths.holder, Version: -1},
			&zk.CreateRequest{Path: v.paths.holder, Data: encode(v.holder), Acl: c.acl, Flags: zk.FlagEphemeral})
	}
	ops = append(ops, &zk.SetDataRequest{Path: v.paths.record, Data: encode(v.wire), Version: v.rstat.Version})
	return c.multi(ctx, writing, ops...)
}

// Release implements registry.Coordinator.
func (c *Coordinator) Release(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	for {
		v, err := c.find(ctx, ref)
		if err != nil {
			return registry.Record{}, err
		}
		if v.record.State != grant.StateHeld {
			return v.record.Clone(), nil
		}
		err = c.finish(ctx, v, grant.StateReleased)
		if moved(err) {
			continue
		}
		if err != nil {
			return registry.Record{}, err
		}
		c.drop(v.key)
		r := v.record.Clone()
		r.State = grant.StateReleased
		return r, nil
	}
}

// finish ends the lease of a view, in one step with its record.
func (c *Coordinator) finish(ctx context.Context, v *view, how grant.State) error {
	w := v.wire
	w.State = string(how)
	return c.multi(ctx, writing,
		&zk.CheckVersionRequest{Path: v.sequence, Version: v.version},
		&zk.DeleteRequest{Path: v.paths.holder, Version: -1},
		&zk.SetDataRequest{Path: v.paths.record, Data: encode(w), Version: v.rstat.Version})
}

// anyKey is for looks at a resource that are about no request.
func anyKey(r sdk.ResourceID) registry.Key {
	return registry.Key{Resource: r, Owner: "-", RequestID: "-"}
}

// Highest implements registry.Coordinator.
func (c *Coordinator) Highest(ctx context.Context, r sdk.ResourceID) (sdk.Token, error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	v, known, err := c.look(ctx, anyKey(r))
	switch {
	case err != nil:
		return 0, err
	case v.counter < known:
		return 0, registry.WentBack(r, v.counter, known)
	}
	c.saw(r, v.counter)
	return v.counter, nil
}

// Raise implements registry.Coordinator.
func (c *Coordinator) Raise(ctx context.Context, r sdk.ResourceID, floor sdk.Token) (sdk.Token, error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	if floor > sdk.MaxToken {
		return 0, sdk.Errorf(sdk.Invalid, "floor", "%s is above %s", floor, sdk.MaxToken)
	}
	for {
		v, known, err := c.look(ctx, anyKey(r))
		if err != nil {
			return 0, err
		}
		if v.counter < floor {
			err := c.multi(ctx, writing, &zk.SetDataRequest{Path: v.sequence, Data: []byte(floor.String()), Version: v.version})
			if moved(err) {
				continue
			}
			if err != nil {
				return 0, err
			}
			v.counter = floor
		}
		if v.counter < known {
			return 0, registry.WentBack(r, v.counter, known)
		}
		c.saw(r, v.counter)
		return v.counter, nil
	}
}

// recheck is how often a wait looks without having been told to: a watch can be
// lost with its connection (C81).
const recheck = time.Second

// Watch implements registry.Coordinator.
func (c *Coordinator) Watch(ctx context.Context, r sdk.ResourceID) (<-chan struct{}, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := c.ensure(ctx, r); err != nil {
		return nil, err
	}
	_, events, err := c.exists(ctx, c.resource(r).holder)
	if err != nil {
		return nil, err
	}
	ch := make(chan struct{}, 1)
	go func() {
		defer close(ch)
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.closed:
				return
			case <-events:
			}
			select {
			case ch <- struct{}{}:
			default:
			}
			if _, events, err = c.exists(ctx, c.resource(r).holder); err != nil {
				return
			}
		}
	}()
	return ch, nil
}
