package registry

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// MaxProof is the longest life of a status proof.
const MaxProof = 60 * time.Second

// Options configure a registry. Issuer, Epoch, Policy, Backend, Signer and one of
// Marks and Stores are required.
type Options struct {
	Issuer string
	Epoch  uint64 // the issuer's, for which Signer's key is listed; 1 or above
	Policy uint64 // the policy generation of new grants; 1 or above
	// Backend names the coordinator and which one of its kind: it is in every
	// grant, and another name is another sequence of tokens (P3).
	Backend string
	Signer  *grant.Signer

	// Marks, and Stores: the floors (R5). With marks a coordinator that went back
	// is noticed for every token that was issued; with stores alone, for every
	// token that was used.
	Marks Marks
	// Stores are all stores that keep a fence for a resource. With Marks they may
	// be left out.
	Stores []sdk.FencedStore

	// ProofLife bounds a status proof; 15 s by default, up to MaxProof. The gates'
	// skew must be below it.
	ProofLife time.Duration
	// Allow may refuse a request by a rule of the team's own: who may ask for
	// which resource, audience and category. Its error is answered as INVALID.
	Allow func(context.Context, Request) error

	Clock  clock.Clock  // nil is the system's
	Logger *slog.Logger // nil discards
}

// Registry is the canonical registry: it signs what a coordinator decided, and
// keeps what no coordinator can keep alone. Safe for concurrent use.
type Registry struct {
	coordinator Coordinator
	opts        Options

	mu    sync.Mutex
	ready map[sdk.ResourceID]bool // its floor was settled since the start
}

var _ gate.Registry = (*Registry)(nil)
var _ Client = (*Registry)(nil)

// Client is what a worker's session asks of a registry, in its process or over
// the wire.
type Client interface {
	Acquire(ctx context.Context, req Request) (Answer, error)
	Renew(ctx context.Context, ref Ref) (Answer, error)
	Release(ctx context.Context, ref Ref) (Answer, error)
	Check(ctx context.Context, ref Ref) (Answer, error)
}

// New returns the registry over a coordinator, which stays its owner's to close.
//
// UNSUITABLE: an option is missing or out of range; among them a registry with
// neither marks nor stores, which could issue a token twice (R5).
func New(c Coordinator, opts *Options) (*Registry, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	bad := func(field, format string, args ...any) (*Registry, error) {
		return nil, sdk.Errorf(sdk.Unsuitable, "Options."+field, format, args...)
	}
	if o.ProofLife == 0 {
		o.ProofLife = 15 * time.Second
	}
	switch {
	case c == nil:
		return nil, sdk.Errorf(sdk.Unsuitable, "coordinator", "missing")
	case o.Signer == nil:
		return bad("Signer", "missing; its key lives in the registry alone")
	case o.Epoch == 0 || o.Policy == 0:
		return bad("Epoch", "epoch %d and policy generation %d; both begin at 1", o.Epoch, o.Policy)
	case o.Marks == nil && len(o.Stores) == 0:
		return bad("Marks", "missing, and no stores; without either a restored coordinator would issue tokens again (R5)")
	case slices.Contains(o.Stores, nil):
		return bad("Stores", "one is nil")
	case o.ProofLife < time.Second || o.ProofLife > MaxProof:
		return bad("ProofLife", "%v is outside 1 s to %v", o.ProofLife, MaxProof)
	}
	for field, name := range map[string]string{"Issuer": o.Issuer, "Backend": o.Backend} {
		if err := sdk.ValidateName(field, name); err != nil {
			return bad(field, "%w", err)
		}
	}
	o.Clock = clock.Or(o.Clock)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Registry{coordinator: c, opts: o, ready: map[sdk.ResourceID]bool{}}, nil
}

// Request asks for a grant.
type Request struct {
	Key
	Audience string     // the one store that it is for
	Category string     // the kind of work
	Root     sdk.Digest // the job
	TTL      time.Duration
	// Wait queues behind the holder until the context is done.
	Wait bool
}

// Answer is what the registry says of a grant.
type Answer struct {
	Ref
	Grant   []byte       // the signed lockGrant.v1; the same content every time (R3)
	Digest  sdk.Digest   // of its payload
	Content *grant.Grant // what it says
	State   grant.State  // HELD, RELEASED, EXPIRED
	// Proof is a fresh statusProof.v1; nil unless HELD for a second or more.
	Proof []byte
	// Remaining is how long the lease is held at least, counted from the moment of
	// this answer; a worker counts it from before it asked (L3).
	Remaining time.Duration
}

