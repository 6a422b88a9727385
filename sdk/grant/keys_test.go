package grant_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"filippo.io/edwards25519"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

func signers(t testing.TB) map[grant.Algorithm]*grant.Signer {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out := map[grant.Algorithm]*grant.Signer{}
	if out[grant.Ed25519], err = grant.NewEd25519Signer("ed", ed); err != nil {
		t.Fatal(err)
	}
	if out[grant.ECDSAP256], err = grant.NewECDSASigner("ec", ec); err != nil {
		t.Fatal(err)
	}
	if out[grant.HMACSHA256], err = grant.NewHMACSigner("mac", bytes.Repeat([]byte("s"), 32)); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSignAndVerify(t *testing.T) {
	all := signers(t)
	for alg, s := range all {
		env, err := s.Sign(grant.GrantType, []byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := grant.ParseEnvelope(env)
		if err != nil || e.Signatures[0].KeyID != s.Key().ID() {
			t.Fatalf("%s: %v, %v", alg, e, err)
		}
		sig := e.Signatures[0].Sig
		if err := s.Key().Verify(e.PayloadType, e.Payload, sig); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
		flipped := bytes.Clone(sig)
		flipped[len(flipped)-1] ^= 1
		for name, bad := range map[string]error{
			"another type":    s.Key().Verify(grant.ProofType, e.Payload, sig),
			"another payload": s.Key().Verify(e.PayloadType, []byte("Payload"), sig),
			"a flipped bit":   s.Key().Verify(e.PayloadType, e.Payload, flipped),
			"cut short":       s.Key().Verify(e.PayloadType, e.Payload, sig[:len(sig)-1]),
			"grown":           s.Key().Verify(e.PayloadType, e.Payload, append(bytes.Clone(sig), 0)),
			"nothing":         s.Key().Verify(e.PayloadType, e.Payload, nil),
		} {
			if !errors.Is(bad, sdk.ErrUnauthenticated) {
				t.Errorf("%s, %s: %v", alg, name, bad)
			}
		}
		for other, o := range all {
			if other != alg && o.Key().Verify(e.PayloadType, e.Payload, sig) == nil {
				t.Errorf("a signature of %s verifies under %s", alg, other)
			}
		}
	}
}

// C37: an HMAC keyed with a public key's bytes, in any spelling, is no
// signature of that key.
func TestPublicKeyIsNoSecret(t *testing.T) {
	ed := signers(t)[grant.Ed25519]
	for name, secret := range map[string][]byte{
		"raw": ed.Public(), "base64": []byte(base64.StdEncoding.EncodeToString(ed.Public())),
	} {
		mac, err := grant.NewHMACSigner("ed", secret)
		if err != nil {
			t.Fatal(err)
		}
		env, err := mac.Sign(grant.GrantType, []byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := grant.ParseEnvelope(env)
		if err != nil {
			t.Fatal(err)
		}
		if err := ed.Key().Verify(e.PayloadType, e.Payload, e.Signatures[0].Sig); !errors.Is(err, sdk.ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysRefused(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := func(pub any) []byte {
		b, err := x509.MarshalPKIXPublicKey(pub)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := signers(t)[grant.Ed25519].Public()
	twisted := func(torsion string) []byte {
		p, err := new(edwards25519.Point).SetBytes(good)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(torsion)
		if err != nil {
			t.Fatal(err)
		}
		q, err := new(edwards25519.Point).SetBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		return p.Add(p, q).Bytes()
	}
	p256 := signers(t)[grant.ECDSAP256].Public()
	head := p256[:len(p256)-65]
	offCurve := append(bytes.Clone(head), append([]byte{4}, bytes.Repeat([]byte{1}, 64)...)...)
	infinity := append(bytes.Clone(head), append([]byte{4}, make([]byte, 64)...)...)
	for name, tc := range map[string]struct {
		id       string
		alg      grant.Algorithm
		material []byte
		want     error
	}{
		"path as ID":    {"../../k", grant.Ed25519, good, sdk.ErrInvalid},
		"URL as ID":     {"http://x", grant.Ed25519, good, sdk.ErrInvalid},
		"long ID":       {strings.Repeat("k", 300), grant.Ed25519, good, sdk.ErrInvalid},
		"empty ID":      {"", grant.Ed25519, good, sdk.ErrInvalid},
		"alg none":      {"k", "none", nil, sdk.ErrInvalid},
		"no alg":        {"k", "", good, sdk.ErrInvalid},
		"short Ed25519": {"k", grant.Ed25519, good[:31], sdk.ErrInvalid},
		"short secret":  {"k", grant.HMACSHA256, make([]byte, 31), sdk.ErrUnsuitable},
		"8-byte secret": {"k", grant.HMACSHA256, make([]byte, 8), sdk.ErrUnsuitable},
		"RSA":           {"k", grant.ECDSAP256, der(&rsaKey.PublicKey), sdk.ErrInvalid},
		"P-384":         {"k", grant.ECDSAP256, der(&p384.PublicKey), sdk.ErrInvalid},
		"no DER":        {"k", grant.ECDSAP256, good, sdk.ErrInvalid},
		"order 2 added": {"k", grant.Ed25519, twisted("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"), sdk.ErrUnsuitable},
		"order 4 added": {"k", grant.Ed25519, twisted("0000000000000000000000000000000000000000000000000000000000000000"), sdk.ErrUnsuitable},
		"order 8 added": {"k", grant.Ed25519, twisted("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), sdk.ErrUnsuitable},
		"off the curve": {"k", grant.Ed25519, append([]byte{2}, make([]byte, 31)...), sdk.ErrInvalid},
		"P-256 off it":  {"k", grant.ECDSAP256, offCurve, sdk.ErrInvalid},
		"infinity":      {"k", grant.ECDSAP256, infinity, sdk.ErrInvalid},
		"DER and more":  {"k", grant.ECDSAP256, append(bytes.Clone(p256), 0), sdk.ErrInvalid},
		"no key at all": {"k", grant.ECDSAP256, nil, sdk.ErrInvalid},
		"zeros":         {"k", grant.HMACSHA256, make([]byte, 32), sdk.ErrUnsuitable},
		"no secret":     {"k", grant.HMACSHA256, nil, sdk.ErrUnsuitable},
		"huge":          {"k", grant.HMACSHA256, make([]byte, 4096), sdk.ErrInvalid},
	} {
		if k, err := grant.NewKey(tc.id, tc.alg, tc.material); !errors.Is(err, tc.want) || k != nil {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	// The points of small order, in their canonical encodings and in others.
	for _, h := range []string{
		"0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0000000000000000000000000000000000000000000000000000000000000080",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"0100000000000000000000000000000000000000000000000000000000000080",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		b, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := grant.NewKey("k", grant.Ed25519, b); err == nil {
			t.Errorf("%s: loaded", h)
		}
	}
}

// Keys that verify the same are the same, however they are written.
func TestSame(t *testing.T) {
	key := func(alg grant.Algorithm, material []byte) *grant.Key {
		k, err := grant.NewKey("k", alg, material)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	secret := []byte("0123456789abcdef0123456789abcdef")
	long := bytes.Repeat(secret, 3)
	sum := sha256.Sum256(long)
	public := signers(t)[grant.Ed25519].Public()
	for name, tc := range map[string]struct {
		a, b *grant.Key
		want bool
	}{
		"one key":                    {key(grant.Ed25519, public), key(grant.Ed25519, public), true},
		"two keys":                   {key(grant.Ed25519, public), signers(t)[grant.Ed25519].Key(), false},
		"another algorithm":          {key(grant.Ed25519, public), key(grant.HMACSHA256, public), false},
		"one secret":                 {key(grant.HMACSHA256, secret), key(grant.HMACSHA256, secret), true},
		"a secret and zeros":         {key(grant.HMACSHA256, secret), key(grant.HMACSHA256, append(bytes.Clone(secret), 0, 0)), true},
		"a long secret and its hash": {key(grant.HMACSHA256, long), key(grant.HMACSHA256, sum[:]), true},
		"a secret and more":          {key(grant.HMACSHA256, secret), key(grant.HMACSHA256, append(bytes.Clone(secret), 1)), false},
		"the zero key":               {&grant.Key{}, &grant.Key{}, false},
	} {
		if tc.a.Same(tc.b) != tc.want || tc.b.Same(tc.a) != tc.want {
			t.Errorf("%s: want %v", name, tc.want)
		}
		// What Same says is what verifying says.
		if tc.a.Algorithm() != grant.HMACSHA256 || tc.b.Algorithm() != grant.HMACSHA256 {
			continue
		}
		s, err := grant.NewHMACSigner("k", tc.a.Material())
		if err != nil {
			t.Fatal(err)
		}
		env, err := s.Sign("t", []byte("p"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := grant.ParseEnvelope(env)
		if err != nil {
			t.Fatal(err)
		}
		if verifies := tc.b.Verify("t", []byte("p"), e.Signatures[0].Sig) == nil; verifies != tc.want {
			t.Errorf("%s: verifies %v, want %v", name, verifies, tc.want)
		}
	}
}

// A private key whose public half is another's gives itself away by signing.
func TestSignersRefused(t *testing.T) {
	_, a, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, b, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mixed := append(bytes.Clone(a[:ed25519.SeedSize]), b[ed25519.SeedSize:]...)
	c, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	crossed := *c
	crossed.PublicKey = d.PublicKey
	for name, make := range map[string]func() (*grant.Signer, error){
		"Ed25519, short":   func() (*grant.Signer, error) { return grant.NewEd25519Signer("k", a[:40]) },
		"Ed25519, nil":     func() (*grant.Signer, error) { return grant.NewEd25519Signer("k", nil) },
		"Ed25519, mixed":   func() (*grant.Signer, error) { return grant.NewEd25519Signer("k", mixed) },
		"ECDSA, nil":       func() (*grant.Signer, error) { return grant.NewECDSASigner("k", nil) },
		"ECDSA, zero":      func() (*grant.Signer, error) { return grant.NewECDSASigner("k", &ecdsa.PrivateKey{}) },
		"ECDSA, P-384":     func() (*grant.Signer, error) { return grant.NewECDSASigner("k", p384) },
		"ECDSA, mixed":     func() (*grant.Signer, error) { return grant.NewECDSASigner("k", &crossed) },
		"an ID with space": func() (*grant.Signer, error) { return grant.NewEd25519Signer("k k", a) },
	} {
		if s, err := make(); !errors.Is(err, sdk.ErrInvalid) || s != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The signer keeps a copy: a caller may wipe its own.
	s, err := grant.NewEd25519Signer("k", a)
	if err != nil {
		t.Fatal(err)
	}
	clear(a)
	env, err := s.Sign("t", []byte("p"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := grant.ParseEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Key().Verify(e.PayloadType, e.Payload, e.Signatures[0].Sig); err != nil {
		t.Errorf("after the caller wiped its key: %v", err)
	}
}
