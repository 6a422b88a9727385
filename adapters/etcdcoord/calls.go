package etcdcoord

import (
	"context"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// read reads the record of a key, linearizable; nil if there is none.
func (c *Coordinator) read(ctx context.Context, k registry.Key) (*held, error) {
	n := c.names(k)
	r, err := c.txn(ctx, reading, nil, []clientv3.Op{clientv3.OpGet(n.record), clientv3.OpGet(n.place)}, nil)
	if err != nil {
		return nil, err
	}
	return parseRecord(k, r.Responses[0].GetResponseRange().Kvs, r.Responses[1].GetResponseRange().Kvs, r.Header.Revision)
}

// status is read with the end of the lease, which is asked for first: what the
// record says afterwards is what holds.
func (c *Coordinator) status(ctx context.Context, h *held) (registry.Record, error) {
	if h.State != grant.StateHeld {
		return h.Record, nil
	}
	sent := time.Now()
	left, err := c.client.TimeToLive(ctx, h.lease)
	if err != nil {
		return registry.Record{}, classify(reading, wrapped(ctx, err))
	}
	again, err := c.read(ctx, h.Key)
	switch {
	case err != nil:
		return registry.Record{}, err
	case again == nil:
		return registry.Record{}, registry.Unknown(h.Key)
	case again.State == grant.StateHeld:
		again.Until = sent.Add(min(time.Duration(max(left.TTL, 0))*time.Second, again.TTL))
	}
	return again.Record, nil
}

func (c *Coordinator) find(ctx context.Context, ref registry.Ref) (*held, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	h, err := c.read(ctx, ref.Key)
	if err != nil {
		return nil, err
	}
	if h == nil || h.Token != ref.Token {
		return nil, registry.Unknown(ref.Key)
	}
	return h, nil
}

// Status implements registry.Coordinator.
func (c *Coordinator) Status(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	h, err := c.find(ctx, ref)
	if err != nil {
		return registry.Record{}, err
	}
	return c.status(ctx, h)
}

// ByRequest implements registry.Coordinator.
func (c *Coordinator) ByRequest(ctx context.Context, k registry.Key) (registry.Record, error) {
	if err := k.Validate(); err != nil {
		return registry.Record{}, err
	}
	h, err := c.read(ctx, k)
	if err == nil && h == nil {
		err = registry.Unknown(k)
	}
	if err != nil {
		return registry.Record{}, err
	}
	return c.status(ctx, h)
}

// Renew implements registry.Coordinator.
func (c *Coordinator) Renew(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	h, err := c.find(ctx, ref)
	if err != nil {
		return registry.Record{}, err
	}
	if h.State != grant.StateHeld {
		return h.Record, registry.Ended(&h.Record)
	}
	sent := time.Now()
	kept, err := c.client.KeepAliveOnce(ctx, h.lease)
	if err != nil && !leaseGone(err) {
		return registry.Record{}, classify(writing, wrapped(ctx, err))
	}
	again, rerr := c.read(ctx, ref.Key)
	switch {
	case rerr != nil:
		return registry.Record{}, sdk.Errorf(sdk.MutationUnknown, "lease", "extended, and its state cannot be read: %w", rerr)
	case again == nil:
		return registry.Record{}, registry.Unknown(ref.Key)
	case again.State != grant.StateHeld || err != nil:
		if again.State == grant.StateHeld {
			again.State = grant.StateExpired // the lease is gone, its keys go with it
		}
		return again.Record, registry.Ended(&again.Record)
	}
	again.Until = sent.Add(min(time.Duration(kept.TTL)*time.Second, again.TTL))
	// The record lasts for Retention from now. Where this fails it lasts for as long
	// as the renewal before has seen to, and the next one comes.
	if _, err := c.client.KeepAliveOnce(ctx, again.retention); err != nil {
		c.log.Debug("the record's lease was not extended", "error", err)
	}
	return again.Record, nil
}

// Release implements registry.Coordinator.
func (c *Coordinator) Release(ctx context.Context, ref registry.Ref) (registry.Record, error) {
	if err := ref.Validate(); err != nil {
		return registry.Record{}, err
	}
	n := c.names(ref.Key)
	h := c.forget(ref)
	for {
		var err error
		if h == nil {
			if h, err = c.find(ctx, ref); err != nil {
				return registry.Record{}, err
			}
		}
		if h.State != grant.StateHeld {
			return h.Record, nil
		}
		h.wire.Released = true
		r, err := c.txn(ctx, writing, []clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(n.record), "=", h.mod),
			clientv3.Compare(clientv3.Value(n.place), "=", newPlace(ref.Key, ref.Token)),
		}, []clientv3.Op{
			clientv3.OpDelete(n.place),
			clientv3.OpPut(n.record, encode(h.wire), clientv3.WithIgnoreLease()),
		}, nil)
		if err != nil {
			return registry.Record{}, err
		}
		if r.Succeeded {
			c.drop(ctx, h.lease)
			h.State, h.Until, h.Observed = grant.StateReleased, time.Time{}, uint64(r.Header.Revision)
			return h.Record, nil
		}
		h = nil
	}
}

