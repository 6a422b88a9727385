package grant_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
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
		"null payload type": strings.Replace(good, `"t"`, `null`, 1),
		"no payload type":   strings.Replace(good, `"payloadType":"t",`, ``, 1),
		"no key ID":         strings.Replace(good, `"keyid":"k",`, ``, 1),
		"empty key ID":      strings.Replace(good, `"k"`, `""`, 1),
		"no sig":            strings.Replace(good, `,"sig":"c2ln"`, ``, 1),
		"null sig":          strings.Replace(good, `"c2ln"`, `null`, 1),
		"sig with LF":       strings.Replace(good, `"c2ln"`, `"c2ln\n"`, 1),
		"long s in a name":  strings.Replace(good, `"signatures"`, `"\u017fignatures"`, 1),
		"lone surrogate":    strings.Replace(good, `"k"`, `"\ud800"`, 1),
		"spaces in base64":  strings.Replace(good, `"cGF5"`, `"cG F5"`, 1),
		"padding inside":    strings.Replace(good, `"cGF5"`, `"cA==cGF5"`, 1),
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

// An empty signature is there, and is no signature.
func TestEmptySignature(t *testing.T) {
	e, err := grant.ParseEnvelope([]byte(`{"payloadType":"t","payload":"cGF5","signatures":[{"keyid":"k","sig":""}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for alg, s := range signers(t) {
		if err := s.Key().Verify(e.PayloadType, e.Payload, e.Signatures[0].Sig); !errors.Is(err, sdk.ErrUnauthenticated) {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

func TestEncodeIncomplete(t *testing.T) {
	for name, e := range map[string]grant.Envelope{
		"nothing":      {},
		"no type":      {Payload: []byte("p"), Signatures: []grant.Signature{{KeyID: "k"}}},
		"no payload":   {PayloadType: "t", Signatures: []grant.Signature{{KeyID: "k"}}},
		"no signature": {PayloadType: "t", Payload: []byte("p")},
		"no key ID":    {PayloadType: "t", Payload: []byte("p"), Signatures: []grant.Signature{{}}},
		"bad UTF-8":    {PayloadType: "\xff", Payload: []byte("p"), Signatures: []grant.Signature{{KeyID: "k"}}},
	} {
		if b, err := e.Encode(); !errors.Is(err, sdk.ErrMalformed) || b != nil {
			t.Errorf("%s: %s %v", name, b, err)
		}
	}
	if b, err := grant.SignAll("t", []byte("p")); !errors.Is(err, sdk.ErrMalformed) || b != nil {
		t.Errorf("signed by nobody: %s %v", b, err)
	}
}

// The longest fields that are allowed fit into an envelope.
func TestLongestGrant(t *testing.T) {
	long := strings.Repeat(`"`, sdk.MaxNameBytes) // each is escaped
	g := sample()
	g.Resource = sdk.ResourceID(strings.Repeat(`"`, sdk.MaxResourceBytes))
	g.Audience, g.Owner, g.RequestID, g.Lease, g.Category, g.Backend, g.Issuer = long, long, long, long, long, long, long
	g.Fence, g.BackendRevision, g.PolicyGeneration, g.IssuerEpoch = sdk.MaxToken, 1<<64-1, 1<<64-1, 1<<64-1
	g.TTL = grant.MaxTTL
	payload, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	env, err := signers(t)[grant.ECDSAP256].Sign(grant.GrantType, payload)
	if err != nil {
		t.Fatal(err)
	}
	e, err := grant.ParseEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := grant.ParseGrant(e.Payload); err != nil || *back != g {
		t.Errorf("%v %v", back, err)
	}
}

// A hostile message does not fill a log, nor reach a terminal, by its refusal.
func TestRefusalsAreShort(t *testing.T) {
	g := sample()
	good, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	huge := strings.Repeat("9", 9000)
	for _, field := range []string{"schema", "audience", "resource", "operationRoot", "fenceToken", "backendRevision", "ttlMillis", "issuedAt"} {
		_, err := grant.ParseGrant(edit(t, good, field, `"`+huge+`"`))
		var e *sdk.Error
		if !errors.As(err, &e) || e.Field != field || len(e.Msg) > 300 {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, text := range []string{`{"` + huge + `":1}`, `{"a\u0010\u001b[31m":1}`, `{"signatures":[{"\u000a":{}}]}`} {
		_, err := grant.ParseEnvelope([]byte(text))
		var e *sdk.Error
		if !errors.As(err, &e) || len(e.Field+e.Msg) > 300 || strings.ContainsFunc(e.Field+e.Msg, unicode.IsControl) {
			t.Errorf("%.40s: %q", text, err)
		}
	}
	if _, err := grant.ParseGrant([]byte(`{"x":"` + strings.Repeat("x", grant.MaxEnvelopeBytes) + `"}`)); !errors.Is(err, sdk.ErrMalformed) {
		t.Errorf("too long: %v", err)
	}
}

// Errors of strict JSON name the field by its path.
func TestUnmarshalNamesTheField(t *testing.T) {
	for text, field := range map[string]string{
		``: "", `[]`: "", `{} {}`: "",
		`{"signatures":[{},{"sig":1}]}`:        "signatures[1].sig",
		`{"signatures":[{"sig":"","sig":""}]}`: "signatures[0].sig",
		`{"signatures":[{"jwk":{"kty":1}}]}`:   "signatures[0].jwk",
		`{"signatures":{}}`:                    "signatures",
		`{"payload`:                            "",
		"{\"payload\":\"\xff\"}":               "payload",
		`{"\u017fchema":1}`:                    `"\u017fchema"`,
	} {
		var v struct {
			Payload    string `json:"payload"`
			Signatures []struct {
				Sig string `json:"sig"`
			} `json:"signatures"`
		}
		var e *sdk.Error
		if err := grant.Unmarshal([]byte(text), &v); !errors.As(err, &e) || e.Code != sdk.Malformed || e.Field != field || e.Msg == "" {
			t.Errorf("%q: %v, want MALFORMED at %q", text, err, field)
		}
	}
}
