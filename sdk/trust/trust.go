// Package trust holds what a gate believes: which issuers may grant which
// resources, under which keys and epochs. A bundle is replaced only by its next
// generation, signed by a threshold of its own root keys (P2).
package trust

import (
	"slices"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/internal/pattern"
)

// Bundle is a trust bundle. It does not change and is safe for concurrent use.
// The zero Bundle, generation 0, trusts nobody.
type Bundle struct {
	spec    Spec
	issuers map[string]*issuer
	keys    map[string]*issuerKey // by key ID
	roots   map[string]*grant.Key
}

type issuer struct {
	name     string
	patterns []pattern.Pattern
	minEpoch uint64
	revoked  []uint64 // sorted
}

type issuerKey struct {
	*grant.Key
	issuer *issuer
	epoch  uint64
}

// Source gives the bundle in force. A *Bundle is a Source of itself, a *Holder
// one that can be rotated.
type Source interface{ Bundle() *Bundle }

// Bundle returns b.
func (b *Bundle) Bundle() *Bundle { return b }

// Generation is the bundle's own generation, 1 or above.
func (b *Bundle) Generation() uint64 { return b.spec.Generation }

// Audience is the configured name of the store that the gate is in front of.
func (b *Bundle) Audience() string { return b.spec.Audience }

// Skew is how far clocks may be apart, in both directions; below MaxProof.
func (b *Bundle) Skew() time.Duration { return b.spec.Skew }

// MaxProof is the longest life of a status proof.
func (b *Bundle) MaxProof() time.Duration { return b.spec.MaxProof }

// PolicyGenerations are the accepted ones in ascending order.
func (b *Bundle) PolicyGenerations() []uint64 { return slices.Clone(b.spec.PolicyGenerations) }

// PolicyGeneration is the highest accepted one: the current.
func (b *Bundle) PolicyGeneration() uint64 {
	if len(b.spec.PolicyGenerations) == 0 {
		return 0
	}
	return b.spec.PolicyGenerations[len(b.spec.PolicyGenerations)-1]
}

// VerifyGrant keeps A1 and A2 for a grant: form of the envelope, key, signature,
// content, and that the key is of the issuer and epoch that the grant names and
// the resource one of the issuer's. It returns the grant and the SHA-256 of its
// payload.
//
//   - MALFORMED: envelope or payload are not exactly of their form.
//   - UNAUTHENTICATED: everything else.
func (b *Bundle) VerifyGrant(envelope []byte) (*grant.Grant, sdk.Digest, error) {
	e, key, err := b.verify(envelope, grant.GrantType)
	if err != nil {
		return nil, sdk.Digest{}, err
	}
	g, err := grant.ParseGrant(e.Payload)
	if err != nil {
		return nil, sdk.Digest{}, err
	}
	if err := key.speaksFor(g.Issuer, g.IssuerEpoch, g.Resource); err != nil {
		return nil, sdk.Digest{}, err
	}
	return g, sdk.SumDigest(e.Payload), nil
}

// VerifyProof is VerifyGrant for a status proof. That the proof is of this very
// grant, by the same issuer and epoch, is the gate's check.
func (b *Bundle) VerifyProof(envelope []byte) (*grant.Proof, error) {
	e, key, err := b.verify(envelope, grant.ProofType)
	if err != nil {
		return nil, err
	}
	p, err := grant.ParseProof(e.Payload)
	if err != nil {
		return nil, err
	}
	if err := key.speaksFor(p.Issuer, p.IssuerEpoch, p.Resource); err != nil {
		return nil, err
	}
	return p, nil
}

func (b *Bundle) verify(envelope []byte, payloadType string) (*grant.Envelope, *issuerKey, error) {
	e, err := grant.ParseEnvelope(envelope)
	if err != nil {
		return nil, nil, err
	}
	if e.PayloadType != payloadType {
		return nil, nil, unauthenticated("payloadType", "not %q", payloadType)
	}
	sig := e.Signatures[0]
	key, ok := b.keys[sig.KeyID]
	if !ok {
		return nil, nil, unauthenticated("keyid", "the trust bundle, generation %d, lists no such key", b.spec.Generation)
	}
	if err := key.Verify(e.PayloadType, e.Payload, sig.Sig); err != nil {
		return nil, nil, err
	}
	return e, key, nil
}

func (k *issuerKey) speaksFor(name string, epoch uint64, r sdk.ResourceID) error {
	switch {
	case name != k.issuer.name:
		return unauthenticated("issuer", "%q is not the issuer of key %q", name, k.ID())
	case epoch != k.epoch:
		return unauthenticated("issuerEpoch", "%d is not the epoch of key %q", epoch, k.ID())
	case !k.issuer.covers(r):
		return unauthenticated("resource", "%q is outside the resources of issuer %q", r, name)
	}
	return nil
}

func (i *issuer) covers(r sdk.ResourceID) bool {
	return slices.ContainsFunc(i.patterns, func(p pattern.Pattern) bool { return p.Match(r) })
}

// CheckCurrent keeps A6 for a grant that VerifyGrant returned.
//
//   - REVOKED: the issuer's epoch is revoked or below its minimum.
//   - POLICY_STALE: the policy generation is not among the accepted ones.
//   - UNAUTHENTICATED: this bundle does not list the issuer (another one did).
func (b *Bundle) CheckCurrent(g *grant.Grant) error {
	i, ok := b.issuers[g.Issuer]
	if !ok {
		return unauthenticated("issuer", "the trust bundle, generation %d, lists no %q", b.spec.Generation, g.Issuer)
	}
	if _, revoked := slices.BinarySearch(i.revoked, g.IssuerEpoch); revoked || g.IssuerEpoch < i.minEpoch {
		return sdk.Errorf(sdk.Revoked, "issuerEpoch", "epoch %d of issuer %q is revoked; acquire a grant of the current epoch", g.IssuerEpoch, g.Issuer)
	}
	if _, accepted := slices.BinarySearch(b.spec.PolicyGenerations, g.PolicyGeneration); !accepted {
		return sdk.Errorf(sdk.PolicyStale, "policyGeneration", "%d is not accepted, the current one is %d; acquire a grant under it", g.PolicyGeneration, b.PolicyGeneration())
	}
	return nil
}

func unauthenticated(field, format string, args ...any) error {
	return sdk.Errorf(sdk.Unauthenticated, field, format, args...)
}
