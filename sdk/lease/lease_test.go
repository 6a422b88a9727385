package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/lease"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// The usual life: held, renewed with the same grant and a new proof, released.
func TestRenewed(t *testing.T) {
	w := newWorld(t)
	s := w.held("a")
	first, proof := s.Grant(), s.Status()
	ctx, cancel, err := s.Effect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	for range 5 {
		s.Beat()
		w.clock.Advance(3 * time.Second)
		c := w.next("renew")
		if s.State() != lease.Renewing {
			t.Errorf("%s while it renews", s.State())
		}
		w.working(s, true)
		c.pass()
		w.until(s, lease.Held)
		w.clock.Await(1)
	}
	if string(s.Grant()) != string(first) || string(s.Status()) == string(proof) || s.Token() != 1 {
		t.Errorf("token %s; grant the same %v, proof the same %v", s.Token(), string(s.Grant()) == string(first), string(s.Status()) == string(proof))
	}
	if ctx.Err() != nil {
		t.Error("an effect ended while the lease was held")
	}
	released := make(chan error, 1)
	go func() { released <- s.Release(t.Context()) }()
	w.next("release").pass()
	if err := <-released; err != nil {
		t.Error(err)
	}
	<-s.Done()
	<-ctx.Done()
	if s.State() != lease.Released || s.Cause() != lease.CauseReleased || !errors.Is(context.Cause(ctx), sdk.ErrNotHeld) {
		t.Errorf("%s, %s, %v", s.State(), s.Cause(), context.Cause(ctx))
	}
	w.working(s, false)
	if err := s.Acquire(t.Context()); !errors.Is(err, sdk.ErrClosed) {
		t.Error(err)
	}
}

// C28: the registry is silent, neither answering nor closing. The session ends by
// its own clock.
func TestSilentRegistry(t *testing.T) {
	w := newWorld(t)
	s := w.held("a")
	ctx, cancel, err := s.Effect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	w.clock.Advance(3 * time.Second)
	silent := w.next("renew")
	w.clock.Await(1)
	w.clock.Advance(2 * time.Second)
	<-silent.ctx.Done() // C46: a request lasts for its timeout, and not for the client's
	w.until(s, lease.OwnershipUnknown)
	<-ctx.Done()
	w.working(s, false)
	w.clock.Await(1)
	w.clock.Advance(4 * time.Second) // TTL less margin
	<-s.Done()
	if s.State() != lease.Expired || s.Cause() != lease.CauseUnreachable {
		t.Errorf("%s, %s", s.State(), s.Cause())
	}
}

// L1: OWNERSHIP_UNKNOWN goes back to HELD when an answer comes in time.
func TestBackFromUnknown(t *testing.T) {
	w := newWorld(t)
	s := w.held("a")
	w.clock.Advance(3 * time.Second)
	w.next("renew").fail(sdk.NotApplied)
	w.until(s, lease.OwnershipUnknown)
	w.working(s, false)
	w.clock.Await(1)
	w.clock.Advance(500 * time.Millisecond)
	w.next("renew").pass()
	w.until(s, lease.Held)
	w.working(s, true)
}

// L3, C89: the process stands still for 50 s while a renewal is under way. The
// answer says ten seconds, counted from then; the session knows better, also
// before any of its timers has fired.
func TestPaused(t *testing.T) {
	w := newWorld(t)
	s := w.held("a")
	w.clock.Advance(3 * time.Second)
	c := w.next("renew")
	answer, err := c.real()
	if err != nil || answer.Remaining != 10*time.Second {
		t.Fatal(answer.Remaining, err)
	}
	w.clock.Advance(50 * time.Second)
	w.working(s, false)
	if s.State() != lease.Expired {
		t.Errorf("%s", s.State())
	}
	select {
	case c.again <- func() (registry.Answer, error) { return answer, nil }:
	default:
	}
	<-s.Done()
	w.working(s, false)
}

// C82: the work died without a release while its process lives. Nobody renews for
// it; the lease ends, and the next owner has the next token.
func TestSilentWork(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Heartbeat = 2 * time.Second
	s, err := lease.New(w, request("a"), o)
	if err != nil {
		t.Fatal(err)
	}
	done := w.acquire(s)
	w.next("acquire").pass()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.clock.Await(1)
		w.clock.Advance(3 * time.Second) // a renewal would be due at each
	}
	<-s.Done()
	if s.Cause() != lease.CauseExpired {
		t.Errorf("%s", s.Cause())
	}
	w.clock.Advance(time.Second)
	if b := w.held("b"); b.Token() != 2 {
		t.Errorf("token %s", b.Token())
	}
}

// A heartbeat that comes late, and in time for the lease, has it renewed at once.
func TestLateBeat(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Heartbeat = time.Second
	s, err := lease.New(w, request("a"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { w.free = true; s.Release(context.Background()) }()
	done := w.acquire(s)
	w.next("acquire").pass()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.clock.Await(1)
	w.clock.Advance(6 * time.Second)
	s.Beat()
	w.next("renew").pass()
	w.until(s, lease.Held)
}

// L4, R2: the answer to Acquire is lost. The session does not know, starts
// nothing, asks again with the same request ID, and has the grant that it had.
func TestLostAcquire(t *testing.T) {
	w := newWorld(t)
	s := w.session("a")
	done := w.acquire(s)
	w.next("acquire").lose()
	if err := <-done; !errors.Is(err, sdk.ErrMutationUnknown) {
		t.Error(err)
	}
	if s.State() != lease.OwnershipUnknown || s.Grant() != nil {
		t.Errorf("%s", s.State())
	}
	w.working(s, false)
	w.clock.Advance(time.Second)
	done = w.acquire(s)
	w.next("acquire").fail(sdk.NotHeld) // settles nothing of the first attempt
	<-done
	if s.State() != lease.OwnershipUnknown {
		t.Errorf("%s", s.State())
	}
	w.clock.Advance(time.Second)
	done = w.acquire(s)
	w.next("acquire").pass()
	if err := <-done; err != nil || s.State() != lease.Held || s.Token() != 1 {
		t.Errorf("%s, token %s, %v", s.State(), s.Token(), err)
	}
}

// Refused, the session is where it was; told that its lease has ended, it is over.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	a := w.held("a")
	b := w.session("b")
	done := w.acquire(b)
	w.next("acquire").pass()
	if err := <-done; !errors.Is(err, sdk.ErrNotHeld) || b.State() != lease.Requested {
		t.Errorf("%s, %v", b.State(), err)
	}
	for cause, err := range map[lease.Cause]error{
		lease.CauseSuperseded: sdk.Errorf(sdk.StaleOwner, "", "said the store"),
	} {
		a.Observe(nil)
		a.Observe(sdk.Errorf(sdk.NotHeld, "", "a proof that ran out"))
		w.working(a, true)
		a.Observe(err)
		<-a.Done()
		if a.State() != lease.Expired || a.Cause() != cause {
			t.Errorf("%s, %s", a.State(), a.Cause())
		}
	}
	c := w.session("c")
	done = w.acquire(c)
	w.next("acquire").fail(sdk.Revoked)
	<-done
	if c.State() != lease.Expired || c.Cause() != lease.CauseRevoked {
		t.Errorf("%s, %s", c.State(), c.Cause())
	}
}

// C103: the registry says that the lease is over.
func TestEndedElsewhere(t *testing.T) {
	w := newWorld(t)
	s := w.held("a")
	if _, err := w.registry.Release(t.Context(), registry.Ref{Key: registry.Key{Resource: "invoice/42", Owner: "a", RequestID: w.requestID(s)}, Token: 1}); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(3 * time.Second)
	w.next("renew").pass()
	<-s.Done()
	if s.State() != lease.Expired || s.Cause() != lease.CauseExpired {
		t.Errorf("%s, %s", s.State(), s.Cause())
	}
}

// Released before its answer came, the session is over, whatever was granted; that
// lease runs out by itself.
func TestReleasedWhileAcquiring(t *testing.T) {
	w := newWorld(t)
	s := w.session("a")
	done := w.acquire(s)
	c := w.next("acquire")
	answer, err := c.real()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := <-done; !errors.Is(err, sdk.ErrClosed) || s.State() != lease.Released {
		t.Errorf("%s, %v", s.State(), err)
	}
	w.clock.Advance(10 * time.Second)
	if a, err := w.registry.Check(t.Context(), answer.Ref); err != nil || a.State != grant.StateExpired {
		t.Error(a.State, err)
	}
}

// C46: timeouts that together reach the lease are refused.
func TestConfiguration(t *testing.T) {
	w := newWorld(t)
	req := request("a")
	req.TTL = 15 * time.Second
	for name, o := range map[string]lease.Options{
		"a request longer than the lease": {RenewEvery: 10 * time.Second, RequestTimeout: time.Minute},
		"a sum that equals the lease":     {RenewEvery: 5 * time.Second, RequestTimeout: 4 * time.Second, Margin: time.Second, Retry: time.Second},
		"a renewal after the lease":       {RenewEvery: 20 * time.Second},
		"a margin of all":                 {Margin: 15 * time.Second},
		"an endless timeout":              {RequestTimeout: 1<<63 - 1},
		"a negative one":                  {Retry: -1},
	} {
		if _, err := lease.New(w, req, &o); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%s: %v, want UNSUITABLE", name, err)
		}
	}
	for _, ttl := range []time.Duration{time.Second, 1001 * time.Millisecond, 15 * time.Second, 24 * time.Hour} {
		req.TTL = ttl
		if _, err := lease.New(w, req, nil); err != nil {
			t.Errorf("the defaults for %v: %v", ttl, err)
		}
	}
	req.TTL = 0
	if _, err := lease.New(w, req, nil); !errors.Is(err, sdk.ErrInvalid) {
		t.Error(err)
	}
	if _, err := lease.New(nil, req, nil); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Error(err)
	}
}
