// Package lease is the worker's side of a grant: a session that acquires, renews
// and ends, and that says at every moment whether a new effect may start.
//
// The session's deadline is counted on this process's monotonic clock from before
// the request was sent that extended it last (L3). A silent network, a stopped
// process or a wall clock that was set do not prolong it.
package lease

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// Session is one lease of one worker, from the request to its end. It is safe for
// concurrent use.
type Session struct {
	client registry.Client
	req    registry.Request
	clock  clock.Clock
	log    *slog.Logger

	mu      sync.Mutex
	m       machine
	answer  registry.Answer    // the newest that said HELD
	effects context.Context    // of the present time in HELD and RENEWING
	cancel  context.CancelFunc // ends effects
	abort   context.CancelFunc // ends the request under way
	changed chan struct{}      // wakes the loop
	looping bool

	done chan struct{}
	work sync.WaitGroup
}

// New returns a session that has not asked for anything yet. An empty request ID
// is drawn here, once (L4).
//
//   - INVALID: the request is out of range.
//   - UNSUITABLE: the timeouts of the options do not stay below the lease.
func New(client registry.Client, req registry.Request, opts *Options) (*Session, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if client == nil {
		return nil, sdk.Errorf(sdk.Unsuitable, "client", "missing")
	}
	if req.RequestID == "" {
		req.RequestID = rand.Text()
	}
	if err := req.Key.Validate(); err != nil {
		return nil, err
	}
	if req.TTL < time.Second || req.TTL > grant.MaxTTL || req.TTL%time.Millisecond != 0 {
		return nil, sdk.Errorf(sdk.Invalid, "TTL", "%v is not in whole milliseconds from 1 s to %v", req.TTL, grant.MaxTTL)
	}
	t, err := o.times(req.TTL)
	if err != nil {
		return nil, err
	}
	s := &Session{client: client, req: req, clock: clock.Or(o.Clock), log: o.Logger, changed: make(chan struct{}, 1), done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.m = machine{times: t, state: Requested, moved: s.moved}
	return s, nil
}

// moved is called with the lock held.
func (s *Session) moved(from, to State) {
	s.log.Debug("lease", "resource", string(s.req.Resource), "from", string(from), "to", string(to), "cause", string(s.m.cause))
	if to.Working() && s.cancel == nil {
		s.effects, s.cancel = context.WithCancel(context.Background())
	}
	if !to.Working() && s.cancel != nil {
		s.cancel()
		s.cancel = nil
	}
	if to.Final() {
		if s.abort != nil {
			s.abort()
		}
		close(s.done)
	}
	s.poke()
}

func (s *Session) poke() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Acquire asks for the lease, and once more each time that it is called. After an
// error call it again: it asks with the same request ID, so that a grant whose
// answer was lost is found (L4).
//
//  1. nil: HELD, and renewed from now on.
//  2. NOT_HELD: another holds it and the request does not wait, or this request's
//     lease has ended; State tells which.
//  3. CLOSED: the session is over.
//  4. another error of the registry, or MUTATION_UNKNOWN: the state is REQUESTED
//     where nothing was granted, else OWNERSHIP_UNKNOWN.
func (s *Session) Acquire(ctx context.Context) error {
	s.mu.Lock()
	switch {
	case s.m.state.Final():
		s.mu.Unlock()
		return sdk.Errorf(sdk.Closed, "session", "it is over: %s", s.m.cause)
	case s.m.granted:
		s.mu.Unlock()
		return nil
	case s.m.sending != none:
		s.mu.Unlock()
		return sdk.Errorf(sdk.Invalid, "session", "Acquire is under way already")
	}
	sent := s.clock.Now()
	s.m.begin(sent, acquiring)
	ctx, s.abort = context.WithCancel(ctx)
	abort := s.abort
	s.mu.Unlock()
	defer abort()
	a, err := s.client.Acquire(ctx, s.req)
	if err == nil && s.req.Wait && a.State == grant.StateHeld {
		// The wait may have outlasted the lease's length, and the deadline counts from
		// before a request: ask anew.
		sent, a, err = s.afterWait(ctx, sent, a)
	}
	return s.acquired(sent, a, err)
}

func (s *Session) afterWait(ctx context.Context, asked time.Time, a registry.Answer) (time.Time, registry.Answer, error) {
	now := s.clock.Now()
	if now.Sub(asked) < s.m.timeout {
		return asked, a, nil
	}
	s.mu.Lock()
	s.m.sent = now
	s.mu.Unlock()
	again, err := s.client.Renew(ctx, a.Ref)
	return now, again, err
}

func (s *Session) acquired(sent time.Time, a registry.Answer, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.m.state.Final() {
		if err == nil && a.State == grant.StateHeld {
			s.giveBack(a.Ref)
		}
		return sdk.Errorf(sdk.Closed, "session", "it was over before the answer came: %s", s.m.cause)
	}
	s.take(now, acquiring, sent, a, err)
	switch {
	case s.m.state.Working():
		if !s.looping {
			s.looping = true
			s.work.Add(1)
			go s.loop()
		}
		return nil
	case err == nil:
		return sdk.Errorf(sdk.NotHeld, "lease", "the request %q has ended as %s; a new request takes a new session", s.req.RequestID, a.State)
	case sdk.CodeOf(err) == 0:
		return sdk.Errorf(sdk.MutationUnknown, "registry", "%w", err)
	}
	return err
}

// take feeds an answer to the machine, with the lock held.
func (s *Session) take(now time.Time, k kind, sent time.Time, a registry.Answer, err error) {
	switch code := sdk.CodeOf(err); {
	case err == nil && a.State == grant.StateHeld:
		if !s.m.state.Final() {
			s.answer = a
		}
		s.m.held(now, sent, a.Remaining, proofLife(a))
	case code == sdk.Revoked:
		s.m.end(Expired, CauseRevoked)
	case err == nil, k == renewing && (code == sdk.NotHeld || code == sdk.NotFound):
		s.m.end(Expired, CauseExpired)
	default:
		s.m.failed(now, k, sent, code != sdk.MutationUnknown && code.Refused())
	}
	s.poke()
}

// proofLife is how long the proof of an answer lives; the lease's time where
// there is none.
func proofLife(a registry.Answer) time.Duration {
	e, err := grant.ParseEnvelope(a.Proof)
	if err != nil {
		return a.Remaining
	}
	p, err := grant.ParseProof(e.Payload)
	if err != nil {
		return a.Remaining
	}
	return p.ExpiresAt.Sub(p.IssuedAt)
}

// loop renews until the session is over.
func (s *Session) loop() {
	defer s.work.Done()
	for {
		s.mu.Lock()
		now := s.clock.Now()
		send := s.m.tick(now)
		if s.m.sending == none && s.abort != nil {
			s.abort() // it timed out
		}
		if send == renewing {
			var ctx context.Context
			ctx, s.abort = context.WithCancel(context.Background())
			s.work.Add(1)
			go s.renew(ctx, s.abort, now, s.answer.Ref)
		}
		over, wake := s.m.state.Final(), s.m.wake(now)
		s.mu.Unlock()
		if over {
			return
		}
		timer := s.clock.Timer(wake.Sub(now))
		select {
		case <-s.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (s *Session) renew(ctx context.Context, cancel context.CancelFunc, sent time.Time, ref registry.Ref) {
	defer s.work.Done()
	defer cancel()
	a, err := s.client.Renew(ctx, ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if !s.now().Final() { // an answer after the deadline revives nothing
		s.take(now, renewing, sent, a, err)
	}
}

// now brings the state up to date, with the lock held: a process that stood still
// learns of it here, before its timers do.
func (s *Session) now() State {
	now := s.clock.Now()
	if s.m.granted && !s.m.state.Final() && !now.Before(s.m.deadline) {
		s.m.tick(now)
	}
	return s.m.state
}

// State returns the state as of now.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Beat says that the work is alive. Call it from the work itself, in its inmost
// loop, and not from a timer: who beats by a timer renews for a dead worker.
func (s *Session) Beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.beaten(s.clock.Now())
	s.poke()
}

// Effect returns a context under which one new effect may start (L2). It ends
// when the session leaves HELD and RENEWING, with ctx, or by the cancel function,
// which the caller calls when the effect is done. NOT_HELD: no effect may start
// now.
//
// To send an identical mutation again takes no Effect.
func (s *Session) Effect(ctx context.Context) (context.Context, context.CancelFunc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.now(); !st.Working() {
		return nil, nil, sdk.Errorf(sdk.NotHeld, "session", "it is %s; no new effect starts", st)
	}
	effect, cancel := context.WithCancelCause(ctx)
	held := s.effects
	stop := context.AfterFunc(held, func() {
		cancel(sdk.Errorf(sdk.NotHeld, "session", "the lease is not known to be held any more: %w", context.Canceled))
	})
	return effect, func() { stop(); cancel(context.Canceled) }, nil
}

// Grant returns the signed grant; nil before the first answer.
func (s *Session) Grant() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer.Grant
}

// Token returns the fence token, 0 before the first answer.
func (s *Session) Token() sdk.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer.Token
}

// Status returns the newest status proof; nil before the first answer. Whether it
// still lives is the gate's business.
func (s *Session) Status() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer.Proof
}

// Request returns the write of one segment under this session's grant and newest
// proof.
func (s *Session) Request(segment sdk.Segment, op sdk.OperationID, effects ...sdk.Effect) gate.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return gate.Request{Grant: s.answer.Grant, Status: s.answer.Proof, Audience: s.req.Audience, Resource: s.req.Resource,
		Root: s.req.Root, Category: s.req.Category, Segment: segment, Operation: op, Effects: effects}
}

