package etcdcoord

import (
	"context"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// enqueue takes a place in the queue, or takes over the one that this request
// has, and returns its create revision: its place in the order. A place is no
// grant, so an answer that is lost leaves nothing but a key on a lease.
func (t *attempt) enqueue(ctx context.Context) (int64, error) {
	value := newPlace(t.a.Key, 0)
	for {
		none := clientv3.Compare(clientv3.CreateRevision(t.record), "=", 0)
		put := clientv3.OpPut(t.place, value, clientv3.WithLease(t.lease))
		m := t.c.mark(t.a.Resource)
		r, err := t.c.txn(ctx, reading, []clientv3.Cmp{none, clientv3.Compare(clientv3.CreateRevision(t.place), "=", 0)}, []clientv3.Op{put}, t.reads())
		if err != nil {
			return 0, err
		}
		if r.Succeeded {
			return r.Header.Revision, nil
		}
		if err := t.learn(m, r); err != nil || t.found != nil {
			return 0, err
		}
		places := r.Responses[1].GetResponseRange().Kvs
		if len(places) == 0 {
			continue
		}
		// Another call with this key waits, or one did whose process is gone: the
		// place is the request's, and lives on this lease from now on.
		p := places[0]
		r, err = t.c.txn(ctx, reading, []clientv3.Cmp{none, clientv3.Compare(clientv3.ModRevision(t.place), "=", p.ModRevision)}, []clientv3.Op{put}, nil)
		if err != nil {
			return 0, err
		}
		if r.Succeeded {
			return p.CreateRevision, nil
		}
	}
}

// wait returns when whoever stood before the place that was created at a revision
// is gone, which may leave others. It watches the one key before, and learns the
// token from it.
func (t *attempt) wait(ctx context.Context, created int64) error {
	r, err := t.c.client.Get(ctx, t.queue, append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(created-1))...)
	if err != nil {
		return t.ended(ctx, classify(reading, wrapped(ctx, err)))
	}
	if len(r.Kvs) == 0 {
		return nil
	}
	t.hear(r.Kvs[0])
	return t.watch(ctx, string(r.Kvs[0].Key), r.Header.Revision+1)
}

// watch returns when a key was deleted, or the watch was.
func (t *attempt) watch(ctx context.Context, key string, from int64) error {
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := t.c.client.Watch(watching, key, clientv3.WithRev(from))
	for {
		select {
		case <-ctx.Done():
			return t.ended(ctx, nil)
		case <-t.keeper.gone:
			return sdk.Errorf(sdk.NotApplied, "lease", "it ended while it waited for %q; ask again", t.a.Resource)
		case r, ok := <-events:
			if !ok || r.Err() != nil {
				if ctx.Err() != nil {
					return t.ended(ctx, nil)
				}
				return t.pause(ctx)
			}
			for _, e := range r.Events {
				if e.Type == clientv3.EventTypeDelete {
					return nil
				}
				t.hear(e.Kv)
			}
		}
	}
}

// pause keeps a watch that fails at once from being asked for without end.
func (t *attempt) pause(ctx context.Context) error {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return t.ended(ctx, nil)
	case <-timer.C:
		return nil
	}
}

// hear takes the token of whoever stands before as the sequence's number. It is a
// guess, and the grant's own comparison decides.
func (t *attempt) hear(kv *mvccpb.KeyValue) {
	var p place
	if json.Unmarshal(kv.Value, &p) != nil || p.Token == "" {
		return
	}
	if n, err := sdk.ParseToken(p.Token); err == nil && n > t.at {
		t.at = n
	}
}

// ended is the answer to a wait that is over: this call grants no more, so that
// nothing will be granted by it.
func (t *attempt) ended(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return sdk.Errorf(sdk.NotApplied, "", "ended while it waited for %q: %w", t.a.Resource, cause)
	}
	return err
}

// turn grants, if this place is the first of the queue. nil, nil: it is not, or it
// is gone, which there says.
func (t *attempt) turn(ctx context.Context, created int64) (h *held, there bool, err error) {
	// All that is in the queue came with this place or later. That it is still
	// there the next comparison says: an absent key has create revision 0.
	h, err = t.grantTurn(ctx, created)
	if h != nil || err != nil {
		return h, true, err
	}
	r, err := t.c.client.Get(ctx, t.place)
	if err != nil {
		return nil, true, t.ended(ctx, classify(reading, wrapped(ctx, err)))
	}
	return nil, len(r.Kvs) > 0 && r.Kvs[0].CreateRevision == created, nil
}

func (t *attempt) grantTurn(ctx context.Context, created int64) (*held, error) {
	first := clientv3.Compare(clientv3.CreateRevision(t.queue), ">", created-1).WithPrefix()
	return t.grant(ctx, first, clientv3.Compare(clientv3.CreateRevision(t.place), "=", created))
}

// keeper keeps the lease of a waiter alive.
type keeper struct {
	cancel context.CancelFunc
	done   chan struct{}
	gone   chan struct{} // closed when the lease has ended
	ttl    time.Duration

	mu   sync.Mutex
	sent time.Time // when the extension was sent that was answered last
}

// keep begins to keep a lease alive that was asked for at a time.
func (c *Coordinator) keep(id clientv3.LeaseID, ttl time.Duration, asked time.Time) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{cancel: cancel, done: make(chan struct{}), gone: make(chan struct{}), ttl: ttl, sent: asked}
	go func() {
		defer close(k.done)
		tick := time.NewTicker(max(ttl/4, 10*time.Millisecond))
		defer tick.Stop()
		for {
			sent := time.Now()
			attempt, cancel := context.WithTimeout(ctx, ttl)
			_, err := c.client.KeepAliveOnce(attempt, id)
			cancel()
			switch {
			case err == nil:
				k.mu.Lock()
				k.sent = sent
				k.mu.Unlock()
			case leaseGone(err):
				close(k.gone)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return k
}

func (k *keeper) stop() {
	k.cancel()
	<-k.done
}

func (k *keeper) lost() bool {
	select {
	case <-k.gone:
		return true
	default:
		return false
	}
}

// until is how long the lease lasts at least.
func (k *keeper) until() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sent.Add(k.ttl)
}
