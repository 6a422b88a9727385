package grant

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"fmt"
	"io"

	"filippo.io/edwards25519"
	"github.com/fencedstore/fencedstore/sdk"
)

// Algorithm is how a key signs. It is a property of the key, never of a
// message.
type Algorithm string

const (
	Ed25519   Algorithm = "ed25519"           // 32 bytes of public key
	ECDSAP256 Algorithm = "ecdsa-p256-sha256" // PKIX DER public key; DER signatures
	// HMACSHA256 has a secret of 32 bytes or more. Whoever can check can forge:
	// only where the gate is not in the worker's process.
	HMACSHA256 Algorithm = "hmac-sha256"

	// MinSecretBytes is the shortest HMAC secret.
	MinSecretBytes = 32
	maxKeyBytes    = 1 << 10
	maxKeyIDBytes  = 64
)

// Key is a verifying key, checked when it was loaded. It does not change and is
// safe for concurrent use. Printing one shows its ID and never its material.
type Key struct {
	id    string
	alg   Algorithm
	ecdsa *ecdsa.PublicKey
	// Functions, since fmt prints whatever bytes it finds in a struct that
	// contains a key. identity is equal for two keys of one algorithm that
	// verify the same signatures.
	material, identity func() []byte
}

// NewKey loads a verifying key: 32 bytes for Ed25519, a PKIX DER public key for
// ECDSA P-256, the secret for HMAC.
//
//   - INVALID: the ID is not 1 to 64 of A-Z a-z 0-9 . _ -, the algorithm is not
//     known or the material is not of its form, such as a point off the curve.
//   - UNSUITABLE: an Ed25519 point outside the group of prime order (a point of
//     small order among them) or in another than its one canonical encoding, a
//     secret below 32 bytes or of zeros.
//
// The error's field is keyid, alg, public or secret.
func NewKey(id string, alg Algorithm, material []byte) (*Key, error) {
	if err := validateKeyID(id); err != nil {
		return nil, err
	}
	own := bytes.Clone(material)
	k := &Key{id: id, alg: alg, material: func() []byte { return own }}
	k.identity = k.material
	var err error
	switch alg {
	case Ed25519:
		err = checkEd25519(id, material)
	case ECDSAP256:
		k.ecdsa, err = parseECDSA(id, material)
	case HMACSHA256:
		var block []byte
		block, err = checkSecret(id, material)
		k.identity = func() []byte { return block }
	default:
		err = sdk.Errorf(sdk.Invalid, "alg", "%q is not %s, %s or %s", clip(string(alg)), Ed25519, ECDSAP256, HMACSHA256)
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

func validateKeyID(id string) error {
	ok := len(id) >= 1 && len(id) <= maxKeyIDBytes
	for i := 0; ok && i < len(id); i++ {
		c := id[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if !ok {
		return sdk.Errorf(sdk.Invalid, "keyid", "not 1 to %d of A-Z a-z 0-9 . _ -", maxKeyIDBytes)
	}
	return nil
}

// checkEd25519 refuses points off the curve, second encodings of a point, and
// points outside the group of prime order: under one of small order a signature
// can hold for any message, and one that differs from another key by such a
// point is that key again, to whoever tries a few messages.
func checkEd25519(id string, material []byte) error {
	if len(material) != ed25519.PublicKeySize {
		return sdk.Errorf(sdk.Invalid, "public", "%q: %d bytes; an Ed25519 key has %d", id, len(material), ed25519.PublicKeySize)
	}
	p, err := new(edwards25519.Point).SetBytes(material)
	if err != nil {
		return sdk.Errorf(sdk.Invalid, "public", "%q: not a point of the curve", id)
	}
	if !bytes.Equal(p.Bytes(), material) {
		return sdk.Errorf(sdk.Unsuitable, "public", "%q: not the canonical encoding of its point", id)
	}
	if new(edwards25519.Point).MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return sdk.Errorf(sdk.Unsuitable, "public", "%q: a point of small order; generate a key with crypto/ed25519", id)
	}
	one, err := edwards25519.NewScalar().SetCanonicalBytes(append([]byte{1}, make([]byte, 31)...))
	if err != nil {
		return sdk.Errorf(sdk.Invalid, "public", "%q: cannot be checked: %w", id, err)
	}
	// In the group of prime order l, and only there, (l−1)·p is −p.
	if new(edwards25519.Point).ScalarMult(one.Negate(one), p).Equal(new(edwards25519.Point).Negate(p)) != 1 {
		return sdk.Errorf(sdk.Unsuitable, "public", "%q: a point outside the group of prime order; generate a key with crypto/ed25519", id)
	}
	return nil
}

func parseECDSA(id string, material []byte) (*ecdsa.PublicKey, error) {
	if len(material) > maxKeyBytes {
		return nil, sdk.Errorf(sdk.Invalid, "public", "%q: %d bytes; a key has up to %d", id, len(material), maxKeyBytes)
	}
	pub, err := x509.ParsePKIXPublicKey(material)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "public", "%q: not a PKIX public key in DER", id)
	}
	ec, ok := pub.(*ecdsa.PublicKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, sdk.Errorf(sdk.Invalid, "public", "%q: not on the curve P-256", id)
	}
	// One spelling per key, so that two keys are one exactly if their bytes are.
	if again, err := x509.MarshalPKIXPublicKey(ec); err != nil || !bytes.Equal(again, material) {
		return nil, sdk.Errorf(sdk.Invalid, "public", "%q: not the DER encoding of its key", id)
	}
	return ec, nil
}

// checkSecret returns the block that HMAC makes of the secret: a long one counts
// by its hash, a short one as if zeros followed it.
func checkSecret(id string, secret []byte) ([]byte, error) {
	if len(secret) > maxKeyBytes {
		return nil, sdk.Errorf(sdk.Invalid, "secret", "%q: %d bytes; a secret has up to %d", id, len(secret), maxKeyBytes)
	}
	if len(secret) < MinSecretBytes {
		return nil, sdk.Errorf(sdk.Unsuitable, "secret", "%q: %d bytes; it takes %d or more, drawn at random", id, len(secret), MinSecretBytes)
	}
	if bytes.Count(secret, []byte{0}) == len(secret) {
		return nil, sdk.Errorf(sdk.Unsuitable, "secret", "%q: zeros; draw one at random", id)
	}
	block := make([]byte, sha256.BlockSize)
	if len(secret) > len(block) {
		sum := sha256.Sum256(secret)
		secret = sum[:]
	}
	copy(block, secret)
	return block, nil
}

// ID returns the key's ID.
func (k *Key) ID() string { return k.id }

// Algorithm returns how the key signs.
func (k *Key) Algorithm() Algorithm { return k.alg }

// Material returns what NewKey took: the public key, or for HMAC the secret.
func (k *Key) Material() []byte {
	if k.material == nil {
		return nil
	}
	return bytes.Clone(k.material())
}

// Same reports whether two keys verify the same signatures, whatever their IDs
// and spellings.
func (k *Key) Same(o *Key) bool {
	return k.alg == o.alg && k.identity != nil && o.identity != nil && subtle.ConstantTimeCompare(k.identity(), o.identity()) == 1
}

// Verify returns UNAUTHENTICATED unless sig is the key's over payload with its
// type.
func (k *Key) Verify(payloadType string, payload, sig []byte) error {
	pae := PAE(payloadType, payload)
	ok := false
	switch k.alg {
	case Ed25519:
		ok = ed25519.Verify(k.material(), pae, sig)
	case ECDSAP256:
		sum := sha256.Sum256(pae)
		ok = ecdsa.VerifyASN1(k.ecdsa, sum[:], sig)
	case HMACSHA256:
		ok = hmac.Equal(mac(k.material(), pae), sig)
	}
	if !ok {
		return sdk.Errorf(sdk.Unauthenticated, "signature", "does not verify under key %q", k.id)
	}
	return nil
}

func mac(secret, pae []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(pae)
	return h.Sum(nil)
}

// String names the key without its material.
func (k Key) String() string { return string(k.alg) + ":" + k.id }

// Format writes String for every verb, so that no secret gets into a log.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }
