package etcdcoord

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// attempt is one Acquire under way.
type attempt struct {
	c *Coordinator
	a *registry.Acquisition
	names

	lease, retention clientv3.LeaseID
	asked            time.Time // before the leases were asked for
	keeper           *keeper

	at    sdk.Token // the sequence, as far as this attempt knows
	empty bool      // nobody is in the queue
	found *held     // the request's record
}

// Acquire implements registry.Coordinator.
func (c *Coordinator) Acquire(ctx context.Context, a registry.Acquisition) (registry.Record, error) {
	if err := a.Validate(); err != nil {
		return registry.Record{}, err
	}
	t := &attempt{c: c, a: &a, names: c.names(a.Key)}
	granted, err := t.run(ctx)
	if t.keeper != nil {
		t.keeper.stop()
	}
	if granted != nil && granted.lease == t.lease {
		c.saw(a.Resource, granted.Token)
		c.remember(granted)
		return granted.Record, nil
	}
	// This attempt's leases are of no use: it was refused, or the grant is another
	// call's. With a grant whose answer was lost they are let be.
	if sdk.CodeOf(err) != sdk.MutationUnknown && !c.drop(ctx, t.lease, t.retention) {
		c.log.Debug("leases are left to run out", "resource", a.Resource)
	}
	if err != nil {
		return registry.Record{}, err
	}
	if err := granted.Repeats(&a); err != nil {
		return registry.Record{}, err
	}
	c.saw(a.Resource, granted.Token)
	return c.status(ctx, granted)
}

// run returns the request's grant: this attempt's, if it is on its lease.
func (t *attempt) run(ctx context.Context) (*held, error) {
	if err := t.look(ctx); err != nil || t.found != nil {
		return t.found, err
	}
	if !t.a.Wait && !t.empty {
		return nil, registry.Busy(t.a.Key)
	}
	if err := t.grantLeases(ctx); err != nil {
		return nil, err
	}
	for t.empty {
		h, err := t.grant(ctx, clientv3.Compare(clientv3.CreateRevision(t.queue), "=", 0).WithPrefix())
		if h != nil || err != nil {
			return h, err
		}
	}
	if !t.a.Wait {
		return nil, registry.Busy(t.a.Key)
	}
	t.keeper = t.c.keep(t.lease, t.a.TTL, t.asked)
	for {
		created, err := t.enqueue(ctx)
		if err != nil || t.found != nil {
			return t.found, err
		}
		for there := true; there; {
			if err := t.wait(ctx, created); err != nil {
				return nil, err
			}
			var h *held
			if h, there, err = t.turn(ctx, created); h != nil || err != nil {
				return h, err
			}
		}
		// The place is gone, with a lease that ended. Nothing was granted.
		if t.keeper.lost() {
			return nil, sdk.Errorf(sdk.NotApplied, "lease", "it ended while it waited for %q; ask again", t.a.Resource)
		}
	}
}

// the reads that tell an attempt what it needs to know.
func (t *attempt) reads() []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(t.record), clientv3.OpGet(t.place), clientv3.OpGet(t.counter),
		clientv3.OpGet(t.queue, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())}
}

func (t *attempt) look(ctx context.Context) error {
	m := t.c.mark(t.a.Resource)
	r, err := t.c.txn(ctx, reading, nil, t.reads(), nil)
	if err != nil {
		return err
	}
	return t.learn(m, r)
}

// learn takes in what reads read after a mark, and refuses a sequence that went back or is at
// its end.
func (t *attempt) learn(m mark, r *clientv3.TxnResponse) (err error) {
	t.found, err = parseRecord(t.a.Key, r.Responses[0].GetResponseRange().Kvs, r.Responses[1].GetResponseRange().Kvs, r.Header.Revision)
	if err != nil || t.found != nil {
		return err
	}
	if t.at, err = parseCounter(r.Responses[2].GetResponseRange().Kvs); err != nil {
		return err
	}
	t.empty = len(r.Responses[3].GetResponseRange().Kvs) == 0
	if err := t.c.check(m, t.at, t.a.Floor); err != nil {
		return err
	}
	if t.at == sdk.MaxToken {
		return registry.Exhausted(t.a.Resource)
	}
	return nil
}

