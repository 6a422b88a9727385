package grant_test

import (
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
			} else if e.Field != field {
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
		if b, err := g.Encode(); !errors.Is(err, sdk.ErrMalformed) || b != nil {
			t.Errorf("%s: %s %v", name, b, err)
		}
	}
	for name, change := range map[string]func(*grant.Proof){
		"no grant":    func(p *grant.Proof) { p.Grant = sdk.Digest{} },
		"no state":    func(p *grant.Proof) { p.State = "" },
		"long state":  func(p *grant.Proof) { p.State = grant.State(strings.Repeat("x", 257)) },
		"a fraction":  func(p *grant.Proof) { p.ExpiresAt = p.ExpiresAt.Add(1) },
		"year 10,000": func(p *grant.Proof) { p.ExpiresAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"bad UTF-8":   func(p *grant.Proof) { p.Issuer = "\xff" },
	} {
		p := sampleProof()
		change(&p)
		if b, err := p.Encode(); !errors.Is(err, sdk.ErrMalformed) || b != nil {
			t.Errorf("proof, %s: %s %v", name, b, err)
		}
	}
}

// Any other name of a state is content, and not HELD; the gate says NOT_HELD.
func TestStatesAreKept(t *testing.T) {
	for _, state := range []grant.State{"held", "UNKNOWN", "HELD ", "x"} {
		p := sampleProof()
		p.State = state
		b, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := grant.ParseProof(b); err != nil || back.State != state || back.State == grant.StateHeld {
			t.Errorf("%q: %v %v", state, back, err)
		}
	}
}

// C14, C92: neighbours beyond 2^53 are different grants with different digests.
func TestExactIntegers(t *testing.T) {
	for _, pair := range [][2]sdk.Token{{9007199254740992, 9007199254740993}, {1152921504606846976, 1152921504606847000}, {sdk.MaxToken - 1, sdk.MaxToken}} {
		seen := map[sdk.Digest]bool{}
		for _, token := range pair {
			g := sample()
			g.Fence = token
			b, err := g.Encode()
			if err != nil {
				t.Fatal(err)
			}
			back, err := grant.ParseGrant(b)
			if err != nil || back.Fence != token {
				t.Errorf("%d: %v %v", token, back, err)
			}
			seen[sdk.SumDigest(b)] = true
		}
		if len(seen) != 2 {
			t.Errorf("%v share a digest", pair)
		}
	}
}

// Each field of a proof, in every kind of damage.
func TestParseProofRefuses(t *testing.T) {
	p := sampleProof()
	good, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for field, raws := range map[string][]string{
		"schema":          {`"lockGrant.v1"`, `null`},
		"grantDigest":     {`""`, `null`, `"sha256:` + strings.Repeat("0", 64) + `"`},
		"resource":        {`"a//b"`, `"cafe\u0301"`, `null`},
		"fenceToken":      {`"0"`, `1`, `"9223372036854775808"`},
		"state":           {`""`, `null`, `"HELD\u0000"`},
		"backendRevision": {`null`, `"-1"`},
		"issuer":          {`""`, `null`},
		"issuerEpoch":     {`null`, `"01"`},
		"issuedAt":        {`null`, `"2026-07-19T10:00:00.5Z"`, `"2026-07-19T10:00:00+02:00"`, `"2026-07-19t10:00:00z"`},
		"expiresAt":       {`null`, `"2026-02-30T10:00:00Z"`, `"2026-07-19T23:59:60Z"`},
	} {
		for _, raw := range raws {
			var e *sdk.Error
			if _, err := grant.ParseProof(edit(t, good, field, raw)); !errors.As(err, &e) || e.Code != sdk.Malformed || e.Field != field {
				t.Errorf("%s = %s: %v, want MALFORMED at %s", field, raw, err, field)
			}
		}
	}
}
