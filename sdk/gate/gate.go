package gate

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

// Request is one write, as the worker asks for it. The gate does not change
// what it points to, and the caller must not either until the call has
// returned.
type Request struct {
	// Grant is the signed lockGrant.v1 envelope, as the registry gave it.
	Grant []byte
	// Status is the newest signed statusProof.v1 envelope; nil where the gate
	// asks the registry instead.
	Status []byte

	Audience string         // the store's configured name
	Resource sdk.ResourceID // what is written
	Root     sdk.Digest     // the job, the same for all segments
	Category string         // the kind of work that the grant is for

	Segment   sdk.Segment     // 1, 2, 3, … under this grant; a claim takes 1
	Operation sdk.OperationID // stable across owners; "fencedstore." is reserved
	Effects   []sdk.Effect
	Result    []byte // kept in the receipt for a later owner, up to 64 KiB

	// Input is what an ApplyTx function works on; the payload digest is over it.
	// Only for ApplyTx, where Effects and Result stay empty.
	Input []byte
}

// Liveness says what shows the gate that a lease is held (A5).
type Liveness uint8

const (
	// ByProof takes a status proof, and nothing else.
	ByProof Liveness = iota
	// ByQuery asks the registry on every call, and takes no proof.
	ByQuery
	// ByEither takes a proof, and asks the registry when there is none or it
	// does not hold.
	ByEither
)

// Standing is the registry's answer about one grant.
type Standing struct {
	State grant.State
	// Remaining is how long, from the moment the question was sent, the lease
	// is held at least. Apply's context ends with it.
	Remaining time.Duration
}

// Registry is what a gate asks of the registry that issues fence tokens. Both
// answers must be linearizable.
type Registry interface {
	// Status says whether the grant with this digest is held.
	Status(ctx context.Context, g *grant.Grant, digest sdk.Digest) (Standing, error)
	// Highest is the highest token ever issued for r, 0 if none.
	Highest(ctx context.Context, r sdk.ResourceID) (sdk.Token, error)
}

// Options configure a gate. Caller is required.
type Options struct {
	// Caller tells who is calling (A4).
	Caller Caller

	// Liveness, ByProof by default. ByQuery and ByEither need Registry.
	Liveness Liveness
	// Registry, where given, also lets the gate see FENCE_REGRESSION by the
	// highest issued token; without it that check is absent and New says so in
	// the log.
	Registry Registry

	// Policy says which resources are still in shadow mode; nil enforces all.
	Policy *PolicyHolder
	// Shadow is the same store opened in its shadow namespace (see
	// sdk.ShadowNamespace). Required with a Policy. The fence of a resource that
	// goes to enforce is seeded from it.
	Shadow sdk.FencedStore

	// Accept may refuse resources by a rule of the team's own, such as a tenant
	// prefix; its error is answered as INVALID. nil accepts all.
	Accept func(sdk.ResourceID) error

	// LookupTimeout bounds the receipt look-up after an unknown outcome where
	// the caller's context does not; 10 s by default.
	LookupTimeout time.Duration
	// ShadowTimeout bounds what shadow mode adds to a legacy write; 1 s by
	// default.
	ShadowTimeout time.Duration
	// CacheEntries bounds the verified envelopes (and resources) remembered;
	// 4096 by default. An entry is as long as its envelope, about 1 KiB.
	CacheEntries int

	Observer Observer         // nil observes nothing
	Logger   *slog.Logger     // nil discards
	Now      func() time.Time // nil is time.Now
}

// Gate authenticates, admits, applies and resolves. It is safe for concurrent
// use. Closing the store is its owner's business.
type Gate struct {
	store    sdk.FencedStore
	trust    trust.Source
	opts     Options
	key      seal.Key
	verified verifyCache
	memory   *memory
	unknowns unknowns
	clock    clockGuard
}

// New returns the gate in front of store.
//
// UNSUITABLE: Options lack a Caller, a Registry that Liveness needs, or the
// Shadow store that Policy needs.
func New(store sdk.FencedStore, source trust.Source, opts *Options) (*Gate, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case store == nil:
		return nil, sdk.Errorf(sdk.Unsuitable, "store", "missing")
	case source == nil || source.Bundle() == nil:
		return nil, sdk.Errorf(sdk.Unsuitable, "trust", "missing; load a bundle with trust.Load")
	case o.Caller == nil:
		return nil, sdk.Errorf(sdk.Unsuitable, "Options.Caller", "missing; use gate.FixedCaller, gate.ContextCaller or gate.SPIFFECaller")
	case o.Liveness > ByEither:
		return nil, sdk.Errorf(sdk.Unsuitable, "Options.Liveness", "%d is not ByProof, ByQuery or ByEither", o.Liveness)
	case o.Liveness != ByProof && o.Registry == nil:
		return nil, sdk.Errorf(sdk.Unsuitable, "Options.Registry", "missing; ByQuery and ByEither ask it")
	case o.Policy != nil && o.Shadow == nil:
		return nil, sdk.Errorf(sdk.Unsuitable, "Options.Shadow", "missing; open the store in sdk.ShadowNamespace, where a Policy keeps what it has seen")
	}
	if o.LookupTimeout <= 0 {
		o.LookupTimeout = 10 * time.Second
	}
	if o.ShadowTimeout <= 0 {
		o.ShadowTimeout = time.Second
	}
	if o.CacheEntries <= 0 {
		o.CacheEntries = 4096
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Logger.Info("gate without a registry: FENCE_REGRESSION is not looked for by the highest issued token",
			"store", store.Describe().Name)
	}
	g := &Gate{store: store, trust: source, opts: o, key: seal.Cut()}
	g.verified.limit = o.CacheEntries
	g.memory = newMemory(o.CacheEntries)
	return g, nil
}

