package grant_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/google/go-cmp/cmp"
)

// C90, C94: an envelope is exactly its three fields, with one signature.
func TestEnvelopeRefuses(t *testing.T) {
	const good = `{"payloadType":"t","payload":"cGF5","signatures":[{"keyid":"k","sig":"c2ln"}]}`
	if _, err := grant.ParseEnvelope([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":             "",
		"null":              "null",
		"array":             "[" + good + "]",
		"trailing":          good + good,
		"unknown field":     strings.Replace(good, `{"payloadType"`, `{"x":1,"payloadType"`, 1),
		"repeated field":    strings.Replace(good, `{"payloadType"`, `{"payloadType":"u","payloadType"`, 1),
		"case variant":      strings.Replace(good, `"payload"`, `"Payload"`, 1),
		"embedded key":      strings.Replace(good, `"keyid":"k"`, `"keyid":"k","jwk":{}`, 1),
		"alg in signature":  strings.Replace(good, `"keyid":"k"`, `"keyid":"k","alg":"none"`, 1),
		"no signature":      strings.Replace(good, `[{"keyid":"k","sig":"c2ln"}]`, `[]`, 1),
		"null signatures":   strings.Replace(good, `[{"keyid":"k","sig":"c2ln"}]`, `null`, 1),
		"two signatures":    strings.Replace(good, `}]`, `},{"keyid":"k","sig":"c2ln"}]`, 1),
		"no payload":        strings.Replace(good, `"cGF5"`, `""`, 1),
		"payload with CR":   strings.Replace(good, `"cGF5"`, `"cG\rF5"`, 1),
		"payload with LF":   strings.Replace(good, `"cGF5"`, `"cGF5\n"`, 1),
		"no padding":        strings.Replace(good, `"cGF5"`, `"cGF5eQ"`, 1),
		"loose padding":     strings.Replace(good, `"cGF5"`, `"cGF5eR=="`, 1),
		"base64url":         strings.Replace(good, `"cGF5"`, `"-_-_"`, 1),
		"bad UTF-8":         strings.Replace(good, `"k"`, "\"\xff\"", 1),
		"number for a text": strings.Replace(good, `"k"`, "1", 1),
		"too long":          strings.Replace(good, `"t"`, `"`+strings.Repeat("t", grant.MaxEnvelopeBytes)+`"`, 1),
		"deep":              strings.Repeat(`[`, 10000),
	} {
		var e *sdk.Error
		if _, err := grant.ParseEnvelope([]byte(text)); !errors.As(err, &e) || e.Code != sdk.Malformed {
			t.Errorf("%s: %v, want MALFORMED", name, err)
		}
	}
}

func TestPAE(t *testing.T) {
	// The example of the DSSE specification.
	got := grant.PAE("http://example.com/HelloWorld", []byte("hello world"))
	if want := "DSSEv1 29 http://example.com/HelloWorld 11 hello world"; string(got) != want {
		t.Errorf("%q", got)
	}
}

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

func ExampleSigner_Sign() {
	signer, err := grant.NewHMACSigner("k-1", bytes.Repeat([]byte("secret.."), 4))
	if err != nil {
		panic(err)
	}
	g := sample()
	payload, err := g.Encode()
	if err != nil {
		panic(err)
	}
	envelope, err := signer.Sign(grant.GrantType, payload)
	if err != nil {
		panic(err)
	}
	e, err := grant.ParseEnvelope(envelope)
	if err != nil {
		panic(err)
	}
	fmt.Println(signer.Key().Verify(e.PayloadType, e.Payload, e.Signatures[0].Sig))
	// Output: <nil>
}
