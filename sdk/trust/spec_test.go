package trust_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
	"github.com/google/go-cmp/cmp"
)

var compareKeys = cmp.Comparer(func(a, b *grant.Key) bool { return a.ID() == b.ID() && a.Same(b) })

func load(t testing.TB, b []byte) *trust.Bundle {
	t.Helper()
	bundle, err := trust.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func TestSpecRoundTrip(t *testing.T) {
	file, err := os.ReadFile("../gate/testdata/trust.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"vectors": file, "with roots": encode(t, good(t, roots(t)))} {
		bundle := load(t, text)
		out, err := bundle.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back := load(t, out)
		if diff := cmp.Diff(bundle.Spec(), back.Spec(), compareKeys); diff != "" {
			t.Errorf("%s: encoded and loaded again:\n%s", name, diff)
		}
		made, err := trust.New(bundle.Spec())
		if err != nil {
			t.Fatal(err)
		}
		again, err := made.Encode()
		if err != nil || !bytes.Equal(again, out) {
			t.Errorf("%s: %v, encodes otherwise:\n%s\n%s", name, err, out, again)
		}
	}
}

// The bundle stays as it is, whatever is done to what it gave out.
func TestBundleDoesNotChange(t *testing.T) {
	bundle := load(t, encode(t, good(t, roots(t))))
	before, err := bundle.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s := bundle.Spec()
	s.Audience, s.PolicyGenerations[0], s.RootKeys[0] = "x", 1, nil
	s.Issuers[0].Resources[0], s.Issuers[0].Keys[0] = "**", trust.IssuerKey{}
	s.Issuers[0].Name = "x"
	bundle.PolicyGenerations()[0] = 1
	bundle.Spec().Issuers[1].Keys[0].Key.Material()[0] ^= 1
	after, err := bundle.Encode()
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v\n%s", err, after)
	}
}

func TestNewRefuses(t *testing.T) {
	bundle := load(t, encode(t, good(t, roots(t))))
	for name, tc := range map[string]struct {
		change func(s *trust.Spec)
		want   error
		field  string
	}{
		"nothing":       {func(s *trust.Spec) { *s = trust.Spec{} }, sdk.ErrInvalid, "generation"},
		"microseconds":  {func(s *trust.Spec) { s.Skew = time.Microsecond }, sdk.ErrInvalid, "skewMillis"},
		"negative skew": {func(s *trust.Spec) { s.Skew = -time.Second }, sdk.ErrInvalid, "skewMillis"},
		"nil key":       {func(s *trust.Spec) { s.Issuers[1].Keys[0].Key = nil }, sdk.ErrInvalid, "issuers[1].keys[0]"},
		"zero key":      {func(s *trust.Spec) { s.Issuers[1].Keys[0].Key = &grant.Key{} }, sdk.ErrInvalid, "issuers[1].keys[0].public"},
		"nil root":      {func(s *trust.Spec) { s.RootKeys[1] = nil }, sdk.ErrInvalid, "rootKeys[1]"},
		"threshold":     {func(s *trust.Spec) { s.RootThreshold = -1 }, sdk.ErrInvalid, "rootThreshold"},
		"bad UTF-8":     {func(s *trust.Spec) { s.Audience = "\xff" }, sdk.ErrInvalid, "trust bundle"},
	} {
		s := bundle.Spec()
		tc.change(&s)
		_, err := trust.New(s)
		var e *sdk.Error
		if !errors.Is(err, tc.want) || !errors.As(err, &e) || e.Field != tc.field {
			t.Errorf("%s: %v, want %v at %s", name, err, tc.want, tc.field)
		}
	}
}

func TestLimits(t *testing.T) {
	bundle := load(t, encode(t, good(t, nil)))
	for name, tc := range map[string]struct {
		patterns int
		want     error
	}{"most": {trust.MaxPatterns - 1, nil}, "more": {trust.MaxPatterns, sdk.ErrInvalid}} {
		s := bundle.Spec()
		s.Issuers[0].Resources = nil
		for n := range tc.patterns {
			s.Issuers[0].Resources = append(s.Issuers[0].Resources, fmt.Sprintf("a/%d", n))
		}
		if _, err := trust.New(s); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := good(t, nil)
	keys := make([]any, trust.MaxKeys)
	for n := range keys {
		keys[n] = tree{}
	}
	b["issuers"].([]any)[0].(tree)["keys"] = keys
	var e *sdk.Error
	if _, err := trust.Load(encode(t, b)); !errors.As(err, &e) || e.Code != sdk.Invalid || e.Field != "issuers" {
		t.Errorf("too many keys: %v", err)
	}
}

// Two spellings of one HMAC secret are one key.
func TestSecretSpeltTwice(t *testing.T) {
	bundle := load(t, encode(t, good(t, nil)))
	secret := []byte(strings.Repeat("0123456789", 4))
	a, err := grant.NewKey("mac-1", grant.HMACSHA256, secret)
	if err != nil {
		t.Fatal(err)
	}
	b, err := grant.NewKey("mac-2", grant.HMACSHA256, append(secret, 0))
	if err != nil {
		t.Fatal(err)
	}
	s := bundle.Spec()
	s.Issuers[0].Keys = append(s.Issuers[0].Keys, trust.IssuerKey{Key: a, Epoch: 1}, trust.IssuerKey{Key: b, Epoch: 2})
	if _, err := trust.New(s); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("got %v, want UNSUITABLE", err)
	}
}

// A secret shows nowhere but in Encode.
func TestSecretsStayOut(t *testing.T) {
	secret := "0123456789abcdef0123456789abcdef"
	k, err := grant.NewKey("mac", grant.HMACSHA256, []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	s := load(t, encode(t, good(t, nil))).Spec()
	s.Issuers[0].Keys[0].Key = k
	bundle, err := trust.New(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		for _, v := range []any{k, *k, s, bundle, trust.NewHolder(bundle)} {
			out := fmt.Sprintf(verb, v)
			for _, bad := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%d", []byte(secret))[1:60], "0x30, 0x31, 0x32"} {
				if strings.Contains(out, bad) {
					t.Errorf("%s of %T shows the secret: %s", verb, v, out)
				}
			}
		}
	}
}

// Keys of every algorithm survive the way through a bundle.
func TestEveryAlgorithm(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := grant.NewECDSASigner("ec", private)
	if err != nil {
		t.Fatal(err)
	}
	mac, err := grant.NewHMACSigner("mac", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	ed := newSigner(t, "ed")
	s := load(t, encode(t, good(t, nil))).Spec()
	s.Issuers[0].Keys = nil
	for _, signer := range []*grant.Signer{ed, ec, mac} {
		s.Issuers[0].Keys = append(s.Issuers[0].Keys, trust.IssuerKey{Key: signer.Key(), Epoch: 1})
	}
	bundle, err := trust.New(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, signer := range []*grant.Signer{ed, ec, mac} {
		g := issued()
		payload, err := g.Encode()
		if err != nil {
			t.Fatal(err)
		}
		envelope, err := signer.Sign(grant.GrantType, payload)
		if err != nil {
			t.Fatal(err)
		}
		got, digest, err := bundle.VerifyGrant(envelope)
		if err != nil {
			t.Fatalf("%v: %v", signer.Key(), err)
		}
		if diff := cmp.Diff(&g, got); diff != "" || digest != sdk.SumDigest(payload) {
			t.Errorf("%v: %s", signer.Key(), diff)
		}
	}
}
