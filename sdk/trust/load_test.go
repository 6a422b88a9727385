package trust_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
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
		"generation number":     {func(b tree) { b["generation"] = 4 }, sdk.ErrInvalid, "generation"},
		"generation too high":   {func(b tree) { b["generation"] = "9223372036854775808" }, sdk.ErrInvalid, "generation"},
		"policy too high":       {func(b tree) { b["policyGenerations"] = []any{"9223372036854775808"} }, sdk.ErrInvalid, "policyGenerations[0]"},
		"policy 0":              {func(b tree) { b["policyGenerations"] = []any{"0", "1"} }, sdk.ErrInvalid, "policyGenerations[0]"},
		"long number":           {func(b tree) { b["generation"] = strings.Repeat("9", 5000) }, sdk.ErrInvalid, "generation"},
		"no skew":               {func(b tree) { delete(b, "skewMillis") }, sdk.ErrInvalid, "skewMillis"},
		"no minimum epoch":      {func(b tree) { delete(iss(b, 1), "minEpoch") }, sdk.ErrInvalid, "issuers[1].minEpoch"},
		"no revoked epochs":     {func(b tree) { delete(iss(b, 1), "revokedEpochs") }, sdk.ErrInvalid, "issuers[1].revokedEpochs"},
		"revoked epochs null":   {func(b tree) { iss(b, 1)["revokedEpochs"] = nil }, sdk.ErrInvalid, "issuers[1].revokedEpochs"},
		"no keys":               {func(b tree) { delete(iss(b, 0), "keys") }, sdk.ErrInvalid, "issuers[0].keys"},
		"no epoch of a key":     {func(b tree) { delete(key(b, 0), "epoch") }, sdk.ErrInvalid, "issuers[0].keys[0].epoch"},
		"embedded private key":  {func(b tree) { key(b, 0)["private"] = "AAAA" }, sdk.ErrInvalid, "issuers[0].keys[0].private"},
		"field in another case": {func(b tree) { key(b, 0)["KeyID"] = "k" }, sdk.ErrInvalid, "issuers[0].keys[0].KeyID"},
		"secret is a public key": {func(b tree) {
			delete(key(b, 1), "public")
			key(b, 1)["alg"], key(b, 1)["secret"] = "hmac-sha256", key(b, 0)["public"]
		}, sdk.ErrUnsuitable, "issuers[1].keys[0].secret"},
		"secret is a public key's text": {func(b tree) {
			delete(key(b, 1), "public")
			key(b, 1)["alg"], key(b, 1)["secret"] = "hmac-sha256", base64.StdEncoding.EncodeToString([]byte(key(b, 0)["public"].(string)))
		}, sdk.ErrUnsuitable, "issuers[1].keys[0].secret"},
		"secret is a root's public key": {func(b tree) {
			delete(key(b, 1), "public")
			key(b, 1)["alg"], key(b, 1)["secret"] = "hmac-sha256", root(b, 0)["public"]
		}, sdk.ErrUnsuitable, "issuers[1].keys[0].secret"},
		"no audience":           {func(b tree) { b["audience"] = "" }, sdk.ErrInvalid, "audience"},
		"no policies":           {func(b tree) { b["policyGenerations"] = []any{} }, sdk.ErrInvalid, "policyGenerations"},
		"policies descending":   {func(b tree) { b["policyGenerations"] = []any{"13", "12"} }, sdk.ErrInvalid, "policyGenerations[1]"},
		"policy twice":          {func(b tree) { b["policyGenerations"] = []any{"13", "13"} }, sdk.ErrInvalid, "policyGenerations[1]"},
		"skew is the life":      {func(b tree) { b["skewMillis"] = "60000" }, sdk.ErrUnsuitable, "skewMillis"},
		"skew above the life":   {func(b tree) { b["maxProofMillis"] = "500" }, sdk.ErrUnsuitable, "skewMillis"},
		"life above a minute":   {func(b tree) { b["maxProofMillis"] = "60001" }, sdk.ErrUnsuitable, "maxProofMillis"},
		"no issuers":            {func(b tree) { b["issuers"] = []any{} }, sdk.ErrInvalid, "issuers"},
		"issuer twice":          {func(b tree) { iss(b, 1)["issuer"] = "a" }, sdk.ErrInvalid, "issuers[1].issuer"},
		"no patterns":           {func(b tree) { iss(b, 0)["resources"] = []any{} }, sdk.ErrInvalid, "issuers[0].resources"},
		"bad pattern":           {func(b tree) { iss(b, 0)["resources"] = []any{"a/**/b"} }, sdk.ErrInvalid, "issuers[0].resources[0]"},
		"overlapping":           {func(b tree) { iss(b, 1)["resources"] = []any{"b/*", "*/x"} }, sdk.ErrUnsuitable, "issuers[1].resources[1]"},
		"all for one":           {func(b tree) { iss(b, 1)["resources"] = []any{"**"} }, sdk.ErrUnsuitable, "issuers[1].resources[0]"},
		"unknown field":         {func(b tree) { b["x"] = 1 }, sdk.ErrInvalid, "x"},
		"key ID with a path":    {func(b tree) { key(b, 0)["keyid"] = "../k" }, sdk.ErrInvalid, "issuers[0].keys[0].keyid"},
		"key ID twice":          {func(b tree) { key(b, 1)["keyid"] = "a-1" }, sdk.ErrInvalid, "issuers[1].keys[0].keyid"},
		"one key for two":       {func(b tree) { key(b, 1)["public"] = key(b, 0)["public"] }, sdk.ErrUnsuitable, "issuers[1].keys[0]"},
		"root is an issuer key": {func(b tree) { root(b, 2)["public"] = key(b, 0)["public"] }, sdk.ErrUnsuitable, "rootKeys[2]"},
		"alg none":              {func(b tree) { key(b, 0)["alg"] = "none" }, sdk.ErrInvalid, "issuers[0].keys[0].alg"},
		"secret and public":     {func(b tree) { key(b, 0)["secret"] = "AAAA" }, sdk.ErrInvalid, "issuers[0].keys[0].public"},
		"short secret": {func(b tree) {
			delete(key(b, 0), "public")
			key(b, 0)["alg"], key(b, 0)["secret"] = "hmac-sha256", "c2hvcnQ="
		}, sdk.ErrUnsuitable, "issuers[0].keys[0].secret"},
		"HMAC with public":     {func(b tree) { key(b, 0)["alg"] = "hmac-sha256" }, sdk.ErrInvalid, "issuers[0].keys[0].secret"},
		"small order":          {func(b tree) { key(b, 0)["public"] = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }, sdk.ErrUnsuitable, "issuers[0].keys[0].public"},
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