// Acquire takes a resource and returns the signed grant.
//
//  1. answer, nil, State HELD: granted, now or by an earlier request with the
//     same key.
//  2. answer, nil, State EXPIRED or RELEASED: granted earlier, and over (R2).
//  3. INVALID: out of range, refused by Options.Allow, or the key was granted
//     with other parameters.
//  4. NOT_HELD: held by another, and Wait is false.
//  5. FENCE_REGRESSION: the coordinator went back, or the sequence is below what
//     was issued or stored. Issuing for this resource pauses until Raise.
//  6. REVOKED: the key was granted under an epoch that is over. A new request
//     takes a new ID.
//  7. UNSUITABLE: the sequence is exhausted, or a new backend was put under an
//     old epoch (P3).
//  8. NOT_APPLIED, MUTATION_UNKNOWN: ask again with the same key (L4).
func (r *Registry) Acquire(ctx context.Context, req Request) (Answer, error) {
	a, err := r.acquisition(ctx, &req)
	if err != nil {
		return Answer{}, err
	}
	if a.Floor, err = r.settle(ctx, req.Resource); err != nil {
		return Answer{}, err
	}
	rec, err := r.coordinator.Acquire(ctx, a)
	if err != nil {
		if sdk.CodeOf(err) == sdk.FenceRegression {
			r.pause(req.Resource, err)
		}
		return Answer{}, err
	}
	if err := r.mark(ctx, &rec); err != nil {
		return Answer{}, err
	}
	return r.answer(&rec)
}

// mark makes the token durable outside the coordinator before anybody sees it.
func (r *Registry) mark(ctx context.Context, rec *Record) error {
	if r.opts.Marks == nil || rec.State != grant.StateHeld {
		return nil
	}
	err := r.opts.Marks.Raise(ctx, rec.Resource, Mark{rec.Token, r.opts.Backend, r.opts.Epoch})
	if err != nil {
		return sdk.Errorf(sdk.MutationUnknown, "marks", "granted, and the high-water mark could not be kept; ask again with the same request ID: %w", err)
	}
	return nil
}

func (r *Registry) acquisition(ctx context.Context, req *Request) (Acquisition, error) {
	a := Acquisition{Key: req.Key, TTL: req.TTL, Wait: req.Wait}
	if req.TTL < time.Second {
		return a, sdk.Errorf(sdk.Invalid, "TTL", "%v; a status proof takes a second or more", req.TTL)
	}
	if err := sdk.ValidateName("audience", req.Audience); err != nil {
		return a, err
	}
	if err := sdk.ValidateName("category", req.Category); err != nil {
		return a, err
	}
	if req.Root.IsZero() {
		return a, sdk.Errorf(sdk.Invalid, "operation root", "missing; hash something that names the job")
	}
	if r.opts.Allow != nil {
		if err := r.opts.Allow(ctx, *req); err != nil {
			return a, sdk.Errorf(sdk.Invalid, "request", "refused by this registry's own rule: %w", err)
		}
	}
	var err error
	a.Params, a.Note, err = r.encode(req)
	if err == nil {
		err = a.Validate()
	}
	return a, err
}

// Renew extends the lease; the grant stays as it is (R3). NOT_HELD comes with the
// answer that tells how the lease ended; other errors as of Coordinator.Renew,
// and REVOKED as of Acquire.
func (r *Registry) Renew(ctx context.Context, ref Ref) (Answer, error) {
	return r.ask(ctx, ref, r.coordinator.Renew)
}

// Release ends the lease and says nothing about the work (R6).
func (r *Registry) Release(ctx context.Context, ref Ref) (Answer, error) {
	return r.ask(ctx, ref, r.coordinator.Release)
}

// Check reads the state of a grant and signs a fresh proof if it is held.
func (r *Registry) Check(ctx context.Context, ref Ref) (Answer, error) {
	return r.ask(ctx, ref, r.coordinator.Status)
}

func (r *Registry) ask(ctx context.Context, ref Ref, call func(context.Context, Ref) (Record, error)) (Answer, error) {
	rec, err := call(ctx, ref)
	if rec.Token == 0 {
		return Answer{}, err
	}
	a, aerr := r.answer(&rec)
	if err == nil {
		err = aerr
	}
	return a, err
}

// Status implements gate.Registry: whether the grant with this digest is held. A
// digest that is not this registry's own of that grant is UNKNOWN.
func (r *Registry) Status(ctx context.Context, g *grant.Grant, digest sdk.Digest) (gate.Standing, error) {
	a, err := r.Check(ctx, Ref{Key{g.Resource, g.Owner, g.RequestID}, g.Fence})
	switch c := sdk.CodeOf(err); {
	case c == sdk.NotFound || c == sdk.Revoked:
		return gate.Standing{State: grant.StateUnknown}, nil
	case err != nil:
		return gate.Standing{}, err
	case a.Digest != digest:
		return gate.Standing{State: grant.StateUnknown}, nil
	}
	return gate.Standing{State: a.State, Remaining: a.Remaining}, nil
}

// Highest implements gate.Registry: the highest token ever drawn for a resource,
// linearizable. Where it is below what was stored, the gate raises its alarm.
func (r *Registry) Highest(ctx context.Context, res sdk.ResourceID) (sdk.Token, error) {
	return r.coordinator.Highest(ctx, res)
}
