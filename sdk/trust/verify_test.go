package trust_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

// issued is a grant that issuer a of the good bundle may give.
func issued() grant.Grant {
	return grant.Grant{Audience: "sqlite:a", Resource: "a/b", Owner: "w", RequestID: "r", Lease: "l", Category: "c",
		Root: sdk.SumDigest([]byte("job")), Fence: 1, Backend: "x", PolicyGeneration: 12, Issuer: "a", IssuerEpoch: 1,
		TTL: 10 * time.Second, IssuedAt: time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC)}
}

func sign(t testing.TB, s *grant.Signer, payloadType string, content interface{ Encode() ([]byte, error) }) []byte {
	t.Helper()
	payload, err := content.Encode()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := s.Sign(payloadType, payload)
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

// world is a bundle of two issuers whose signers the test has.
func world(t testing.TB) (b *trust.Bundle, a, other, root *grant.Signer) {
	t.Helper()
	a, other, root = newSigner(t, "a-1"), newSigner(t, "b-1"), newSigner(t, "root-1")
	content := good(t, []*grant.Signer{root, newSigner(t, "root-2")})
	content["issuers"] = []any{issuer("a", "a/**", a), issuer("b", "b/*", other)}
	return load(t, encode(t, content)), a, other, root
}

// C93, C94 and A1: a key speaks for its issuer, its epoch and its resources, and
// nobody but a listed issuer's key speaks at all.
func TestVerifyGrantRefuses(t *testing.T) {
	bundle, a, other, root := world(t)
	stranger := newSigner(t, "a-1")
	for name, tc := range map[string]struct {
		signer *grant.Signer
		typ    string
		change func(g *grant.Grant)
		field  string
	}{
		"good":                   {a, grant.GrantType, func(*grant.Grant) {}, ""},
		"another key, same ID":   {stranger, grant.GrantType, func(*grant.Grant) {}, "signature"},
		"other issuer's key":     {other, grant.GrantType, func(*grant.Grant) {}, "issuer"},
		"as the other issuer":    {a, grant.GrantType, func(g *grant.Grant) { g.Issuer, g.Resource = "b", "b/x" }, "issuer"},
		"other issuer's turf":    {a, grant.GrantType, func(g *grant.Grant) { g.Resource = "b/x" }, "resource"},
		"nobody's turf":          {a, grant.GrantType, func(g *grant.Grant) { g.Resource = "c" }, "resource"},
		"the pattern's own root": {a, grant.GrantType, func(g *grant.Grant) { g.Resource = "a" }, "resource"},
		"other case":             {a, grant.GrantType, func(g *grant.Grant) { g.Resource = "A/b" }, "resource"},
		"epoch above the key's":  {a, grant.GrantType, func(g *grant.Grant) { g.IssuerEpoch = 2 }, "issuerEpoch"},
		"epoch below the key's":  {a, grant.GrantType, func(g *grant.Grant) { g.IssuerEpoch = 0 }, "issuerEpoch"},
		"signed as a proof":      {a, grant.ProofType, func(*grant.Grant) {}, "payloadType"},
		"signed as a bundle":     {a, trust.BundleType, func(*grant.Grant) {}, "payloadType"},
		"a root key":             {root, grant.GrantType, func(*grant.Grant) {}, "keyid"},
	} {
		g := issued()
		tc.change(&g)
		got, digest, err := bundle.VerifyGrant(sign(t, tc.signer, tc.typ, &g))
		var e *sdk.Error
		switch {
		case tc.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.field == "":
		case !errors.As(err, &e) || e.Code != sdk.Unauthenticated || e.Field != tc.field:
			t.Errorf("%s: %v, want UNAUTHENTICATED at %s", name, err, tc.field)
		case got != nil || !digest.IsZero():
			t.Errorf("%s: an error, and yet a grant", name)
		}
	}
}

// C94: a key ID is looked up in memory and nowhere else, whatever it looks like.
func TestHostileKeyIDs(t *testing.T) {
	bundle, a, _, _ := world(t)
	g := issued()
	e, err := grant.ParseEnvelope(sign(t, a, grant.GrantType, &g))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"../../k", "http://x", strings.Repeat("k", 300), "a-1 ", "A-1", "a-1\x00", "' OR 1=1", "root-1"} {
		e.Signatures[0].KeyID = id
		b, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := bundle.VerifyGrant(b); !errors.Is(err, sdk.ErrUnauthenticated) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestVerifyProofRefuses(t *testing.T) {
	bundle, a, other, _ := world(t)
	g := issued()
	proof := grant.Proof{Grant: sdk.SumDigest(nil), Resource: g.Resource, Fence: 1, State: grant.StateHeld, Issuer: "a", IssuerEpoch: 1,
		IssuedAt: g.IssuedAt, ExpiresAt: g.IssuedAt.Add(time.Second)}
	if p, err := bundle.VerifyProof(sign(t, a, grant.ProofType, &proof)); err != nil || *p != proof {
		t.Errorf("good: %v %v", p, err)
	}
	outside := proof
	outside.Resource = "b/x"
	later := proof
	later.IssuerEpoch = 2
	for name, envelope := range map[string][]byte{
		"other issuer's key": sign(t, other, grant.ProofType, &proof),
		"outside":            sign(t, a, grant.ProofType, &outside),
		"another epoch":      sign(t, a, grant.ProofType, &later),
		"signed as a grant":  sign(t, a, grant.GrantType, &proof),
		"a grant":            sign(t, a, grant.GrantType, &g),
	} {
		if p, err := bundle.VerifyProof(envelope); !errors.Is(err, sdk.ErrUnauthenticated) || p != nil {
			t.Errorf("%s: %v %v", name, p, err)
		}
	}
	// Signed, and not a proof.
	if p, err := bundle.VerifyProof(sign(t, a, grant.ProofType, &g)); !errors.Is(err, sdk.ErrMalformed) || p != nil {
		t.Errorf("a grant signed as a proof: %v %v", p, err)
	}
}

// A6.
func TestCheckCurrent(t *testing.T) {
	bundle, _, _, _ := world(t)
	s := bundle.Spec()
	s.PolicyGenerations = []uint64{12, 14}
	s.Issuers[0].MinEpoch = 3
	s.Issuers[0].RevokedEpochs = []uint64{9, 4, 7} // in any order
	bundle, err := trust.New(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := bundle.PolicyGeneration(); got != 14 {
		t.Errorf("the current policy generation is %d", got)
	}
	for epoch, want := range map[uint64]error{0: sdk.ErrRevoked, 2: sdk.ErrRevoked, 3: nil, 4: sdk.ErrRevoked, 5: nil, 7: sdk.ErrRevoked, 8: nil, 9: sdk.ErrRevoked, 10: nil} {
		g := issued()
		g.IssuerEpoch = epoch
		if err := bundle.CheckCurrent(&g); !errors.Is(err, want) {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
	for policy, want := range map[uint64]error{0: sdk.ErrPolicyStale, 11: sdk.ErrPolicyStale, 12: nil, 13: sdk.ErrPolicyStale, 14: nil, 15: sdk.ErrPolicyStale} {
		g := issued()
		g.IssuerEpoch, g.PolicyGeneration = 3, policy
		if err := bundle.CheckCurrent(&g); !errors.Is(err, want) {
			t.Errorf("policy generation %d: %v", policy, err)
		}
	}
	g := issued()
	g.Issuer = "stranger"
	if err := bundle.CheckCurrent(&g); !errors.Is(err, sdk.ErrUnauthenticated) {
		t.Errorf("an issuer that is not listed: %v", err)
	}
}

// The zero values trust nobody, and do not panic.
func TestZeroTrustsNobody(t *testing.T) {
	_, a, _, _ := world(t)
	g := issued()
	envelope := sign(t, a, grant.GrantType, &g)
	for name, b := range map[string]*trust.Bundle{"bundle": {}, "holder": (&trust.Holder{}).Bundle()} {
		if _, _, err := b.VerifyGrant(envelope); !errors.Is(err, sdk.ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.CheckCurrent(&g); !errors.Is(err, sdk.ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.Rotate(envelope); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%s: %v", name, err)
		}
		if b.Generation() != 0 || b.PolicyGeneration() != 0 {
			t.Errorf("%s: generations %d and %d", name, b.Generation(), b.PolicyGeneration())
		}
	}
	if err := (&trust.Holder{}).Rotate(envelope); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("holder: %v", err)
	}
}
