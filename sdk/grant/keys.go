package grant

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"

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

// Key is a verifying key, checked when it was loaded.
type Key struct {
	id       string
	alg      Algorithm
	material []byte
	ecdsa    *ecdsa.PublicKey
}

// NewKey loads a verifying key.
//
//   - INVALID: the ID is not 1 to 64 of A-Z a-z 0-9 . _ -, the algorithm is not
//     known or the material is not of its form.
//   - UNSUITABLE: an Ed25519 point of small order or in another than its one
//     canonical encoding, or a secret below 32 bytes.
func NewKey(id string, alg Algorithm, material []byte) (*Key, error) {
	if err := validateKeyID(id); err != nil {
		return nil, err
	}
	if len(material) > maxKeyBytes {
		return nil, sdk.Errorf(sdk.Invalid, "key", "%q: %d bytes; a key has up to %d", id, len(material), maxKeyBytes)
	}
	k := &Key{id: id, alg: alg, material: bytes.Clone(material)}
	switch alg {
	case Ed25519:
		return k, checkEd25519(id, material)
	case ECDSAP256:
		pub, err := x509.ParsePKIXPublicKey(material)
		if err != nil {
			return nil, sdk.Errorf(sdk.Invalid, "key", "%q: not a PKIX public key: %w", id, err)
		}
		ec, ok := pub.(*ecdsa.PublicKey)
		if !ok || ec.Curve != elliptic.P256() {
			return nil, sdk.Errorf(sdk.Invalid, "key", "%q: not on the curve P-256", id)
		}
		k.ecdsa = ec
		return k, nil
	case HMACSHA256:
		if len(material) < MinSecretBytes {
			return nil, sdk.Errorf(sdk.Unsuitable, "key", "%q: a secret of %d bytes; it takes %d or more", id, len(material), MinSecretBytes)
		}
		return k, nil
	}
	return nil, sdk.Errorf(sdk.Invalid, "key", "%q: algorithm %q is not %s, %s or %s", id, string(alg), Ed25519, ECDSAP256, HMACSHA256)
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
// the points of small order, under which a signature can hold for any message.
func checkEd25519(id string, material []byte) error {
	if len(material) != ed25519.PublicKeySize {
		return sdk.Errorf(sdk.Invalid, "key", "%q: %d bytes; an Ed25519 key has %d", id, len(material), ed25519.PublicKeySize)
	}
	p, err := new(edwards25519.Point).SetBytes(material)
	if err != nil {
		return sdk.Errorf(sdk.Invalid, "key", "%q: not a point of the curve", id)
	}
	if !bytes.Equal(p.Bytes(), material) {
		return sdk.Errorf(sdk.Unsuitable, "key", "%q: not the canonical encoding of its point", id)
	}
	if new(edwards25519.Point).MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return sdk.Errorf(sdk.Unsuitable, "key", "%q: a point of small order; generate a key with crypto/ed25519", id)
	}
	return nil
}

// ID returns the key's ID.
func (k *Key) ID() string { return k.id }

// Algorithm returns how the key signs.
func (k *Key) Algorithm() Algorithm { return k.alg }

// Same reports whether two keys are one, whatever their IDs.
func (k *Key) Same(o *Key) bool {
	return k.alg == o.alg && subtle.ConstantTimeCompare(k.material, o.material) == 1
}

// Verify returns UNAUTHENTICATED unless sig is the key's over payload with its
// type.
func (k *Key) Verify(payloadType string, payload, sig []byte) error {
	pae := PAE(payloadType, payload)
	ok := false
	switch k.alg {
	case Ed25519:
		ok = ed25519.Verify(k.material, pae, sig)
	case ECDSAP256:
		sum := sha256.Sum256(pae)
		ok = ecdsa.VerifyASN1(k.ecdsa, sum[:], sig)
	case HMACSHA256:
		ok = hmac.Equal(mac(k.material, pae), sig)
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

// Signer signs payloads. It holds the private key: in production it lives in
// the registry alone.
type Signer struct {
	key  *Key
	sign func(pae []byte) ([]byte, error)
}

// NewEd25519Signer signs with an Ed25519 private key.
func NewEd25519Signer(id string, private ed25519.PrivateKey) (*Signer, error) {
	if len(private) != ed25519.PrivateKeySize {
		return nil, sdk.Errorf(sdk.Invalid, "key", "%q: %d bytes; an Ed25519 private key has %d", id, len(private), ed25519.PrivateKeySize)
	}
	k, err := NewKey(id, Ed25519, private.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	return &Signer{k, func(pae []byte) ([]byte, error) { return ed25519.Sign(private, pae), nil }}, nil
}

// NewECDSASigner signs with a P-256 private key; signatures are DER.
func NewECDSASigner(id string, private *ecdsa.PrivateKey) (*Signer, error) {
	if private == nil {
		return nil, sdk.Errorf(sdk.Invalid, "key", "%q: missing", id)
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "key", "%q: %w", id, err)
	}
	k, err := NewKey(id, ECDSAP256, der)
	if err != nil {
		return nil, err
	}
	return &Signer{k, func(pae []byte) ([]byte, error) {
		sum := sha256.Sum256(pae)
		return ecdsa.SignASN1(rand.Reader, private, sum[:])
	}}, nil
}

// NewHMACSigner signs with a shared secret of 32 bytes or more.
func NewHMACSigner(id string, secret []byte) (*Signer, error) {
	k, err := NewKey(id, HMACSHA256, secret)
	if err != nil {
		return nil, err
	}
	return &Signer{k, func(pae []byte) ([]byte, error) { return mac(k.material, pae), nil }}, nil
}

// Key returns the verifying key.
func (s *Signer) Key() *Key { return s.key }

// Public returns the verifying key's material: for HMAC that is the secret.
func (s *Signer) Public() []byte { return bytes.Clone(s.key.material) }

// Sign returns the encoded envelope of payload with one signature.
func (s *Signer) Sign(payloadType string, payload []byte) ([]byte, error) {
	return SignAll(payloadType, payload, s)
}

// SignAll returns the encoded envelope of payload with a signature of each
// signer, as a trust bundle's rotation takes it.
func SignAll(payloadType string, payload []byte, signers ...*Signer) ([]byte, error) {
	e := Envelope{PayloadType: payloadType, Payload: payload}
	for _, s := range signers {
		sig, err := s.sign(PAE(payloadType, payload))
		if err != nil {
			return nil, sdk.Errorf(sdk.Unauthenticated, "signature", "key %q cannot sign: %w", s.key.id, err)
		}
		e.Signatures = append(e.Signatures, Signature{s.key.id, sig})
	}
	return e.Encode()
}

// String names the key without its material.
func (k *Key) String() string {
	sum := sha256.Sum256(k.material)
	return string(k.alg) + ":" + k.id + ":" + hex.EncodeToString(sum[:4])
}
