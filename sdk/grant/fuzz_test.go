package grant_test

import (
	"testing"

	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/google/go-cmp/cmp"
)

func FuzzParseEnvelope(f *testing.F) {
	f.Add([]byte(`{"payloadType":"t","payload":"cGF5","signatures":[{"keyid":"k","sig":"c2ln"}]}`))
	f.Add([]byte(`{"payloadType":"t","payload":"cG\nF5","signatures":[{"keyid":"k","sig":""}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := grant.ParseEnvelope(b)
		if err != nil {
			return
		}
		again, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := grant.ParseEnvelope(again)
		if diff := cmp.Diff(e, back); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func FuzzParseGrant(f *testing.F) {
	g := sample()
	b, err := g.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := grant.ParseGrant(b)
		if err != nil {
			return
		}
		again, err := g.Encode()
		if err != nil {
			t.Fatalf("parsed and not encoded: %v", err)
		}
		back, err := grant.ParseGrant(again)
		if diff := cmp.Diff(g, back); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func FuzzParseProof(f *testing.F) {
	p := sampleProof()
	b, err := p.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := grant.ParseProof(b)
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatalf("parsed and not encoded: %v", err)
		}
		back, err := grant.ParseProof(again)
		if diff := cmp.Diff(p, back); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

// What can be loaded as a key can be asked, and refuses what it never signed.
func FuzzNewKey(f *testing.F) {
	for _, s := range signers(f) {
		f.Add(string(s.Key().Algorithm()), s.Key().Material(), []byte("sig"))
	}
	f.Fuzz(func(t *testing.T, alg string, material, sig []byte) {
		k, err := grant.NewKey("k", grant.Algorithm(alg), material)
		if err != nil {
			if k != nil {
				t.Error("an error, and yet a key")
			}
			return
		}
		if k.Verify("t", []byte("never signed"), sig) == nil {
			t.Errorf("%s %x: verifies %x", alg, material, sig)
		}
		again, err := grant.NewKey("other", k.Algorithm(), k.Material())
		if err != nil || !again.Same(k) {
			t.Errorf("%s %x: %v", alg, material, err)
		}
	})
}
