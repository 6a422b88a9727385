package etcdcoord

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance/coordination"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestConformance(t *testing.T) {
	s := start(t)
	raw := s.client(t)
	looker := s.open(t)
	coordination.Run(t, coordination.Harness{Name: "etcd", TTL: time.Minute,
		Open: func(ctx context.Context) (coordination.Handle, error) {
			c, err := Open(ctx, s.dsn(), nil)
			if err != nil {
				return coordination.Handle{}, err
			}
			return coordination.Handle{Coordinator: c, Close: c.Close}, nil
		},
		// What etcd does by itself when the time is over; that it does TestExpiry says.
		Expire: func(ctx context.Context, r registry.Record) error {
			id, err := strconv.ParseInt(r.Lease, 16, 64)
			if err == nil {
				_, err = raw.Revoke(ctx, clientv3.LeaseID(id))
			}
			return err
		},
		Queued: func(ctx context.Context, r sdk.ResourceID) (int, error) {
			got, err := raw.Get(ctx, looker.resource(r).queue, clientv3.WithPrefix())
			if err != nil {
				return 0, err
			}
			n := 0
			for _, kv := range got.Kvs {
				if !hasToken(kv.Value) {
					n++
				}
			}
			return n, nil
		},
		Restart: s.restart, Snapshot: s.snapshot, Rewind: s.rewind,
	})
}

func hasToken(value []byte) bool {
	t := &attempt{}
	t.hear(keyValue(value))
	return t.at > 0
}

// C103: the process of the holder is killed without a release. The one who waits
// is served when its lease, of one second, is over.
func TestExpiry(t *testing.T) {
	s := start(t)
	c := s.open(t)
	cmd, line, err := child(holderDSN + "=" + s.dsn())
	if err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	a := ask("heir", "1")
	a.Wait = true
	heir, err := c.Acquire(t.Context(), a)
	if err != nil || line != "1\n" || heir.Token != 2 {
		t.Fatalf("token %s after %q: %v", heir.Token, line, err)
	}
	old, err := c.ByRequest(t.Context(), key("killed", "1"))
	if err != nil || old.State != grant.StateExpired {
		t.Errorf("%s, %v", old.State, err)
	}
}

