package grant_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/google/go-cmp/cmp"
)

func sample() grant.Grant {
	return grant.Grant{Audience: "dynamodb:settlement", Resource: "invoice-batch/2026-07-19", Owner: "worker-7", RequestID: "req-1",
		Lease: "lease-91", Category: "settle", Root: sdk.SumDigest([]byte("job")), Fence: 8842, Backend: "etcd", BackendRevision: 1920184,
		PolicyGeneration: 12, Issuer: "registry-a", IssuerEpoch: 37, TTL: 10 * time.Second, IssuedAt: time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC)}
}

func sampleProof() grant.Proof {
	g := sample()
	return grant.Proof{Grant: sdk.SumDigest([]byte("grant")), Resource: g.Resource, Fence: g.Fence, State: grant.StateHeld, BackendRevision: 1,
		Issuer: g.Issuer, IssuerEpoch: g.IssuerEpoch, IssuedAt: g.IssuedAt, ExpiresAt: g.IssuedAt.Add(5 * time.Second)}
}

func TestRoundTrip(t *testing.T) {
	g := sample()
	g.Fence = sdk.MaxToken
	b, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := grant.ParseGrant(b)
	if diff := cmp.Diff(&g, back); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	p := sampleProof()
	if b, err = p.Encode(); err != nil {
		t.Fatal(err)
	}
	pback, err := grant.ParseProof(b)
	if diff := cmp.Diff(&p, pback); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// edit parses JSON, replaces a field's raw text, and writes it again.
func edit(t *testing.T, b []byte, field, raw string) []byte {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if _, ok := m[field]; !ok {
		t.Fatalf("no field %q", field)
	}
	var out []string
	for k, v := range m {
		if k == field {
			v = json.RawMessage(raw)
		}
		out = append(out, fmt.Sprintf("%q:%s", k, v))
	}
	return []byte("{" + strings.Join(out, ",") + "}")
}

// C14, C15, C39, C91, C92: every field, every kind of damage, is MALFORMED and
// names the field.
func TestParseGrantRefuses(t *testing.T) {
	g := sample()
	good, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	long := `"` + strings.Repeat("x", 257) + `"`
	for field, raws := range map[string][]string{
		"schema":           {`"lockGrant.v2"`, `""`, `null`, `1`},
		"audience":         {`""`, `null`, long, `"a\u0000"`, `1`},
		"resource":         {`""`, `"a//b"`, `"a/b/"`, `"acct/x/%2E%2E/a/b"`, `"acct/a/b%3Bv=1"`, `"acct/a%252Fb"`, `"cafe\u0301"`, `"\u212a"`},
		"owner":            {`""`, long, `"a\nb"`},
		"requestId":        {`""`, long},
		"lease":            {`""`, long},
		"category":         {`""`, long},
		"operationRoot":    {`""`, `"sha256:00"`, `"sha256:` + strings.Repeat("0", 64) + `"`, `"sha256:` + strings.Repeat("A", 64) + `"`},
		"fenceToken":       {`"0"`, `"-1"`, `"9223372036854775808"`, `"01"`, `"+1"`, `"1e3"`, `"1.0"`, `""`, `" 1"`, `1`, `null`},
		"backend":          {`""`, long},
		"backendRevision":  {`""`, `"-1"`, `1`, `"18446744073709551616"`},
		"policyGeneration": {`""`, `"x"`},
		"issuer":           {`""`, long},
		"issuerEpoch":      {`""`, `"1.5"`},
		"ttlMillis":        {`""`, `"0"`, `"86400001"`, `10000`},
		"issuedAt":         {`""`, `"2026-07-19T10:00:00+00:00"`, `"2026-07-19T10:00:00.0Z"`, `"2026-07-19T10:00:00,0Z"`, `"2026-07-32T10:00:00Z"`, `"2026-07-19T24:00:00Z"`, `"2026-07-19 10:00:00Z"`, `1`},
	} {
		for _, raw := range raws {
			_, err := grant.ParseGrant(edit(t, good, field, raw))
			var e *sdk.Error
			if !errors.As(err, &e) || e.Code != sdk.Malformed || e.Msg == "" {
				t.Errorf("%s = %s: %v, want MALFORMED", field, raw, err)
			} else if raw[0] == '"' && e.Field != field {
				t.Errorf("%s = %s: the error names %q", field, raw, e.Field)
			}
		}
	}
	for _, text := range []string{"", "{}", "[]", "null", "{", string(good) + " {}", string(good[:len(good)-1]) + `,"x":"1"}`,
		string(good[:len(good)-1]) + `,"fenceToken":"99"}`, string(good[:len(good)-1]) + `,"FenceToken":"99"}`,
		strings.Replace(string(good), `"schema"`, `"\u017fchema"`, 1), strings.Replace(string(good), "worker-7", "worker-\xff", 1)} {
		if _, err := grant.ParseGrant([]byte(text)); !errors.Is(err, sdk.ErrMalformed) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, change := range map[string]func(*grant.Grant){
		"fence 0":       func(g *grant.Grant) { g.Fence = 0 },
		"half a second": func(g *grant.Grant) { g.IssuedAt = g.IssuedAt.Add(time.Second / 2) },
		"microseconds":  func(g *grant.Grant) { g.TTL = 1500 * time.Microsecond },
		"no owner":      func(g *grant.Grant) { g.Owner = "" },
		"bad UTF-8":     func(g *grant.Grant) { g.Owner = "\xff" },
	} {
		g := sample()
		change(&g)
		if _, err := g.Encode(); !errors.Is(err, sdk.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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
		"huge":          {"k", grant.HMACSHA256, make([]byte, 4096), sdk.ErrInvalid},
	} {
		if _, err := grant.NewKey(tc.id, tc.alg, tc.material); !errors.Is(err, tc.want) {
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
