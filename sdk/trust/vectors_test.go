package trust_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

type vector struct {
	Name    string `json:"name"`
	Expect  string `json:"expect"`
	Request struct {
		Audience string    `json:"audience"`
		Resource string    `json:"resource"`
		Root     string    `json:"root"`
		Category string    `json:"category"`
		Caller   string    `json:"caller"`
		Now      time.Time `json:"now"`
	} `json:"request"`
	Grant  jsontext.Value `json:"grant"`
	Status jsontext.Value `json:"status"`
	Digest string         `json:"grantDigest"`
}

func vectors(t testing.TB) (*trust.Bundle, []vector) {
	t.Helper()
	b, err := os.ReadFile("../gate/testdata/trust.json")
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := trust.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile("../gate/testdata/grant.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []vector
	for line := range bytes.Lines(lines) {
		var v vector
		if err := json.Unmarshal(line, &v, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, v)
	}
	if len(out) != 87 {
		t.Fatalf("%d vectors, want 87", len(out))
	}
	return bundle, out
}

// decide runs A1, A2 and A6 as a gate does.
func decide(b *trust.Bundle, v *vector) (sdk.Digest, error) {
	g, digest, err := b.VerifyGrant(v.Grant)
	if err != nil {
		return digest, err
	}
	if err := b.CheckCurrent(g); err != nil {
		return digest, err
	}
	if len(v.Status) == 0 || v.Status.Kind() == 'n' {
		return digest, nil
	}
	p, err := b.VerifyProof(v.Status)
	if err == nil && (p.Issuer != g.Issuer || p.IssuerEpoch != g.IssuerEpoch) {
		return digest, sdk.ErrUnauthenticated
	}
	return digest, err
}

// Every vector: what A1, A2 and A6 decide is decided here, and what the request
// decides (A3 to A5) passes.
func TestVectors(t *testing.T) {
	bundle, all := vectors(t)
	decided := 0
	for i := range all {
		v := &all[i]
		t.Run(v.Name, func(t *testing.T) {
			digest, err := decide(bundle, v)
			var want sdk.Code
			switch v.Expect {
			case "UNAUTHENTICATED", "MALFORMED", "REVOKED", "POLICY_STALE":
				code, err := sdk.ParseCode(v.Expect)
				if err != nil {
					t.Fatal(err)
				}
				want = code
				decided++
			case "OK", "RESOURCE_MISMATCH", "OWNER_MISMATCH", "NOT_HELD":
			default:
				t.Fatalf("expects %q", v.Expect)
			}
			if got := sdk.CodeOf(err); got != want || (err == nil) != (want == 0) {
				t.Errorf("got %v, want %v", err, want)
			}
			if err == nil && v.Digest != "" && digest.String() != v.Digest {
				t.Errorf("digest %v, want %s", digest, v.Digest)
			}
		})
	}
	if decided < 50 {
		t.Errorf("%d vectors are decided here; the file or this test is not what it was", decided)
	}
}

// C14: whatever byte of a signed grant is changed, by whatever bit, it is
// refused: as the envelope that it was, or as one that it never was.
func TestNoByteCanChange(t *testing.T) {
	bundle, all := vectors(t)
	for i := range all {
		v := &all[i]
		if v.Expect != "OK" || v.Digest == "" || !bytes.HasPrefix([]byte(v.Name), []byte("valid-")) {
			continue
		}
		e, err := grant.ParseEnvelope(v.Grant)
		if err != nil {
			t.Fatal(err)
		}
		refused := func(what string, at int) {
			t.Helper()
			b, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := bundle.VerifyGrant(b); sdk.CodeOf(err) != sdk.Unauthenticated {
				t.Errorf("%s: %s byte %d changed: %v", v.Name, what, at, err)
			}
		}
		for at := range e.Payload {
			e.Payload[at] ^= 1 << (at % 8)
			refused("payload", at)
			e.Payload[at] ^= 1 << (at % 8)
		}
		sig := e.Signatures[0].Sig
		for at := range sig {
			sig[at] ^= 1 << (at % 8)
			refused("signature", at)
			sig[at] ^= 1 << (at % 8)
		}
		b, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := bundle.VerifyGrant(b); err != nil {
			t.Errorf("%s unchanged: %v", v.Name, err)
		}
	}
}