// Observe tells the session what a gate or store answered to a write: STALE_OWNER
// ends it as superseded, REVOKED as revoked. Other answers, nil too, are nothing
// to it.
func (s *Session) Observe(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch sdk.CodeOf(err) {
	case sdk.StaleOwner:
		s.m.end(Expired, CauseSuperseded)
	case sdk.Revoked:
		s.m.end(Expired, CauseRevoked)
	}
}

// Done is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.done }

// Cause says why the session is over; empty while it is not.
func (s *Session) Cause() Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now()
	return s.m.cause
}

// Release ends the session, and then the lease. Effects have ended before the
// registry is asked. It says nothing about the work (R6).
//
//  1. nil: the lease is over, or there was none.
//  2. an error of the registry: the session is over, and the lease ends by its
//     time.
func (s *Session) Release(ctx context.Context) error {
	s.mu.Lock()
	over := s.now().Final()
	if !over {
		s.m.release()
	}
	ref, granted := s.answer.Ref, s.m.granted
	s.mu.Unlock()
	var err error
	if granted && !over {
		_, err = s.client.Release(ctx, ref)
		if sdk.CodeOf(err) == sdk.NotFound {
			err = nil
		}
	}
	s.work.Wait()
	return err
}

// giveBack releases what was granted after the session was over, with the lock
// held.
func (s *Session) giveBack(ref registry.Ref) {
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		ctx, cancel := context.WithTimeout(context.Background(), s.m.timeout)
		defer cancel()
		if _, err := s.client.Release(ctx, ref); err != nil {
			s.log.Warn("a lease that came too late runs out by itself", "resource", string(ref.Resource), "error", err)
		}
	}()
}
