package gate

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

// admission is a mutation that passed A1–A6, and until when it may be sent.
type admission struct {
	sealed   sdk.Admission
	mutation *sdk.Mutation
	until    time.Time // by this process's monotonic clock; the store call ends with it
	memory   *resource
}

// authenticated is a grant that passed A1–A6 for a request.
type authenticated struct {
	grant  *grant.Grant
	digest sdk.Digest
	bundle *trust.Bundle
	until  time.Time // the lease is known to be held, by time.Now's clock
	status []byte    // the proof's envelope; nil where the registry was asked
}

// authenticate keeps A1 to A6. It calls no store.
func (g *Gate) authenticate(ctx context.Context, req *Request) (auth authenticated, err error) {
	auth.bundle = g.trust.Bundle()
	auth.grant, auth.digest, err = g.verified.grant(auth.bundle, req.Grant)
	if err != nil {
		return auth, err
	}
	if err := auth.bundle.CheckCurrent(auth.grant); err != nil {
		return auth, err
	}
	if err := bind(auth.bundle, auth.grant, req); err != nil {
		return auth, err
	}
	caller, err := g.opts.Caller.Identity(ctx)
	if err != nil {
		return auth, sdk.Errorf(sdk.OwnerMismatch, "caller", "the caller's identity cannot be told: %w", err)
	}
	if caller == "" || caller != auth.grant.Owner {
		return auth, sdk.Errorf(sdk.OwnerMismatch, "caller", "%q called with the grant of %q; a worker uses its own grant", caller, auth.grant.Owner)
	}
	// Counted from before the question, so that a pause in between adds nothing.
	asked := time.Now()
	lasts, status, err := g.live(ctx, &auth, req.Status)
	if err != nil {
		return auth, err
	}
	auth.until, auth.status = asked.Add(lasts), status
	if g.opts.Accept != nil {
		if err := g.opts.Accept(auth.grant.Resource); err != nil {
			return auth, sdk.Errorf(sdk.Invalid, "resource", "%q is refused by this gate's own rule: %w", auth.grant.Resource, err)
		}
	}
	return auth, nil
}

// bind keeps A3: the request is about what the grant is for.
func bind(b *trust.Bundle, gr *grant.Grant, req *Request) error {
	switch {
	case gr.Audience != b.Audience():
		return sdk.Errorf(sdk.ResourceMismatch, "audience", "the grant is for %q and this gate is %q", gr.Audience, b.Audience())
	case req.Audience != gr.Audience:
		return sdk.Errorf(sdk.ResourceMismatch, "audience", "the request is for %q and the grant for %q", req.Audience, gr.Audience)
	case req.Resource != gr.Resource:
		return sdk.Errorf(sdk.ResourceMismatch, "resource", "the request is for %q and the grant for %q", req.Resource, gr.Resource)
	case req.Root != gr.Root:
		return sdk.Errorf(sdk.ResourceMismatch, "operation root", "the request is for job %v and the grant for %v", req.Root, gr.Root)
	case req.Category != gr.Category:
		return sdk.Errorf(sdk.ResourceMismatch, "category", "the request is for %q and the grant for %q", req.Category, gr.Category)
	}
	return nil
}

// live keeps A5: it returns how long from its start the lease is known to be
// held, and the proof by which it is known, if by one.
func (g *Gate) live(ctx context.Context, auth *authenticated, status []byte) (lasts time.Duration, by []byte, err error) {
	if g.opts.Liveness != ByQuery {
		lasts, err = g.byProof(auth.bundle, auth.grant, auth.digest, status)
		if err == nil || g.opts.Liveness == ByProof || sdk.CodeOf(err) != sdk.NotHeld {
			return lasts, status, err
		}
	}
	lasts, err = g.query(ctx, auth.grant, auth.digest)
	lasts = min(lasts, auth.bundle.MaxProof()) // what a revocation waits for (P3)
	return lasts, nil, err
}

