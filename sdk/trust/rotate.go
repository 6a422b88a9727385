package trust

import (
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// BundleType is the payload type of a signed trust bundle.
const BundleType = "application/vnd.fencedstore.trustbundle.v1+json"

// maxRotationBytes bounds a signed bundle: the bundle in base64 and its
// signatures.
const maxRotationBytes = 2 * MaxBundleBytes

// SignRotation returns the envelope that carries a bundle, as Load reads it,
// with the signatures of root keys of the bundle that it is to follow.
//
// INVALID, UNSUITABLE: as of Load.
func SignRotation(bundle []byte, roots ...*grant.Signer) ([]byte, error) {
	if _, err := Load(bundle); err != nil {
		return nil, err
	}
	return grant.SignAll(BundleType, bundle, roots...)
}

// Rotate returns the bundle that follows b (P2).
//
//   - MALFORMED: not an envelope.
//   - UNAUTHENTICATED: fewer distinct root keys of b than its threshold signed
//     it, or a signature does not verify.
//   - POLICY_STALE: its generation is not b's plus one: rolled back, repeated or
//     skipped.
//   - UNSUITABLE: b has no root keys, or the new bundle cannot keep a law.
//   - RESOURCE_MISMATCH: it is for another audience.
func (b *Bundle) Rotate(envelope []byte) (*Bundle, error) {
	if len(b.roots) == 0 {
		return nil, sdk.Errorf(sdk.Unsuitable, "rootKeys", "this bundle lists none, so nothing can follow it; load one with rootKeys and rootThreshold")
	}
	e, err := grant.ParseEnvelopeMulti(envelope, maxRotationBytes)
	if err != nil {
		return nil, err
	}
	if e.PayloadType != BundleType {
		return nil, unauthenticated("payloadType", "not %q", BundleType)
	}
	signed := map[string]bool{}
	for _, s := range e.Signatures {
		key, ok := b.roots[s.KeyID]
		if !ok || signed[s.KeyID] {
			continue // a root key of some other generation, or a repetition: it does not count
		}
		if err := key.Verify(e.PayloadType, e.Payload, s.Sig); err != nil {
			return nil, err
		}
		signed[s.KeyID] = true
	}
	if len(signed) < b.threshold {
		return nil, unauthenticated("signatures", "%d of the current root keys signed; it takes %d", len(signed), b.threshold)
	}
	next, err := Load(e.Payload)
	if err != nil {
		return nil, err
	}
	if next.generation != b.generation+1 {
		return nil, sdk.Errorf(sdk.PolicyStale, "generation", "%d does not follow %d", next.generation, b.generation)
	}
	if next.audience != b.audience {
		return nil, sdk.Errorf(sdk.ResourceMismatch, "audience", "%q is not this gate's %q", next.audience, b.audience)
	}
	return next, nil
}
