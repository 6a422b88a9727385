package trust_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/trust"
	"github.com/google/go-cmp/cmp"
)

// What loads keeps the laws, and is the same after it was written and read.
func FuzzLoad(f *testing.F) {
	b, err := os.ReadFile("../gate/testdata/trust.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(encode(f, good(f, roots(f))))
	f.Fuzz(func(t *testing.T, b []byte) {
		bundle, err := trust.Load(b)
		if err != nil {
			if code := sdk.CodeOf(err); code != sdk.Invalid && code != sdk.Unsuitable {
				t.Errorf("%v", err)
			}
			return
		}
		if bundle.Skew() >= bundle.MaxProof() || bundle.MaxProof() > trust.MaxProofLife || bundle.Generation() == 0 || bundle.Audience() == "" || bundle.PolicyGeneration() == 0 {
			t.Errorf("loaded %s", b)
		}
		out, err := bundle.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := trust.Load(out)
		if err != nil {
			t.Fatalf("written and not read: %v\n%s", err, out)
		}
		if diff := cmp.Diff(bundle.Spec(), back.Spec(), compareKeys); diff != "" {
			t.Error(diff)
		}
		again, err := back.Encode()
		if err != nil || !bytes.Equal(out, again) {
			t.Errorf("%v, written twice and not the same:\n%s\n%s", err, out, again)
		}
	})
}

// No envelope makes the bundle give a grant that was never signed.
func FuzzVerify(f *testing.F) {
	bundle, all := vectors(f)
	signed := map[sdk.Digest]bool{}
	for _, v := range all {
		f.Add([]byte(v.Grant))
		f.Add([]byte(v.Status))
		if _, digest, err := bundle.VerifyGrant(v.Grant); err == nil {
			signed[digest] = true
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, digest, err := bundle.VerifyGrant(b)
		switch code := sdk.CodeOf(err); {
		case err == nil && !signed[digest]:
			t.Errorf("a grant that nobody signed: %+v", g)
		case err != nil && (g != nil || code != sdk.Malformed && code != sdk.Unauthenticated):
			t.Errorf("%v %v", g, err)
		}
		if p, err := bundle.VerifyProof(b); err != nil && p != nil {
			t.Errorf("%v %v", p, err)
		}
	})
}
