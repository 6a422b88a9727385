package certificate

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// ParseSigner reads a private key for Ed25519 or ECDSA P-256: PEM with PKCS #8,
// as openssl genpkey writes it. Its ID is [KeyID] of its public half.
func ParseSigner(text []byte) (*grant.Signer, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
		return nil, sdk.Errorf(sdk.Invalid, "signing key", "not one PEM block of a PKCS #8 private key; make one with 'openssl genpkey -algorithm ed25519'")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "signing key", "not PKCS #8")
	}
	switch k := key.(type) {
	case ed25519.PrivateKey:
		id, err := KeyID(k.Public())
		if err != nil {
			return nil, err
		}
		return grant.NewEd25519Signer(id, k)
	case *ecdsa.PrivateKey:
		id, err := KeyID(k.Public())
		if err != nil {
			return nil, err
		}
		return grant.NewECDSASigner(id, k)
	}
	return nil, sdk.Errorf(sdk.Invalid, "signing key", "neither Ed25519 nor ECDSA P-256")
}

// ParseKey reads a public key: PEM with PKIX, as openssl pkey -pubout writes it.
func ParseKey(text []byte) (*grant.Key, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" || len(rest) > 0 {
		return nil, sdk.Errorf(sdk.Invalid, "key", "not one PEM block of a public key; get it with 'openssl pkey -in KEY -pubout'")
	}
	return ParseDER(block.Bytes)
}

// ParseDER reads a PKIX public key.
func ParseDER(der []byte) (*grant.Key, error) {
	pub, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "key", "not a PKIX public key")
	}
	id, err := KeyID(pub)
	if err != nil {
		return nil, err
	}
	switch k := pub.(type) {
	case ed25519.PublicKey:
		return grant.NewKey(id, grant.Ed25519, k)
	case *ecdsa.PublicKey:
		return grant.NewKey(id, grant.ECDSAP256, der)
	}
	return nil, sdk.Errorf(sdk.Invalid, "key", "neither Ed25519 nor ECDSA P-256")
}

// KeyID is the SHA-256 of the key's PKIX encoding in hex: a key's ID cannot be
// chosen.
func KeyID(public any) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", sdk.Errorf(sdk.Invalid, "key", "%w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}
