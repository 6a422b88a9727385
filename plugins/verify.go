package plugins

import (
	"sync/atomic"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

// verifier holds a mutation from the wire against the signed bytes that came
// with it. What it does not see is the caller: A4 is the host's gate's.
type verifier struct {
	source trust.Source
	now    func() time.Time
	latest atomic.Int64 // when the newest authentic proof was issued, Unix s
}

// verify keeps A1 to A3, A5 and A6 for m, sets what only a trusted gate may say
// to what this process knows, and returns until when the lease is known to be
// held, by time.Now's clock.
func (v *verifier) verify(m *sdk.Mutation) (until time.Time, err error) {
	asked := time.Now()
	b := v.source.Bundle()
	if b == nil {
		return until, sdk.Errorf(sdk.Unauthenticated, "trust bundle", "the plug-in has none")
	}
	gr, digest, err := b.VerifyGrant(m.GrantEnvelope)
	if err != nil {
		return until, err
	}
	if err := b.CheckCurrent(gr); err != nil {
		return until, err
	}
	switch {
	case gr.Audience != b.Audience():
		return until, sdk.Errorf(sdk.ResourceMismatch, "audience", "the grant is for %q and this plug-in is %q", gr.Audience, b.Audience())
	case m.Resource != gr.Resource:
		return until, sdk.Errorf(sdk.ResourceMismatch, "resource", "the mutation is for %q and the grant for %q", m.Resource, gr.Resource)
	case m.Root != gr.Root:
		return until, sdk.Errorf(sdk.ResourceMismatch, "operation root", "the mutation is for job %v and the grant for %v", m.Root, gr.Root)
	case m.Fence != gr.Fence:
		return until, sdk.Errorf(sdk.ResourceMismatch, "fence token", "the mutation has %s and the grant %s", m.Fence, gr.Fence)
	case m.Grant != digest:
		return until, sdk.Errorf(sdk.ResourceMismatch, "grant digest", "not that of the grant")
	case m.Payload != sdk.PayloadDigest(m.Operation, m.Result, m.Effects):
		return until, sdk.Errorf(sdk.Invalid, "payload digest", "not that of operation, result and effects")
	case m.Owner != gr.Owner:
		return until, sdk.Errorf(sdk.OwnerMismatch, "owner", "the mutation is by %q and the grant of %q", m.Owner, gr.Owner)
	case m.Operation.Reserved() && !m.IsClaim():
		return until, sdk.Errorf(sdk.Invalid, "operation", "%q begins with \"fencedstore.\", which is reserved", m.Operation)
	case m.IsClaim() && (len(m.Effects) > 0 || len(m.Result) > 0):
		return until, sdk.Errorf(sdk.Invalid, "operation", "a claim carries nothing")
	case m.Seed != (sdk.FenceState{}):
		return until, sdk.Errorf(sdk.Invalid, "seed", "a plug-in that verifies takes no fence on a host's word; seed the store before")
	case m.Generations.Trust > b.Generation():
		return until, sdk.Errorf(sdk.PolicyStale, "trust bundle", "this plug-in's is generation %d and the host's %d; rotate it", b.Generation(), m.Generations.Trust)
	}
	lasts, err := v.held(b, gr, digest, m.StatusEnvelope)
	if err != nil {
		return until, err
	}
	m.Generations.Policy = 0 // a host's word could shut every other host out
	m.Generations.Trust = b.Generation()
	m.Time = v.now().UTC().Truncate(time.Millisecond)
	return asked.Add(lasts), nil
}

// held keeps A5 by the proof.
func (v *verifier) held(b *trust.Bundle, gr *grant.Grant, digest sdk.Digest, status []byte) (time.Duration, error) {
	if len(status) == 0 {
		return 0, sdk.Errorf(sdk.NotHeld, "status", "no status proof; a plug-in that verifies does not ask the registry")
	}
	p, err := b.VerifyProof(status)
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
		return 0, sdk.Errorf(sdk.NotHeld, "status", "lives %v; longer than %v and up to %v is taken", life, skew, min(b.MaxProof(), gr.TTL))
	}
	issued := p.IssuedAt.Unix()
	latest := v.latest.Load()
	for issued > latest && !v.latest.CompareAndSwap(latest, issued) {
		latest = v.latest.Load()
	}
	now := v.now()
	if now.Add(skew).Before(time.Unix(max(issued, latest), 0)) {
		return 0, sdk.Errorf(sdk.NotHeld, "clock", "the plug-in's clock is slow: a proof was issued beyond now plus skew")
	}
	lasts := p.ExpiresAt.Add(skew).Sub(now)
	if lasts <= 0 {
		return 0, sdk.Errorf(sdk.NotHeld, "status", "ran out at %s; send a newer proof", p.ExpiresAt.Format(time.RFC3339))
	}
	return lasts, nil
}