func (g *Gate) byProof(b *trust.Bundle, gr *grant.Grant, digest sdk.Digest, status []byte) (time.Duration, error) {
	if len(status) == 0 {
		return 0, sdk.Errorf(sdk.NotHeld, "status", "no status proof; send the registry's newest one")
	}
	p, err := g.verified.proof(b, status)
	if err != nil {
		return 0, err
	}
	life, skew := p.ExpiresAt.Sub(p.IssuedAt), b.Skew()
	switch {
	case p.Issuer != gr.Issuer || p.IssuerEpoch != gr.IssuerEpoch:
		return 0, sdk.Errorf(sdk.Unauthenticated, "status", "by issuer %q epoch %d, the grant by %q epoch %d", p.Issuer, p.IssuerEpoch, gr.Issuer, gr.IssuerEpoch)
	case p.Grant != digest || p.Resource != gr.Resource || p.Fence != gr.Fence:
		return 0, sdk.Errorf(sdk.NotHeld, "status", "for another grant, resource or fence token")
	case p.State != grant.StateHeld:
		return 0, sdk.Errorf(sdk.NotHeld, "status", "says %q; acquire the lease again", string(p.State))
	case life <= skew || life > b.MaxProof() || life > gr.TTL:
		return 0, sdk.Errorf(sdk.NotHeld, "status", "lives %v; a proof lives longer than the clock skew of %v, up to %v and no longer than the lease of %v", life, skew, b.MaxProof(), gr.TTL)
	}
	now := g.opts.Now()
	if err := g.clock.check(p.IssuedAt, now.Add(skew)); err != nil {
		return 0, err
	}
	lasts := p.ExpiresAt.Add(skew).Sub(now)
	if lasts <= 0 {
		return 0, sdk.Errorf(sdk.NotHeld, "status", "ran out at %s and it is %s; send a newer proof", p.ExpiresAt.Format(time.RFC3339), now.UTC().Format(time.RFC3339Nano))
	}
	return lasts, nil
}

func (g *Gate) query(ctx context.Context, gr *grant.Grant, digest sdk.Digest) (time.Duration, error) {
	sent := g.opts.Now()
	st, err := g.opts.Registry.Status(ctx, gr, digest)
	switch {
	case err != nil:
		return 0, sdk.Errorf(sdk.NotHeld, "registry", "cannot be asked whether the lease is held: %w", err)
	case st.State != grant.StateHeld:
		return 0, sdk.Errorf(sdk.NotHeld, "registry", "says %q; acquire the lease again", string(st.State))
	}
	if g.opts.Now().Sub(sent) >= st.Remaining {
		return 0, sdk.Errorf(sdk.NotHeld, "registry", "the lease has run out; acquire it again")
	}
	return st.Remaining, nil
}

// clockGuard remembers the latest time at which an authentic proof was issued.
// While this host's clock (plus skew) is behind it the clock is known to be
// slow, and a slow clock would take proofs that have run out.
type clockGuard struct{ latest atomic.Int64 }

func (c *clockGuard) check(issued, nowPlusSkew time.Time) error {
	latest := c.latest.Load()
	for issued.Unix() > latest && !c.latest.CompareAndSwap(latest, issued.Unix()) {
		latest = c.latest.Load()
	}
	latest = max(latest, issued.Unix())
	if nowPlusSkew.Before(time.Unix(latest, 0)) {
		return sdk.Errorf(sdk.NotHeld, "clock", "this host's clock is slow: a proof was issued at %s, beyond now plus skew; no proof is taken until the clock is right",
			time.Unix(latest, 0).UTC().Format(time.RFC3339))
	}
	return nil
}

// verifyCache remembers envelopes that verified under one bundle, by their very
// bytes, so that later segments do not verify again. Freshness, revocation and
// binding are not in it. It holds two generations of up to limit entries: when
// the young one is full it becomes the old one.
type verifyCache struct {
	limit  int
	mu     sync.RWMutex
	bundle *trust.Bundle
	young  map[string]verified
	old    map[string]verified
}

type verified struct {
	grant  *grant.Grant
	digest sdk.Digest
	proof  *grant.Proof
}

func (c *verifyCache) grant(b *trust.Bundle, envelope []byte) (*grant.Grant, sdk.Digest, error) {
	if v, ok := c.get(b, envelope); ok && v.grant != nil {
		return v.grant, v.digest, nil
	}
	gr, digest, err := b.VerifyGrant(envelope)
	if err != nil {
		return nil, sdk.Digest{}, err
	}
	c.put(b, envelope, verified{grant: gr, digest: digest})
	return gr, digest, nil
}

func (c *verifyCache) proof(b *trust.Bundle, envelope []byte) (*grant.Proof, error) {
	if v, ok := c.get(b, envelope); ok && v.proof != nil {
		return v.proof, nil
	}
	p, err := b.VerifyProof(envelope)
	if err != nil {
		return nil, err
	}
	c.put(b, envelope, verified{proof: p})
	return p, nil
}

func (c *verifyCache) get(b *trust.Bundle, envelope []byte) (verified, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.bundle != b {
		return verified{}, false
	}
	v, ok := c.young[string(envelope)]
	if !ok {
		v, ok = c.old[string(envelope)]
	}
	return v, ok
}

func (c *verifyCache) put(b *trust.Bundle, envelope []byte, v verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bundle != b {
		if c.bundle != nil && c.bundle.Generation() > b.Generation() {
			return // verified under a bundle that was replaced meanwhile
		}
		c.bundle, c.young, c.old = b, nil, nil
	}
	if c.young == nil || len(c.young) >= c.limit {
		c.young, c.old = make(map[string]verified), c.young
	}
	c.young[string(envelope)] = v
}