// maxGranted bounds what a handle remembers of its grants.
const maxGranted = 1 << 12

func (c *Coordinator) remember(h *held) {
	own := *h
	own.Record = h.Record.Clone()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.granted) >= maxGranted {
		clear(c.granted)
	}
	if own.State == grant.StateHeld {
		c.granted[h.Ref] = &own
	}
}

func (c *Coordinator) forget(ref registry.Ref) *held {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.granted[ref]
	delete(c.granted, ref)
	return h
}

// dropTimeout bounds what a call still does for the cluster's good.
const dropTimeout = 500 * time.Millisecond

// drop ends leases that are of no more use; where that fails they end by
// themselves.
func (c *Coordinator) drop(ctx context.Context, leases ...clientv3.LeaseID) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	all := true
	for _, id := range leases {
		if id == clientv3.NoLease {
			continue
		}
		if _, err := c.client.Revoke(ctx, id); err != nil && !leaseGone(err) {
			all = false
		}
	}
	return all
}

// Highest implements registry.Coordinator.
func (c *Coordinator) Highest(ctx context.Context, r sdk.ResourceID) (sdk.Token, error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	m := c.mark(r)
	at, err := c.counter(ctx, r)
	if err == nil {
		err = c.check(m, at, 0)
	}
	if err != nil {
		return 0, err
	}
	return at, nil
}

func (c *Coordinator) counter(ctx context.Context, r sdk.ResourceID) (sdk.Token, error) {
	got, err := c.txn(ctx, reading, nil, []clientv3.Op{clientv3.OpGet(c.resource(r).counter)}, nil)
	if err != nil {
		return 0, err
	}
	return parseCounter(got.Responses[0].GetResponseRange().Kvs)
}

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
	c.mu.Lock()
	back := c.back
	c.mu.Unlock()
	n := c.resource(r)
	for {
		m := c.mark(r)
		at, err := c.counter(ctx, r)
		if err != nil {
			return 0, err
		}
		if at < floor {
			put, err := c.txn(ctx, writing, []clientv3.Cmp{counterIs(n.counter, at)}, []clientv3.Op{clientv3.OpPut(n.counter, floor.String())}, nil)
			if err != nil {
				return 0, err
			}
			if !put.Succeeded {
				continue // somebody else was first
			}
			at = floor
		}
		c.mu.Lock()
		c.cleared[r] = back
		c.mu.Unlock()
		if err := c.check(m, at, 0); err != nil {
			return 0, err
		}
		return at, nil
	}
}

// counterIs compares the sequence with a number, 0 for none.
func counterIs(key string, t sdk.Token) clientv3.Cmp {
	if t == 0 {
		return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(key), "=", t.String())
}

// Watch implements registry.Coordinator.
func (c *Coordinator) Watch(ctx context.Context, r sdk.ResourceID) (<-chan struct{}, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	// From the revision of a read, so that no change after this call is missed.
	got, err := c.txn(ctx, reading, nil, []clientv3.Op{clientv3.OpGet(c.resource(r).counter, clientv3.WithKeysOnly())}, nil)
	if err != nil {
		return nil, err
	}
	changes := c.client.Watch(clientv3.WithRequireLeader(ctx), c.resource(r).queue, clientv3.WithPrefix(), clientv3.WithRev(got.Header.Revision+1))
	ch := make(chan struct{}, 1)
	go func() {
		defer close(ch)
		for range changes {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}()
	return ch, nil
}
