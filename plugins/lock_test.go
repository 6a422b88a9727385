//go:build unix

package plugins

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/plugins/certificate"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

func certifier(t *testing.T) (*grant.Signer, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := certificate.KeyID(public)
	if err != nil {
		t.Fatal(err)
	}
	s, err := grant.NewEd25519Signer(id, private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return s, base64.StdEncoding.EncodeToString(der)
}

func statement(name, digest string) *certificate.Statement {
	cases := []certificate.Case{{ID: "fence/stale", Law: "F1", Status: certificate.Proven},
		{ID: "wire/cut", Law: "O1", Status: certificate.NotProven, Reason: "no wire"}}
	return &certificate.Statement{Type: certificate.StatementType, PredicateType: certificate.PredicateType,
		Subject: []certificate.Subject{{Name: name, Digest: certificate.Digest{SHA256: digest}}},
		Predicate: certificate.Predicate{Adapter: certificate.Adapter{Name: "toy", Version: "1", Environment: "embedded"},
			Suite: "1.2.0", Profile: "standard", Seed: "7", Started: time.Unix(1_700_000_000, 0).UTC(), Certified: true, Verdict: "certified.",
			Cases: cases, Laws: certificate.Summarize(cases), Beyond: []string{}}}
}

// A plug-in that the lock does not list, whose hash is another, or whose
// certificate does not do, is refused by a reason of its own; AllowUncertified
// starts it but for a wrong hash, and says so each time.
func TestLock(t *testing.T) {
	path := self(t)
	name := filepath.Base(path)
	o, _ := options(t, "good")
	p, err := Start(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	digest := p.SHA256()
	signer, public := certifier(t)
	stranger, _ := certifier(t)

	for what, tc := range map[string]struct {
		reason Reason
		change func(l *Lock, s *certificate.Statement, cert *[]byte)
	}{
		"good":       {"", func(*Lock, *certificate.Statement, *[]byte) {}},
		"not listed": {NotListed, func(l *Lock, _ *certificate.Statement, _ *[]byte) { l.Plugins[0].Name = "another" }},
		"hash": {HashMismatch, func(l *Lock, _ *certificate.Statement, _ *[]byte) {
			l.Plugins[0].SHA256 = strings.Repeat("0", 64)
		}},
		"lock is no lock":  {BadLock, func(l *Lock, _ *certificate.Statement, _ *[]byte) { l.Schema = "other" }},
		"none named":       {NoCertificate, func(l *Lock, _ *certificate.Statement, _ *[]byte) { l.Plugins[0].Certificate = "" }},
		"missing":          {NoCertificate, func(l *Lock, _ *certificate.Statement, _ *[]byte) { l.Plugins[0].Certificate = "none.json" }},
		"no JSON":          {BadCertificate, func(_ *Lock, _ *certificate.Statement, c *[]byte) { *c = []byte("hello") }},
		"tampered payload": {BadCertificate, func(_ *Lock, _ *certificate.Statement, c *[]byte) { *c = tamper(t, *c, "payload") }},
		"tampered signature": {BadCertificate, func(_ *Lock, _ *certificate.Statement, c *[]byte) {
			*c = tamper(t, *c, "sig")
		}},
		"foreign key": {ForeignCertificate, func(_ *Lock, s *certificate.Statement, c *[]byte) { *c = sign(t, s, stranger) }},
		"foreign binary": {ForeignCertificate, func(_ *Lock, s *certificate.Statement, c *[]byte) {
			s.Subject[0].Digest.SHA256 = strings.Repeat("1", 64)
			*c = sign(t, s, signer)
		}},
		"another version": {ForeignCertificate, func(l *Lock, _ *certificate.Statement, _ *[]byte) { l.Plugins[0].Version = "2" }},
		"stale":           {StaleCertificate, func(l *Lock, _ *certificate.Statement, _ *[]byte) { l.Suite = "1.10.0" }},
		"falls short": {NotCertified, func(_ *Lock, s *certificate.Statement, c *[]byte) {
			s.Predicate.Certified = false
			*c = sign(t, s, signer)
		}},
		"environment": {LowEnvironment, func(l *Lock, _ *certificate.Statement, _ *[]byte) { l.Plugins[0].Environment = "live" }},
		"calls itself otherwise": {BadDescription, func(_ *Lock, s *certificate.Statement, c *[]byte) {
			s.Predicate.Adapter.Name = "spanner"
			*c = sign(t, s, signer)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			s := statement(name, digest)
			l := &Lock{Schema: LockSchema, Certifiers: []string{public}, Suite: "1.2.0", Plugins: []LockPlugin{
				{Name: name, Version: "1", SHA256: digest, Certificate: "cert.json", Environment: "embedded"}}}
			cert := sign(t, s, signer)
			tc.change(l, s, &cert)
			b, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			for file, content := range map[string][]byte{"cert.json": cert, LockFile: b} {
				if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o, logged := options(t, "good")
			o.Lock = filepath.Join(dir, LockFile)
			store, err := Open(t.Context(), path, o)
			if tc.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				store.Close()
				return
			}
			wantFault(t, err, tc.reason)
			if tc.reason == BadDescription {
				return
			}
			o.AllowUncertified = true
			store, err = Open(t.Context(), path, o)
			if tc.reason == HashMismatch {
				wantFault(t, err, tc.reason)
				return
			}
			if err != nil {
				t.Fatalf("AllowUncertified: %v", err)
			}
			store.Close()
			if !strings.Contains(logged.String(), "uncertified") || !strings.Contains(logged.String(), string(tc.reason)) {
				t.Errorf("not logged:\n%s", logged)
			}
		})
	}
}

func sign(t *testing.T, s *certificate.Statement, by *grant.Signer) []byte {
	t.Helper()
	b, err := certificate.Sign(s, by)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tamper changes one bit of a field of the envelope.
func tamper(t *testing.T, envelope []byte, what string) []byte {
	t.Helper()
	e, err := grant.ParseEnvelopeMulti(envelope, certificate.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	if what == "payload" {
		e.Payload = []byte(strings.Replace(string(e.Payload), `"standard"`, `"release"`, 1))
	} else {
		e.Signatures[0].Sig[0] ^= 1
	}
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
