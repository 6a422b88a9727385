package trust_test

import (
	"errors"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
	"github.com/google/go-cmp/cmp"
)

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

// P2, with the root keys on different people: each adds a signature.
func TestCoSign(t *testing.T) {
	rs := roots(t)
	bundle := load(t, encode(t, good(t, rs)))
	s := bundle.Spec()
	s.Generation++
	next, err := trust.New(s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := next.Encode()
	if err != nil {
		t.Fatal(err)
	}
	first, err := trust.SignRotation(text, rs[2])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Rotate(first); !errors.Is(err, sdk.ErrUnauthenticated) {
		t.Errorf("one of two: %v", err)
	}
	if _, err := trust.CoSign(first, rs[2]); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("signed twice by one: %v", err)
	}
	both, err := trust.CoSign(first, rs[0])
	if err != nil {
		t.Fatal(err)
	}
	got, err := bundle.Rotate(both)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(next.Spec(), got.Spec(), compareKeys); diff != "" {
		t.Error(diff)
	}
	other, err := grant.SignAll(grant.GrantType, text, rs[2])
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"nothing": nil, "another type": other} {
		if _, err := trust.CoSign(bad, rs[0]); !errors.Is(err, sdk.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	notOne, err := grant.SignAll(trust.BundleType, []byte("{}"), rs[2])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trust.CoSign(notOne, rs[0]); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("not a bundle: %v", err)
	}
	if _, err := bundle.Rotate([]byte("{")); !errors.Is(err, sdk.ErrMalformed) {
		t.Errorf("not an envelope: %v", err)
	}
}

// A damaged signature of a root key spoils the envelope even where enough others
// hold; one of a stranger does not count at all.
func TestRotateSignatures(t *testing.T) {
	rs := roots(t)
	bundle := load(t, encode(t, good(t, rs)))
	content := good(t, rs)
	content["generation"] = "5"
	env, err := trust.SignRotation(encode(t, content), append(rs, newSigner(t, "stranger"))...)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []error{sdk.ErrUnauthenticated, sdk.ErrUnauthenticated, sdk.ErrUnauthenticated, nil} {
		e, err := grant.ParseEnvelopeMulti(env, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		e.Signatures[n].Sig[7] ^= 1
		b, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bundle.Rotate(b); !errors.Is(err, want) {
			t.Errorf("signature %d damaged: %v, want %v", n, err, want)
		}
	}
}

// Nothing could follow a bundle without root keys, not even a revocation.
func TestRotateKeepsRoots(t *testing.T) {
	rs := roots(t)
	bundle := load(t, encode(t, good(t, rs)))
	content := good(t, nil)
	content["generation"] = "5"
	if _, err := trust.SignRotation(encode(t, content), rs...); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("signed: %v", err)
	}
	env, err := grant.SignAll(trust.BundleType, encode(t, content), rs...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Rotate(env); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("rotated: %v", err)
	}
}

// A revocation holds from the moment of rotation, and of two that rotate at once
// one does.
func TestHolderRotatesOnce(t *testing.T) {
	rs := roots(t)
	h := trust.NewHolder(load(t, encode(t, good(t, rs))))
	s := h.Bundle().Spec()
	s.Generation++
	s.Issuers[0].RevokedEpochs = append(s.Issuers[0].RevokedEpochs, 1)
	next, err := trust.New(s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := next.Encode()
	if err != nil {
		t.Fatal(err)
	}
	env, err := trust.SignRotation(text, rs...)
	if err != nil {
		t.Fatal(err)
	}
	g := issued()
	if err := h.Bundle().CheckCurrent(&g); err != nil {
		t.Fatal(err)
	}
	const n = 8
	errs := make(chan error, n)
	for range n {
		go func() { errs <- h.Rotate(env) }()
	}
	rotated := 0
	for range n {
		switch err := <-errs; {
		case err == nil:
			rotated++
		case !errors.Is(err, sdk.ErrPolicyStale):
			t.Error(err)
		}
	}
	if rotated != 1 || h.Bundle().Generation() != 5 {
		t.Errorf("%d rotated, to generation %d", rotated, h.Bundle().Generation())
	}
	if err := h.Bundle().CheckCurrent(&g); !errors.Is(err, sdk.ErrRevoked) {
		t.Errorf("after the revocation: %v", err)
	}
}