// grantLeases asks for the owner's lease and for the record's, at the same time.
func (t *attempt) grantLeases(ctx context.Context) error {
	t.asked = time.Now()
	var wg sync.WaitGroup
	var errs [2]error
	ask := func(i int, id *clientv3.LeaseID, ttl time.Duration) {
		wg.Go(func() {
			seconds := int64((ttl + time.Second - 1) / time.Second)
			r, err := t.c.client.Grant(ctx, seconds)
			if err != nil {
				errs[i] = classify(reading, wrapped(ctx, err)) // a lease by itself is nothing
				return
			}
			*id = r.ID
			if r.TTL < seconds {
				errs[i] = sdk.Errorf(sdk.Unsuitable, "TTL", "etcd grants %d s and not %d s", r.TTL, seconds)
			}
		})
	}
	ask(0, &t.lease, t.a.TTL)
	ask(1, &t.retention, registry.Retention+time.Hour+t.a.TTL)
	wg.Wait()
	return errors.Join(errs[0], errs[1])
}

// grant is the one transaction that makes an owner, under conditions on the
// queue. nil, nil: they did not hold, and what holds was learned.
func (t *attempt) grant(ctx context.Context, conditions ...clientv3.Cmp) (*held, error) {
	if t.c.behind(t.a.Resource, t.at) {
		// A guess from before a restore would be true again there.
		err := t.look(ctx)
		return t.found, err
	}
	if t.at == sdk.MaxToken {
		return nil, registry.Exhausted(t.a.Resource)
	}
	token := t.at + 1
	w := record{Resource: string(t.a.Resource), Owner: t.a.Owner, RequestID: t.a.RequestID, Token: token.String(),
		Lease: strconv.FormatInt(int64(t.lease), 16), TTL: t.a.TTL.Milliseconds(), Params: t.a.Params, Note: t.a.Note}
	until := t.asked.Add(t.a.TTL)
	if t.keeper != nil {
		until = t.keeper.until()
	}
	conditions = append(conditions, counterIs(t.counter, t.at), clientv3.Compare(clientv3.CreateRevision(t.record), "=", 0))
	m := t.c.mark(t.a.Resource)
	r, err := t.c.txn(ctx, writing, conditions, []clientv3.Op{
		clientv3.OpPut(t.counter, token.String()),
		clientv3.OpPut(t.place, newPlace(t.a.Key, token), clientv3.WithLease(t.lease)),
		clientv3.OpPut(t.record, encode(w), clientv3.WithLease(t.retention)),
	}, t.reads())
	switch {
	case sdk.CodeOf(err) == sdk.MutationUnknown:
		return t.settle(ctx, err, until)
	case err != nil:
		return nil, err
	case r.Succeeded:
		return &held{lease: t.lease, mod: r.Header.Revision, wire: w, Record: registry.Record{Ref: registry.Ref{Key: t.a.Key, Token: token}, Lease: w.Lease,
			Revision: uint64(r.Header.Revision), TTL: t.a.TTL, Params: t.a.Params, Note: t.a.Note,
			State: grant.StateHeld, Until: until, Observed: uint64(r.Header.Revision)}.Clone()}, nil
	}
	if err := t.learn(m, r); err != nil {
		return nil, err
	}
	return t.found, nil
}

// settle looks for the record of a transaction whose answer was lost. There, it
// was granted; else it still may be.
func (t *attempt) settle(ctx context.Context, unknown error, until time.Time) (*held, error) {
	if ctx.Err() != nil {
		return nil, unknown
	}
	h, err := t.c.read(ctx, t.a.Key)
	if err != nil || h == nil {
		return nil, unknown
	}
	if h.lease == t.lease && h.State == grant.StateHeld {
		h.Until = until
	}
	return h, nil
}
