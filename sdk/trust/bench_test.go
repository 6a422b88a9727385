package trust_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"testing"

	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

// Verifying a grant that was not seen before, beside the bare signature, per
// algorithm.
func BenchmarkVerifyGrant(b *testing.B) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	ec, err := grant.NewECDSASigner("ec", private)
	if err != nil {
		b.Fatal(err)
	}
	secret := []byte("0123456789abcdef0123456789abcdef")
	mac, err := grant.NewHMACSigner("mac", secret)
	if err != nil {
		b.Fatal(err)
	}
	ed := newSigner(b, "ed")
	s := load(b, encode(b, good(b, nil))).Spec()
	s.Issuers[0].Keys = nil
	for _, signer := range []*grant.Signer{ed, ec, mac} {
		s.Issuers[0].Keys = append(s.Issuers[0].Keys, trust.IssuerKey{Key: signer.Key(), Epoch: 1})
	}
	bundle, err := trust.New(s)
	if err != nil {
		b.Fatal(err)
	}
	public := ed25519.PublicKey(ed.Key().Material())
	for _, tc := range []struct {
		name   string
		signer *grant.Signer
		bare   func(pae, sig []byte) bool
	}{
		{"ed25519", ed, func(pae, sig []byte) bool { return ed25519.Verify(public, pae, sig) }},
		{"ecdsa", ec, func(pae, sig []byte) bool {
			sum := sha256.Sum256(pae)
			return ecdsa.VerifyASN1(&private.PublicKey, sum[:], sig)
		}},
		{"hmac", mac, func(pae, sig []byte) bool {
			h := hmac.New(sha256.New, secret)
			h.Write(pae)
			return hmac.Equal(h.Sum(nil), sig)
		}},
	} {
		g := issued()
		envelope := sign(b, tc.signer, grant.GrantType, &g)
		e, err := grant.ParseEnvelope(envelope)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(tc.name+"/verify", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := bundle.VerifyGrant(envelope); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(tc.name+"/bare", func(b *testing.B) {
			b.ReportAllocs()
			pae := grant.PAE(e.PayloadType, e.Payload)
			for b.Loop() {
				if !tc.bare(pae, e.Signatures[0].Sig) {
					b.Fatal("does not verify")
				}
			}
		})
	}
}

func TestVerifyGrantAllocations(t *testing.T) {
	bundle, a, _, _ := world(t)
	g := issued()
	envelope := sign(t, a, grant.GrantType, &g)
	allocs := testing.AllocsPerRun(100, func() {
		if _, _, err := bundle.VerifyGrant(envelope); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 32 { // 13 without the race detector
		t.Errorf("%v allocations", allocs)
	}
	if allocs := testing.AllocsPerRun(100, func() {
		if err := bundle.CheckCurrent(&g); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("CheckCurrent: %v allocations", allocs)
	}
}
