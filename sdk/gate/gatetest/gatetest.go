// Package gatetest mints real grants and status proofs with a throw-away key on
// a model clock, for tests of adapters and of code that writes through a gate.
// What it makes passes through a real gate.Gate; nothing is faked but the
// registry and the time.
package gatetest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

const (
	// Issuer is the issuer of every grant.
	Issuer = "gatetest"
	// Category is the category of every grant.
	Category = "test"
	// Epoch is the issuer's epoch in every grant.
	Epoch = 1
	// Policy is the policy generation of every grant.
	Policy = 1
	// TTL is how long a lease is held without renewal.
	TTL = 10 * time.Second
	// ProofLife is how long a status proof lives.
	ProofLife = 5 * time.Second
)

// Authority is a registry in miniature: it issues tokens that rise per resource
// and signs what it says. It is a gate.Registry too. Safe for concurrent use.
type Authority struct {
	audience string
	signer   *grant.Signer
	bundle   *trust.Bundle

	mu      sync.Mutex
	now     time.Time
	highest map[sdk.ResourceID]sdk.Token
	held    map[sdk.Digest]time.Time // until when
}

// New returns an authority for one audience, with a fresh Ed25519 key that
// signs for every resource. Its clock stands at 2026-01-02 03:04:05 UTC.
func New(audience string) (*Authority, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := grant.NewEd25519Signer("gatetest-1", private)
	if err != nil {
		return nil, err
	}
	bundle, err := trust.Load(fmt.Appendf(nil, `{"generation":"1","audience":%q,"policyGenerations":["%d"],"skewMillis":"1000","maxProofMillis":"60000",
"issuers":[{"issuer":%q,"resources":["**"],"minEpoch":"%d","revokedEpochs":[],
"keys":[{"keyid":"gatetest-1","alg":"ed25519","epoch":"%d","public":%q}]}]}`,
		audience, Policy, Issuer, Epoch, Epoch, base64.StdEncoding.EncodeToString(public)))
	if err != nil {
		return nil, err
	}
	return &Authority{audience: audience, signer: signer, bundle: bundle,
		now:     time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		highest: map[sdk.ResourceID]sdk.Token{}, held: map[sdk.Digest]time.Time{}}, nil
}

// Bundle returns the trust bundle that a gate loads to accept the grants.
func (a *Authority) Bundle() *trust.Bundle { return a.bundle }

// Now is the model clock.
func (a *Authority) Now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// Advance moves the model clock.
func (a *Authority) Advance(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = a.now.Add(d)
}

// Gate returns a gate for the worker owner in front of store, on the model
// clock. opts may be nil; Caller and Now are set if they are not.
func (a *Authority) Gate(store sdk.FencedStore, owner string, opts *gate.Options) (*gate.Gate, error) {
	var o gate.Options
	if opts != nil {
		o = *opts
	}
	if o.Caller == nil {
		o.Caller = gate.FixedCaller(owner)
	}
	if o.Now == nil {
		o.Now = a.Now
	}
	return gate.New(store, a.bundle, &o)
}

// Root is the operation root of a job by name.
func Root(job string) sdk.Digest { return sdk.SumDigest([]byte(job)) }

// Acquire issues the next token of resource to owner for a job.
func (a *Authority) Acquire(resource sdk.ResourceID, owner, job string) (*Lease, error) {
	a.mu.Lock()
	next := a.highest[resource] + 1
	a.mu.Unlock()
	return a.Issue(resource, owner, job, next)
}

// Issue issues this very token, whatever was issued before.
func (a *Authority) Issue(resource sdk.ResourceID, owner, job string, fence sdk.Token) (*Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := grant.Grant{
		Audience: a.audience, Resource: resource, Owner: owner,
		RequestID: "req-" + owner + "-" + fence.String(), Lease: "lease-" + fence.String(), Category: Category,
		Root: Root(job), Fence: fence, Backend: "model", BackendRevision: uint64(fence),
		PolicyGeneration: Policy, Issuer: Issuer, IssuerEpoch: Epoch, TTL: TTL, IssuedAt: a.now.Truncate(time.Second),
	}
	payload, err := g.Encode()
	if err != nil {
		return nil, err
	}
	envelope, err := a.signer.Sign(grant.GrantType, payload)
	if err != nil {
		return nil, err
	}
	a.highest[resource] = max(a.highest[resource], fence)
	l := &Lease{Grant: g, Envelope: envelope, Digest: sdk.SumDigest(payload), a: a}
	a.held[l.Digest] = a.now.Add(TTL)
	return l, nil
}

// Status answers as the registry: HELD until the lease runs out, is released or
// a higher token was issued.
func (a *Authority) Status(_ context.Context, g *grant.Grant, digest sdk.Digest) (gate.Standing, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.held[digest].Sub(a.now)
	if left <= 0 || a.highest[g.Resource] > g.Fence {
		return gate.Standing{State: grant.StateExpired}, nil
	}
	return gate.Standing{State: grant.StateHeld, Remaining: left}, nil
}

// Highest is the highest token issued for r.
func (a *Authority) Highest(_ context.Context, r sdk.ResourceID) (sdk.Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.highest[r], nil
}

// Lease is a signed grant and what goes with it.
type Lease struct {
	Grant    grant.Grant
	Envelope []byte
	Digest   sdk.Digest
	a        *Authority
}

// Renew extends the lease by TTL from now.
func (l *Lease) Renew() {
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	l.a.held[l.Digest] = l.a.now.Add(TTL)
}

// Release ends the lease.
func (l *Lease) Release() {
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	delete(l.a.held, l.Digest)
}

// Proof signs that the lease is HELD from now for ProofLife, whether it is or
// not: what a proof says is the test's affair.
func (l *Lease) Proof() []byte { return l.ProofAt(l.a.Now(), ProofLife) }

// ProofAt signs a proof issued at a time of the test's choice.
func (l *Lease) ProofAt(issued time.Time, life time.Duration) []byte {
	issued = issued.UTC().Truncate(time.Second)
	p := grant.Proof{Grant: l.Digest, Resource: l.Grant.Resource, Fence: l.Grant.Fence, State: grant.StateHeld,
		BackendRevision: l.Grant.BackendRevision, Issuer: Issuer, IssuerEpoch: Epoch,
		IssuedAt: issued, ExpiresAt: issued.Add(life)}
	payload, err := p.Encode()
	if err != nil {
		panic("gatetest: " + err.Error()) // only a lease that Issue did not make
	}
	envelope, err := l.a.signer.Sign(grant.ProofType, payload)
	if err != nil {
		panic("gatetest: " + err.Error())
	}
	return envelope
}

// Request is the write of one segment under the lease, with a fresh proof.
func (l *Lease) Request(segment sdk.Segment, op sdk.OperationID, effects ...sdk.Effect) gate.Request {
	return gate.Request{Grant: l.Envelope, Status: l.Proof(), Audience: l.Grant.Audience, Resource: l.Grant.Resource,
		Root: l.Grant.Root, Category: l.Grant.Category, Segment: segment, Operation: op, Effects: effects}
}

// Claim is the request of a claim under the lease, with a fresh proof.
func (l *Lease) Claim() gate.Request { return l.Request(0, "") }

// Op is a numbered operation ID.
func Op(n int) sdk.OperationID { return sdk.OperationID("op-" + strconv.Itoa(n)) }
