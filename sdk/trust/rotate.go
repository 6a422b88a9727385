package trust

import (
	"slices"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// BundleType is the payload type of a signed trust bundle.
const BundleType = "application/vnd.fencedstore.trustbundle.v1+json"

// maxRotationBytes bounds a signed bundle: the bundle in base64 and its
// signatures.
const maxRotationBytes = 2 * MaxBundleBytes

// SignRotation returns the envelope that carries a bundle, as Load reads it,
// with the signatures of root keys of the bundle that it is to follow. Where the
// root keys are with different people, the first signs so and the others CoSign.
//
//   - INVALID, UNSUITABLE: as Load; UNSUITABLE also for a bundle without root
//     keys, which nothing could follow.
//   - MALFORMED: no root key signs.
func SignRotation(bundle []byte, roots ...*grant.Signer) ([]byte, error) {
	if _, err := loadNext(bundle); err != nil {
		return nil, err
	}
	return grant.SignAll(BundleType, bundle, roots...)
}

// CoSign adds a root key's signature to the envelope of SignRotation.
//
//   - MALFORMED: not an envelope of a bundle.
//   - INVALID: this key has signed it; else as SignRotation.
func CoSign(envelope []byte, root *grant.Signer) ([]byte, error) {
	e, err := grant.ParseEnvelopeMulti(envelope, maxRotationBytes)
	if err != nil {
		return nil, err
	}
	if e.PayloadType != BundleType {
		return nil, sdk.Errorf(sdk.Malformed, "payloadType", "not %q", BundleType)
	}
	if _, err := loadNext(e.Payload); err != nil {
		return nil, err
	}
	id := root.Key().ID()
	if slices.ContainsFunc(e.Signatures, func(s grant.Signature) bool { return s.KeyID == id }) {
		return nil, sdk.Errorf(sdk.Invalid, "signatures", "%q has signed already", id)
	}
	if err := e.Add(root); err != nil {
		return nil, err
	}
	return e.Encode()
}

func loadNext(b []byte) (*Bundle, error) {
	next, err := Load(b)
	if err == nil && len(next.roots) == 0 {
		return nil, sdk.Errorf(sdk.Unsuitable, "rootKeys", "the next bundle lists none, so nothing could follow it; list rootKeys and rootThreshold")
	}
	return next, err
}

// Rotate returns the bundle that follows b (P2).
//
//   - MALFORMED: not an envelope.
//   - UNAUTHENTICATED: fewer distinct root keys of b than its threshold signed
//     it, or a signature of one does not verify. Signatures of other keys do
//     not count.
//   - POLICY_STALE: its generation is not b's plus one: rolled back, repeated or
//     skipped.
//   - RESOURCE_MISMATCH: it is for another audience.
//   - UNSUITABLE: b has no root keys, or the new bundle has none or cannot keep
//     a law.
//   - INVALID: signed, and not of a bundle's form.
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
			continue
		}
		if err := key.Verify(e.PayloadType, e.Payload, s.Sig); err != nil {
			return nil, err
		}
		signed[s.KeyID] = true
	}
	if len(signed) < b.spec.RootThreshold {
		return nil, unauthenticated("signatures", "%d of the current root keys signed; it takes %d", len(signed), b.spec.RootThreshold)
	}
	next, err := loadNext(e.Payload)
	if err != nil {
		return nil, err
	}
	if next.Generation() != b.Generation()+1 {
		return nil, sdk.Errorf(sdk.PolicyStale, "generation", "%d does not follow %d; rotate through every generation in turn", next.Generation(), b.Generation())
	}
	if next.Audience() != b.Audience() {
		return nil, sdk.Errorf(sdk.ResourceMismatch, "audience", "%q is not this gate's %q", next.Audience(), b.Audience())
	}
	return next, nil
}
