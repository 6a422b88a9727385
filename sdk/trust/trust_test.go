package trust_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

// tree is a bundle as loose JSON, to be bent.
type tree = map[string]any

func newSigner(t testing.TB, id string) *grant.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := grant.NewEd25519Signer(id, private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func public(s *grant.Signer) string { return base64.StdEncoding.EncodeToString(s.Public()) }

func issuer(name, pattern string, s *grant.Signer) tree {
	return tree{"issuer": name, "resources": []any{pattern}, "minEpoch": "1", "revokedEpochs": []any{},
		"keys": []any{tree{"keyid": s.Key().ID(), "alg": "ed25519", "epoch": "1", "public": public(s)}}}
}

// good is a bundle with two issuers and three root keys, two of which must sign.
func good(t testing.TB, roots []*grant.Signer) tree {
	t.Helper()
	b := tree{"generation": "4", "audience": "sqlite:a", "policyGenerations": []any{"12", "13"}, "skewMillis": "1000", "maxProofMillis": "60000",
		"issuers": []any{issuer("a", "a/**", newSigner(t, "a-1")), issuer("b", "b/*", newSigner(t, "b-1"))}}
	var list []any
	for _, r := range roots {
		list = append(list, tree{"keyid": r.Key().ID(), "alg": "ed25519", "public": public(r)})
	}
	if list != nil {
		b["rootKeys"], b["rootThreshold"] = list, "2"
	}
	return b
}

func encode(t testing.TB, b tree) []byte {
	t.Helper()
	out, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func roots(t testing.TB) []*grant.Signer {
	return []*grant.Signer{newSigner(t, "root-1"), newSigner(t, "root-2"), newSigner(t, "root-3")}
}

func TestLoadRefuses(t *testing.T) {
	iss := func(b tree, i int) tree { return b["issuers"].([]any)[i].(tree) }
	key := func(b tree, i int) tree { return iss(b, i)["keys"].([]any)[0].(tree) }
	root := func(b tree, i int) tree { return b["rootKeys"].([]any)[i].(tree) }
	for name, tc := range map[string]struct {
		change func(b tree)
		want   error
		field  string
	}{
		"generation 0":          {func(b tree) { b["generation"] = "0" }, sdk.ErrInvalid, "generation"},
		"generation number":     {func(b tree) { b["generation"] = 4 }, sdk.ErrInvalid, "trust bundle"},
		"no audience":           {func(b tree) { b["audience"] = "" }, sdk.ErrInvalid, "audience"},
		"no policies":           {func(b tree) { b["policyGenerations"] = []any{} }, sdk.ErrInvalid, "policyGenerations"},
		"policies descending":   {func(b tree) { b["policyGenerations"] = []any{"13", "12"} }, sdk.ErrInvalid, "policyGenerations"},
		"policy twice":          {func(b tree) { b["policyGenerations"] = []any{"13", "13"} }, sdk.ErrInvalid, "policyGenerations"},
		"skew is the life":      {func(b tree) { b["skewMillis"] = "60000" }, sdk.ErrUnsuitable, "skewMillis"},
		"skew above the life":   {func(b tree) { b["maxProofMillis"] = "500" }, sdk.ErrUnsuitable, "skewMillis"},
		"life above a minute":   {func(b tree) { b["maxProofMillis"] = "60001" }, sdk.ErrInvalid, "maxProofMillis"},
		"no issuers":            {func(b tree) { b["issuers"] = []any{} }, sdk.ErrInvalid, "issuers"},
		"issuer twice":          {func(b tree) { iss(b, 1)["issuer"] = "a" }, sdk.ErrInvalid, "issuers[1].issuer"},
		"no patterns":           {func(b tree) { iss(b, 0)["resources"] = []any{} }, sdk.ErrInvalid, "issuers[0].resources"},
		"bad pattern":           {func(b tree) { iss(b, 0)["resources"] = []any{"a/**/b"} }, sdk.ErrInvalid, "issuers[0].resources[0]"},
		"overlapping":           {func(b tree) { iss(b, 1)["resources"] = []any{"b/*", "*/x"} }, sdk.ErrUnsuitable, "issuers"},
		"all for one":           {func(b tree) { iss(b, 1)["resources"] = []any{"**"} }, sdk.ErrUnsuitable, "issuers"},
		"unknown field":         {func(b tree) { b["x"] = 1 }, sdk.ErrInvalid, "trust bundle"},
		"key ID with a path":    {func(b tree) { key(b, 0)["keyid"] = "../k" }, sdk.ErrInvalid, "issuers[0].keys[0]"},
		"key ID twice":          {func(b tree) { key(b, 1)["keyid"] = "a-1" }, sdk.ErrInvalid, "issuers[1].keys[0].keyid"},
		"one key for two":       {func(b tree) { key(b, 1)["public"] = key(b, 0)["public"] }, sdk.ErrUnsuitable, "issuers[1].keys[0]"},
		"root is an issuer key": {func(b tree) { root(b, 2)["public"] = key(b, 0)["public"] }, sdk.ErrUnsuitable, "rootKeys[2]"},
		"alg none":              {func(b tree) { key(b, 0)["alg"] = "none" }, sdk.ErrInvalid, "issuers[0].keys[0]"},
		"secret and public":     {func(b tree) { key(b, 0)["secret"] = "AAAA" }, sdk.ErrInvalid, "issuers[0].keys[0].public"},
		"short secret": {func(b tree) {
			delete(key(b, 0), "public")
			key(b, 0)["alg"], key(b, 0)["secret"] = "hmac-sha256", "c2hvcnQ="
		}, sdk.ErrUnsuitable, "issuers[0].keys[0]"},
		"HMAC with public":     {func(b tree) { key(b, 0)["alg"] = "hmac-sha256" }, sdk.ErrInvalid, "issuers[0].keys[0].secret"},
		"small order":          {func(b tree) { key(b, 0)["public"] = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }, sdk.ErrUnsuitable, "issuers[0].keys[0]"},
		"base64 with line end": {func(b tree) { key(b, 0)["public"] = key(b, 0)["public"].(string) + "\n" }, sdk.ErrInvalid, "issuers[0].keys[0].public"},
		"threshold above":      {func(b tree) { b["rootThreshold"] = "4" }, sdk.ErrInvalid, "rootThreshold"},
		"threshold 0":          {func(b tree) { b["rootThreshold"] = "0" }, sdk.ErrInvalid, "rootThreshold"},
		"no threshold":         {func(b tree) { delete(b, "rootThreshold") }, sdk.ErrInvalid, "rootThreshold"},
		"HMAC root":            {func(b tree) { root(b, 0)["alg"] = "hmac-sha256" }, sdk.ErrUnsuitable, "rootKeys[0].alg"},
	} {
		t.Run(name, func(t *testing.T) {
			b := good(t, roots(t))
			if _, err := trust.Load(encode(t, b)); err != nil {
				t.Fatalf("the good bundle: %v", err)
			}
			tc.change(b)
			_, err := trust.Load(encode(t, b))
			var e *sdk.Error
			if !errors.Is(err, tc.want) || !errors.As(err, &e) || e.Field != tc.field {
				t.Errorf("got %v, want %v at %s", err, tc.want, tc.field)
			}
		})
	}
	text := string(encode(t, good(t, nil)))
	for _, bad := range []string{"", "null", "[]", "{", text + text, strings.Replace(text, `"audience"`, `"audience":"x","audience"`, 1), strings.Replace(text, `"audience"`, `"Audience"`, 1)} {
		if _, err := trust.Load([]byte(bad)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%.40s: %v", bad, err)
		}
	}
	if _, err := trust.Load(make([]byte, trust.MaxBundleBytes+1)); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("too long: %v", err)
	}
}

func TestRotate(t *testing.T) {
	rs := roots(t)
	stranger := newSigner(t, "root-1")
	first := good(t, rs)
	bundle, err := trust.Load(encode(t, first))
	if err != nil {
		t.Fatal(err)
	}
	next := func(change func(b tree)) []byte {
		b := good(t, rs)
		b["generation"] = "5"
		change(b)
		return encode(t, b)
	}
	same := func(tree) {}
	for name, tc := range map[string]struct {
		bundle []byte
		sign   []*grant.Signer
		want   error
	}{
		"two of three":        {next(same), rs[:2], nil},
		"all":                 {next(same), rs, nil},
		"one":                 {next(same), rs[:1], sdk.ErrUnauthenticated},
		"one, twice":          {next(same), []*grant.Signer{rs[0], rs[0]}, sdk.ErrUnauthenticated},
		"one and a stranger":  {next(same), []*grant.Signer{rs[1], stranger}, sdk.ErrUnauthenticated},
		"same generation":     {next(func(b tree) { b["generation"] = "4" }), rs, sdk.ErrPolicyStale},
		"rolled back":         {next(func(b tree) { b["generation"] = "3" }), rs, sdk.ErrPolicyStale},
		"skipped":             {next(func(b tree) { b["generation"] = "6" }), rs, sdk.ErrPolicyStale},
		"for another gate":    {next(func(b tree) { b["audience"] = "x" }), rs, sdk.ErrResourceMismatch},
		"with new root keys":  {encode(t, func() tree { b := good(t, roots(t)); b["generation"] = "5"; return b }()), rs[1:], nil},
		"signed by new roots": {next(func(b tree) {}), roots(t), sdk.ErrUnauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			env, err := grant.SignAll(trust.BundleType, tc.bundle, tc.sign...)
			if err != nil {
				t.Fatal(err)
			}
			h := trust.NewHolder(bundle)
			err = h.Rotate(env)
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if changed := h.Bundle().Generation() == 5; changed != (tc.want == nil) {
				t.Errorf("in force is generation %d", h.Bundle().Generation())
			}
		})
	}
	wrongType, err := grant.SignAll(grant.GrantType, next(same), rs...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Rotate(wrongType); !errors.Is(err, sdk.ErrUnauthenticated) {
		t.Errorf("signed as another type: %v", err)
	}
	weak, err := grant.SignAll(trust.BundleType, next(func(b tree) { b["skewMillis"] = "60000" }), rs...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Rotate(weak); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("a bundle that cannot keep the laws: %v", err)
	}
	if _, err := trust.SignRotation([]byte("{}"), rs...); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("signing no bundle: %v", err)
	}
	fixed, err := trust.Load(encode(t, good(t, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fixed.Rotate(wrongType); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("a bundle without root keys: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	b, err := os.ReadFile("../gate/testdata/trust.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(encode(f, good(f, roots(f))))
	f.Fuzz(func(t *testing.T, b []byte) {
		bundle, err := trust.Load(b)
		if err == nil && (bundle.Skew() >= bundle.MaxProof() || bundle.MaxProof() > trust.MaxProofLife || bundle.Generation() == 0 || bundle.Audience() == "") {
			t.Errorf("loaded %s", b)
		}
	})
}

func BenchmarkVerifyGrant(b *testing.B) {
	signer := newSigner(b, "a-1")
	t := good(b, nil)
	t["issuers"] = []any{issuer("a", "**", signer)}
	bundle, err := trust.Load(encode(b, t))
	if err != nil {
		b.Fatal(err)
	}
	g := grant.Grant{Audience: "sqlite:a", Resource: "a/b", Owner: "w", RequestID: "r", Lease: "l", Category: "c", Root: sdk.SumDigest(nil), Fence: 1,
		Backend: "x", PolicyGeneration: 12, Issuer: "a", IssuerEpoch: 1, TTL: 1e9}
	payload, err := g.Encode()
	if err != nil {
		b.Fatal(err)
	}
	env, err := signer.Sign(grant.GrantType, payload)
	if err != nil {
		b.Fatal(err)
	}
	e, err := grant.ParseEnvelope(env)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("grant", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := bundle.VerifyGrant(env); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare-ed25519", func(b *testing.B) {
		pae, pub := grant.PAE(e.PayloadType, e.Payload), ed25519.PublicKey(signer.Public())
		for b.Loop() {
			if !ed25519.Verify(pub, pae, e.Signatures[0].Sig) {
				b.Fatal("does not verify")
			}
		}
	})
}

func ExampleHolder_Rotate() {
	b, err := os.ReadFile("../gate/testdata/trust.json")
	if err != nil {
		panic(err)
	}
	bundle, err := trust.Load(b)
	if err != nil {
		panic(err)
	}
	h := trust.NewHolder(bundle)
	// A bundle without root keys is replaced by hand only.
	fmt.Println(sdk.CodeOf(h.Rotate([]byte("{}"))), h.Bundle().Generation())
	// Output: UNSUITABLE 4
}
