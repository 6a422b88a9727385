package lease_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	mrand "math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/memcoord"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/lease"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// call is one question to the registry, held until the test answers it.
type call struct {
	name  string
	ctx   context.Context
	again chan func() (registry.Answer, error) // what to answer
	real  func() (registry.Answer, error)      // what the registry says
}

func (c *call) pass() { c.again <- c.real }

// lose has the registry carry it out, and loses the answer.
func (c *call) lose() {
	c.again <- func() (registry.Answer, error) {
		c.real()
		return registry.Answer{}, sdk.Errorf(sdk.MutationUnknown, "", "the answer was lost")
	}
}

func (c *call) fail(code sdk.Code) {
	c.again <- func() (registry.Answer, error) { return registry.Answer{}, sdk.Errorf(code, "", "said the test") }
}

// world is a real registry over the model, behind calls that the test holds.
type world struct {
	*testing.T
	clock    *clock.Manual
	registry *registry.Registry
	calls    chan *call
	free     bool // calls pass at once
}

func newWorld(t *testing.T) *world {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := grant.NewEd25519Signer("k1", private)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := registry.NewFileMarks(filepath.Join(t.TempDir(), "marks"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, clock: clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), calls: make(chan *call)}
	w.registry, err = registry.New(memcoord.New(w.clock), &registry.Options{Issuer: "reg", Epoch: 1, Policy: 1, Backend: "mem", Signer: signer, Marks: marks, Clock: w.clock, ProofLife: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) ask(ctx context.Context, name string, real func() (registry.Answer, error)) (registry.Answer, error) {
	c := &call{name, ctx, make(chan func() (registry.Answer, error), 1), real}
	if w.free {
		return real()
	}
	select {
	case w.calls <- c:
	case <-ctx.Done():
		return registry.Answer{}, sdk.Errorf(sdk.NotApplied, "", "%w", ctx.Err())
	}
	select {
	case f := <-c.again:
		return f()
	case <-ctx.Done():
		return registry.Answer{}, sdk.Errorf(sdk.MutationUnknown, "", "%w", ctx.Err())
	}
}

func (w *world) Acquire(ctx context.Context, req registry.Request) (registry.Answer, error) {
	return w.ask(ctx, "acquire", func() (registry.Answer, error) { return w.registry.Acquire(context.WithoutCancel(ctx), req) })
}

func (w *world) Renew(ctx context.Context, ref registry.Ref) (registry.Answer, error) {
	return w.ask(ctx, "renew", func() (registry.Answer, error) { return w.registry.Renew(context.WithoutCancel(ctx), ref) })
}

func (w *world) Release(ctx context.Context, ref registry.Ref) (registry.Answer, error) {
	return w.ask(ctx, "release", func() (registry.Answer, error) { return w.registry.Release(context.WithoutCancel(ctx), ref) })
}

func (w *world) Check(ctx context.Context, ref registry.Ref) (registry.Answer, error) {
	return w.ask(ctx, "check", func() (registry.Answer, error) { return w.registry.Check(ctx, ref) })
}

func (w *world) next(name string) *call {
	w.Helper()
	c := <-w.calls
	if c.name != name {
		w.Fatalf("a %s and not a %s", c.name, name)
	}
	return c
}

func request(owner string) registry.Request {
	return registry.Request{Key: registry.Key{Resource: "invoice/42", Owner: owner}, Audience: "db", Category: "bill", Root: sdk.SumDigest([]byte("job")), TTL: 10 * time.Second}
}

func (w *world) options() *lease.Options {
	return &lease.Options{Clock: w.clock, Rand: mrand.New(mrand.NewPCG(1, 2)), RenewEvery: 3 * time.Second, RequestTimeout: 2 * time.Second, Margin: time.Second, Retry: 500 * time.Millisecond}
}

func (w *world) session(owner string) *lease.Session {
	w.Helper()
	s, err := lease.New(w, request(owner), w.options())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		w.free = true
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s.Release(ctx)
	})
	return s
}

// held acquires.
func (w *world) held(owner string) *lease.Session {
	w.Helper()
	s := w.session(owner)
	done := w.acquire(s)
	w.next("acquire").pass()
	if err := <-done; err != nil || s.State() != lease.Held {
		w.Fatal(s.State(), err)
	}
	w.clock.Await(1)
	return s
}

func (w *world) acquire(s *lease.Session) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Acquire(w.Context()) }()
	return done
}

// until returns once the session is in a state; the test's deadline bounds it.
func (w *world) until(s *lease.Session, want lease.State) {
	w.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.State() != want {
		select {
		case <-tick.C:
		case <-w.Context().Done():
			w.Fatalf("%s and never %s", s.State(), want)
		}
	}
}

func (w *world) working(s *lease.Session, want bool) {
	w.Helper()
	_, cancel, err := s.Effect(w.Context())
	if (err == nil) != want || err != nil && !errors.Is(err, sdk.ErrNotHeld) {
		w.Errorf("an effect in %s: %v", s.State(), err)
	}
	if err == nil {
		cancel()
	}
}

func (w *world) requestID(s *lease.Session) string {
	w.Helper()
	e, err := grant.ParseEnvelope(s.Grant())
	if err != nil {
		w.Fatal(err)
	}
	g, err := grant.ParseGrant(e.Payload)
	if err != nil {
		w.Fatal(err)
	}
	return g.RequestID
}