// C29: the cluster is restored from a snapshot with its revision raised above all
// that was seen, as etcdutl does with --bump-revision. The tokens tell.
func TestRestoredWithBump(t *testing.T) {
	s := start(t)
	c := s.open(t)
	for n := range 2 {
		if n == 1 {
			if err := s.snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r, err := c.Acquire(t.Context(), ask("a", fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Release(t.Context(), r.Ref); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.rewind(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw := s.client(t)
	for range 50 {
		if _, err := raw.Put(t.Context(), "elsewhere", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Acquire(t.Context(), ask("b", "1")); !errors.Is(err, sdk.ErrFenceRegression) {
		t.Errorf("%v, want FENCE_REGRESSION", err)
	}
	if _, err := c.Raise(t.Context(), "invoice/42", 10); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Acquire(t.Context(), ask("b", "1")); err != nil || r.Token != 11 {
		t.Error(r.Token, err)
	}
}

// C29: the revision goes back. Tokens of a resource that this handle never saw
// may be lost too, and none is drawn before its floor is raised.
func TestRestoredUnseenResource(t *testing.T) {
	s := start(t)
	c, other := s.open(t), s.open(t)
	if err := s.snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Acquire(t.Context(), ask("a", "1")); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		if _, err := c.Raise(t.Context(), "another", sdk.Token(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.rewind(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Acquire(t.Context(), ask("b", "1")); !errors.Is(err, sdk.ErrFenceRegression) {
			t.Errorf("%v, want FENCE_REGRESSION", err)
		}
	}
	if _, err := c.Raise(t.Context(), "invoice/42", 1); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Acquire(t.Context(), ask("b", "1")); err != nil || r.Token != 2 {
		t.Error(r.Token, err)
	}
}

// lossy loses answers of transactions that write.
type lossy struct {
	lose   atomic.Bool // the next answer, after the server applied it
	refuse atomic.Bool // the next request, before it was sent
	writes atomic.Int64
	calls  atomic.Int64
}

func (l *lossy) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		l.calls.Add(1)
		txn, ok := req.(*etcdserverpb.TxnRequest)
		if !ok || len(txn.Success) < 3 || txn.Success[0].GetRequestPut() == nil {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		l.writes.Add(1)
		lost := status.Error(codes.Unavailable, "transport is closing")
		if l.refuse.CompareAndSwap(true, false) {
			return lost
		}
		err := invoke(ctx, method, req, reply, cc, opts...)
		if l.lose.CompareAndSwap(true, false) {
			return lost
		}
		return err
	})
}

// C32: the transaction was applied and its answer lost. The coordinator finds its
// own grant and sends nothing again; where it was never applied the answer is
// MUTATION_UNKNOWN, and asking again is one grant.
func TestLostAnswer(t *testing.T) {
	s := start(t)
	l := &lossy{}
	c, err := New(s.client(t, l.option()), "coord", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.lose.Store(true)
	r, err := c.Acquire(t.Context(), ask("a", "1"))
	if err != nil || r.Token != 1 || r.State != grant.StateHeld || r.Until.IsZero() {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := l.writes.Load(); n != 1 {
		t.Errorf("sent %d times", n)
	}
	if _, err := c.Release(t.Context(), r.Ref); err != nil {
		t.Fatal(err)
	}
	l.refuse.Store(true)
	if _, err := c.Acquire(t.Context(), ask("a", "2")); !errors.Is(err, sdk.ErrMutationUnknown) {
		t.Errorf("%v, want MUTATION_UNKNOWN", err)
	}
	for range 2 {
		if r, err := c.Acquire(t.Context(), ask("a", "2")); err != nil || r.Token != 2 {
			t.Errorf("token %s, %v", r.Token, err)
		}
	}
}

// The end of a lease costs a few calls, however many wait: no herd.
func TestNoHerd(t *testing.T) {
	s := start(t)
	l := &lossy{}
	c, err := New(s.client(t, l.option()), "coord", nil)
	if err != nil {
		t.Fatal(err)
	}
	raw := s.client(t)
	holder, err := c.Acquire(t.Context(), ask("holder", "1"))
	if err != nil {
		t.Fatal(err)
	}
	const waiters = 32
	served := make(chan registry.Record, waiters)
	for n := range waiters {
		go func() {
			a := ask("w"+strconv.Itoa(n), "1")
			a.TTL, a.Wait = time.Hour, true // no extension in between is counted
			if r, err := c.Acquire(t.Context(), a); err == nil {
				served <- r
			}
		}()
	}
	await(t, func() bool {
		got, err := raw.Get(t.Context(), c.resource("invoice/42").queue, clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && got.Count == waiters+1
	})
	// Each waiter has read who stands before it; the count stands still.
	last := int64(-1)
	await(t, func() bool { now := l.calls.Load(); same := now == last; last = now; return same })
	for n := range 5 {
		before := l.calls.Load()
		if _, err := c.Release(t.Context(), holder.Ref); err != nil {
			t.Fatal(err)
		}
		holder = <-served
		if spent := l.calls.Load() - before; spent > 8 {
			t.Errorf("hand-off %d took %d calls", n, spent)
		}
		if holder.Token != sdk.Token(n+2) {
			t.Errorf("token %s at hand-off %d", holder.Token, n)
		}
	}
}

// await returns when a condition holds; the test's deadline bounds it.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("it never came")
		}
	}
}

// The record outlives the lease by a day, on a lease of its own.
func TestRetention(t *testing.T) {
	s := start(t)
	c := s.open(t)
	r, err := c.Acquire(t.Context(), ask("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.read(t.Context(), r.Key)
	if err != nil {
		t.Fatal(err)
	}
	left, err := s.client(t).TimeToLive(t.Context(), h.retention)
	if err != nil || time.Duration(left.GrantedTTL)*time.Second < registry.Retention+r.TTL {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err := c.Release(t.Context(), r.Ref); err != nil {
		t.Fatal(err)
	}
	again, err := c.read(t.Context(), r.Key)
	if err != nil || again.retention != h.retention {
		t.Errorf("the released record is on lease %x and not %x, %v", again.retention, h.retention, err)
	}
}

// What somebody else wrote under the prefix is refused, and counts as no token.
func TestDamaged(t *testing.T) {
	s := start(t)
	c := s.open(t)
	raw := s.client(t)
	for n, value := range []string{"", "0", "-1", "1e3", "1.0", "9223372036854775808", "x"} {
		a := ask("a", "1")
		a.Resource = sdk.ResourceID("r" + strconv.Itoa(n))
		if _, err := raw.Put(t.Context(), c.names(a.Key).counter, value); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Acquire(t.Context(), a); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("a sequence of %q: %v, want UNSUITABLE", value, err)
		}
	}
	for n, value := range []string{"", "{}", `{"resource":"x"}`, "[]"} {
		a := ask("b", strconv.Itoa(n))
		if _, err := raw.Put(t.Context(), c.names(a.Key).record, value); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Acquire(t.Context(), a); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("a record of %q: %v, want UNSUITABLE", value, err)
		}
	}
}

func TestClassify(t *testing.T) {
	for _, r := range refusals {
		if err := classify(writing, r.err); sdk.CodeOf(err) != r.code {
			t.Errorf("%v: %v", r.err, err)
		}
	}
	for _, err := range []error{rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrLeaderChanged, rpctypes.ErrStopped,
		context.DeadlineExceeded, context.Canceled, errors.New("EOF")} {
		if got := classify(writing, err); sdk.CodeOf(got) != sdk.MutationUnknown {
			t.Errorf("%v: %v", err, got)
		}
		if got := classify(reading, err); sdk.CodeOf(got) != sdk.NotApplied {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestBadDSN(t *testing.T) {
	for _, d := range []string{"", "etcd:", "etcd://", "etcd://h", "etcd://h/p", "etcd://h:1", "etcd://h:1/", "etcd://user:pw@h:1/p", "etcd://h:1/a//b", "etcd://h:1/p?x=1",
		"etcd://h:1/p?tls=yes", "etcd://:1/p", "etcd://h:1,/p", "etcdkv://h:1/p", "etcd://h:1/a%2Fb"} {
		if _, err := Open(t.Context(), d, nil); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, "etcd://127.0.0.1:1/p", nil); !errors.Is(err, sdk.ErrNotApplied) {
		t.Errorf("%v", err)
	}
}