// ApplyFencedMutation authenticates the request, has the store decide and
// commit it in one atomic step, and settles a lost acknowledgement.
//
//  1. ACCEPTED or REPLAYED, nil: it is in the store; Outcome.Receipt is its
//     receipt.
//  2. UNAUTHENTICATED, MALFORMED, RESOURCE_MISMATCH, OWNER_MISMATCH, NOT_HELD,
//     REVOKED, POLICY_STALE (from grant or bundle), INVALID, TOO_LARGE: refused
//     without a store call (A7).
//  3. STALE_OWNER, SEGMENT_SKIPPED, ROOT_MISMATCH, QUARANTINED, ALREADY_APPLIED,
//     FENCE_REGRESSION, POLICY_STALE: refused; nothing was applied.
//  4. NOT_APPLIED: proved; the call may be made again as it is.
//  5. MUTATION_UNKNOWN: it may or may not be, or may yet become, applied. Give
//     it to package sdk/reconcile, or send the very same request again.
//
// The store call ends with the proof of liveness; the receipt look-up after an
// unknown outcome with the caller's context.
func (g *Gate) ApplyFencedMutation(ctx context.Context, req Request) (sdk.Outcome, error) {
	ctx, end := g.begin(ctx, CallApply, &req)
	out, err := g.apply(ctx, &req)
	end(out, err)
	return out, err
}

func (g *Gate) apply(ctx context.Context, req *Request) (sdk.Outcome, error) {
	if len(req.Input) > 0 {
		return refuse(sdk.Errorf(sdk.Invalid, "input", "only ApplyTx takes one"))
	}
	adm, err := g.admit(ctx, req, nil)
	if err != nil {
		return refuse(err)
	}
	return g.commit(ctx, adm)
}

func refuse(err error) (sdk.Outcome, error) { return sdk.Refusal(err), err }

// begin tells the observer of a call and returns what ends it.
func (g *Gate) begin(ctx context.Context, call Call, req *Request) (context.Context, func(sdk.Outcome, error)) {
	if g.opts.Observer == nil {
		return ctx, func(sdk.Outcome, error) {}
	}
	start := g.opts.Now()
	ctx, end := g.opts.Observer.Begin(ctx, Start{Call: call, Resource: req.Resource, Operation: req.Operation, Segment: req.Segment})
	return ctx, func(out sdk.Outcome, err error) {
		end(newEnd(out, err, g.opts.Now().Sub(start), g))
	}
}

// Unknowns returns how many outcomes of this gate are MUTATION_UNKNOWN and not
// settled since by a later answer for the same operation, and the age of the
// oldest.
func (g *Gate) Unknowns() (open int, oldest time.Duration) {
	return g.unknowns.open(g.opts.Now())
}

// unknowns remembers the open unknown outcomes, for metrics only.
type unknowns struct {
	count atomic.Int64 // of since, so that the usual call takes no lock
	mu    sync.Mutex
	since map[unknownKey]time.Time
}

type unknownKey struct {
	resource  sdk.ResourceID
	operation sdk.OperationID
}

// maxUnknowns bounds the memory that an outage takes.
const maxUnknowns = 1 << 16

func (u *unknowns) note(m *sdk.Mutation, code sdk.Code, now func() time.Time) {
	if code != sdk.MutationUnknown && u.count.Load() == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := unknownKey{m.Resource, m.Operation}
	_, open := u.since[key]
	switch {
	case code == sdk.MutationUnknown && !open && len(u.since) < maxUnknowns:
		if u.since == nil {
			u.since = map[unknownKey]time.Time{}
		}
		u.since[key] = now()
	case open && settles(code):
		delete(u.since, key)
	}
	u.count.Store(int64(len(u.since)))
}

// settles reports whether an answer tells that no earlier attempt of the
// operation is undecided any more. NOT_APPLIED speaks of its own attempt only.
func settles(code sdk.Code) bool {
	return code.Ok() || code == sdk.AlreadyApplied || code == sdk.StaleOwner
}

func (u *unknowns) open(now time.Time) (n int, oldest time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, since := range u.since {
		oldest = max(oldest, now.Sub(since))
	}
	return len(u.since), oldest
}
