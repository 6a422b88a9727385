package certificate

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

func good() *Statement {
	cases := []Case{{ID: "a/1", Law: "F1", Status: Proven}, {ID: "a/2", Law: "F1", Status: NotProven, Reason: "why"}, {ID: "b/1", Law: "F2", Status: Proven}}
	return &Statement{Type: StatementType, PredicateType: PredicateType,
		Subject: []Subject{{Name: "fencedstore-toy", Digest: Digest{SHA256: "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}}},
		Predicate: Predicate{Adapter: Adapter{Name: "toy", Version: "1", Environment: "emulator"}, Suite: "1.0.0", Profile: "quick", Seed: "1",
			Started: time.Unix(1_700_000_000, 0).UTC(), Certified: true, Verdict: "certified.", Cases: cases, Laws: Summarize(cases), Beyond: Beyond(sdk.Emulator)}}
}

func keys(t *testing.T) (out []*grant.Signer) {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, private := range []any{ed, ec} {
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func TestSignAndVerify(t *testing.T) {
	signers := keys(t)
	for i, s := range signers {
		b, err := Sign(good(), s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Verify(b, []*grant.Key{s.Key()})
		if err != nil || got.Predicate.Laws[0].Status != NotProven || len(got.Missing([]string{"a/1", "c/1"})) != 1 {
			t.Errorf("%v %v", got, err)
		}
		var e *sdk.Error
		if _, err := Verify(b, []*grant.Key{signers[1-i].Key()}); !errors.As(err, &e) || e.Code != sdk.Unauthenticated || e.Field != "key" {
			t.Errorf("another key: %v", err)
		}
	}
}

// A statement that contradicts itself or leaves something out is none.
func TestContradictions(t *testing.T) {
	signer := keys(t)[0]
	for name, change := range map[string]func(s *Statement){
		"type":           func(s *Statement) { s.Type = "x" },
		"predicate type": func(s *Statement) { s.PredicateType = "x" },
		"no subject":     func(s *Statement) { s.Subject = nil },
		"two subjects":   func(s *Statement) { s.Subject = append(s.Subject, s.Subject[0]) },
		"upper-case digest": func(s *Statement) {
			s.Subject[0].Digest.SHA256 = "00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF"
		},
		"environment":     func(s *Statement) { s.Predicate.Adapter.Environment = "heaven" },
		"emulator hidden": func(s *Statement) { s.Predicate.Beyond = []string{} },
		"law left out":    func(s *Statement) { s.Predicate.Laws = s.Predicate.Laws[:1] },
		"law better":      func(s *Statement) { s.Predicate.Laws[0].Status = Proven },
		"case left out":   func(s *Statement) { s.Predicate.Cases = s.Predicate.Cases[:2] },
		"case twice":      func(s *Statement) { s.Predicate.Cases[1].ID = "a/1" },
		"no reason": func(s *Statement) {
			s.Predicate.Cases[1].Reason = ""
			s.Predicate.Laws = Summarize(s.Predicate.Cases)
		},
		"failed and certified": func(s *Statement) {
			s.Predicate.Cases[0].Status = Failed
			s.Predicate.Laws = Summarize(s.Predicate.Cases)
		},
		"stale accepted": func(s *Statement) { s.Predicate.Figures.StaleAccepted = 1 },
		"nothing ran":    func(s *Statement) { s.Predicate.Cases, s.Predicate.Laws = nil, nil },
	} {
		s := good()
		change(s)
		if _, err := Sign(s, signer); sdk.CodeOf(err) != sdk.Malformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOlderThan(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{{"1.2.0", "1.10.0", true}, {"1.10.0", "1.2.0", false}, {"1.0.0", "1.0.0", false}, {"x", "1.0.0", true}, {"-1.0", "0.1", true}} {
		if got := OlderThan(tc.a, tc.b); got != tc.want {
			t.Errorf("%s older than %s: %v", tc.a, tc.b, got)
		}
	}
}

func FuzzVerify(f *testing.F) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	s, err := grant.NewEd25519Signer("k", ed)
	if err != nil {
		f.Fatal(err)
	}
	b, err := Sign(good(), s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := Verify(b, []*grant.Key{s.Key()}); err == nil && got.validate() != nil {
			t.Error("verified and not valid")
		}
	})
}
