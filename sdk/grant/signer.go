package grant

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"

	"github.com/fencedstore/fencedstore/sdk"
)

// Signer signs payloads. It holds the private key: in production it lives in
// the registry alone. It is safe for concurrent use.
type Signer struct {
	key  *Key
	sign func(pae []byte) ([]byte, error)
}

// NewEd25519Signer signs with an Ed25519 private key. INVALID also where its
// public half is another key's: its signatures would give the private one away.
func NewEd25519Signer(id string, private ed25519.PrivateKey) (*Signer, error) {
	if len(private) != ed25519.PrivateKeySize {
		return nil, sdk.Errorf(sdk.Invalid, "private", "%q: %d bytes; an Ed25519 private key has %d", clip(id), len(private), ed25519.PrivateKeySize)
	}
	own := ed25519.NewKeyFromSeed(private.Seed()) // a copy; the caller may wipe its own
	if !bytes.Equal(own, private) {
		return nil, sdk.Errorf(sdk.Invalid, "private", "%q: its public half is not its own", clip(id))
	}
	k, err := NewKey(id, Ed25519, own[ed25519.SeedSize:])
	if err != nil {
		return nil, err
	}
	return &Signer{k, func(pae []byte) ([]byte, error) { return ed25519.Sign(own, pae), nil }}, nil
}

// NewECDSASigner signs with a P-256 private key, which must not be changed
// afterwards; signatures are DER.
func NewECDSASigner(id string, private *ecdsa.PrivateKey) (*Signer, error) {
	if private == nil {
		return nil, sdk.Errorf(sdk.Invalid, "private", "%q: missing", clip(id))
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "private", "%q: %w", clip(id), err)
	}
	k, err := NewKey(id, ECDSAP256, der)
	if err != nil {
		return nil, err
	}
	s := &Signer{k, func(pae []byte) ([]byte, error) {
		sum := sha256.Sum256(pae)
		return ecdsa.SignASN1(rand.Reader, private, sum[:])
	}}
	sig, err := s.sign(PAE(id, nil))
	if err != nil || k.Verify(id, nil, sig) != nil {
		return nil, sdk.Errorf(sdk.Invalid, "private", "%q: its public half is not its own", id)
	}
	return s, nil
}

// NewHMACSigner signs with a shared secret of 32 bytes or more.
func NewHMACSigner(id string, secret []byte) (*Signer, error) {
	k, err := NewKey(id, HMACSHA256, secret)
	if err != nil {
		return nil, err
	}
	return &Signer{k, func(pae []byte) ([]byte, error) { return mac(k.material(), pae), nil }}, nil
}

// Key returns the verifying key.
func (s *Signer) Key() *Key { return s.key }

// Public returns the verifying key's material: for HMAC that is the secret.
func (s *Signer) Public() []byte { return s.key.Material() }

// Sign returns the encoded envelope of payload with one signature.
func (s *Signer) Sign(payloadType string, payload []byte) ([]byte, error) {
	return SignAll(payloadType, payload, s)
}

// SignAll returns the encoded envelope of payload with a signature of each
// signer, as a trust bundle's rotation takes it. MALFORMED: no signer, no
// payload or no payload type.
func SignAll(payloadType string, payload []byte, signers ...*Signer) ([]byte, error) {
	e := Envelope{PayloadType: payloadType, Payload: payload}
	if err := e.Add(signers...); err != nil {
		return nil, err
	}
	return e.Encode()
}

// Add signs e beside the signatures that it has.
func (e *Envelope) Add(signers ...*Signer) error {
	pae := PAE(e.PayloadType, e.Payload)
	for _, s := range signers {
		sig, err := s.sign(pae)
		if err != nil {
			return sdk.Errorf(sdk.Unauthenticated, "signature", "key %q cannot sign: %w", s.key.id, err)
		}
		e.Signatures = append(e.Signatures, Signature{s.key.id, sig})
	}
	return nil
}
