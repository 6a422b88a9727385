package trust

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/internal/pattern"
)

const (
	// MaxBundleBytes bounds a bundle before it is parsed.
	MaxBundleBytes = 1 << 20
	// MaxProofLife is the longest life of a status proof that a bundle may allow.
	MaxProofLife = 60 * time.Second

	// MaxPatterns and MaxKeys bound what a bundle lists, over all issuers.
	MaxPatterns = 4096
	MaxKeys     = 1024

	maxDecimalBytes = 20
)

type wireBundle struct {
	Generation        string       `json:"generation"`
	Audience          string       `json:"audience"`
	PolicyGenerations []string     `json:"policyGenerations"`
	SkewMillis        string       `json:"skewMillis"`
	MaxProofMillis    string       `json:"maxProofMillis"`
	Issuers           []wireIssuer `json:"issuers"`
	RootKeys          []wireRoot   `json:"rootKeys,omitempty"`
	RootThreshold     string       `json:"rootThreshold,omitempty"`
}

type wireIssuer struct {
	Issuer        string    `json:"issuer"`
	Resources     []string  `json:"resources"`
	MinEpoch      string    `json:"minEpoch"`
	RevokedEpochs []string  `json:"revokedEpochs"`
	Keys          []wireKey `json:"keys"`
}

type wireKey struct {
	KeyID  string `json:"keyid"`
	Alg    string `json:"alg"`
	Epoch  string `json:"epoch"`
	Public string `json:"public,omitempty"`
	Secret string `json:"secret,omitempty"`
}

type wireRoot struct {
	KeyID  string `json:"keyid"`
	Alg    string `json:"alg"`
	Public string `json:"public"`
}

// Load reads a trust bundle: JSON with generation, audience, policyGenerations,
// skewMillis, maxProofMillis and issuers, each with resources, minEpoch,
// revokedEpochs and keys; and, for a bundle that can be rotated, rootKeys and
// rootThreshold. Integers are decimal strings, keys and secrets base64.
//
//   - INVALID: it is not of this form; the error names the field.
//   - UNSUITABLE: it cannot keep a law: a weak key, one key listed twice, a
//     secret that is a public key, two issuers for one resource, proofs that
//     live too long, a skew that is not below the proofs' life.
func Load(b []byte) (*Bundle, error) {
	if len(b) == 0 || len(b) > MaxBundleBytes {
		return nil, sdk.Errorf(sdk.Invalid, "trust bundle", "%d bytes; it has 1 to %d", len(b), MaxBundleBytes)
	}
	var w wireBundle
	l := loader{bundle: &Bundle{issuers: map[string]*issuer{}, keys: map[string]*issuerKey{}, roots: map[string]*grant.Key{}}}
	if l.json(b, &w); l.err != nil {
		return nil, l.err
	}
	l.head(&w)
	l.limits(&w)
	if len(w.Issuers) == 0 {
		l.refuse(sdk.Invalid, "issuers", "missing; list who may grant what")
	}
	for n := range w.Issuers {
		if l.err == nil {
			l.issuer(fmt.Sprintf("issuers[%d]", n), &w.Issuers[n])
		}
	}
	l.disjoint()
	l.rootKeys(&w)
	if l.err == nil {
		l.secrets()
	}
	if l.err != nil {
		return nil, l.err
	}
	return l.bundle, nil
}

// json reads the form. What is MALFORMED in a message is INVALID in a file.
func (l *loader) json(b []byte, w *wireBundle) {
	var e *sdk.Error
	if err := grant.Unmarshal(b, w); errors.As(err, &e) {
		l.refuse(sdk.Invalid, cmp.Or(e.Field, "trust bundle"), "%s", e.Msg)
	}
}

// loader checks field after field and keeps the first error.
type loader struct {
	bundle   *Bundle
	all      []listedKey
	patterns []listedPattern
	err      error
}

type listedKey struct {
	*grant.Key
	field string
}

type listedPattern struct {
	pattern.Pattern
	field, issuer string
}

// fail records the first error under its field, with the code it has.
func (l *loader) fail(field string, err error) {
	if l.err != nil || err == nil {
		return
	}
	code, msg := sdk.Invalid, err.Error()
	var e *sdk.Error
	if errors.As(err, &e) {
		code, msg = e.Code, e.Msg
	}
	l.err = sdk.Errorf(code, field, "%s", msg)
}

func (l *loader) refuse(code sdk.Code, field, format string, args ...any) {
	l.fail(field, sdk.Errorf(code, "", format, args...))
}

func (l *loader) number(field, s string) uint64 {
	switch {
	case s == "":
		l.refuse(sdk.Invalid, field, "missing; integers are decimal strings")
	case len(s) > maxDecimalBytes:
		l.refuse(sdk.Invalid, field, "%d digits; it is below 2^64", len(s))
	default:
		n, err := sdk.ParseDecimal(field, s)
		l.fail(field, err)
		return n
	}
	return 0
}

// generation is a number that fence records keep.
func (l *loader) generation(field, s string) uint64 {
	n := l.number(field, s)
	if n < 1 || n > uint64(sdk.MaxToken) {
		l.refuse(sdk.Invalid, field, "%d is outside 1 to %s", n, sdk.MaxToken)
	}
	return n
}

func (l *loader) millis(field, s string) time.Duration {
	n := l.number(field, s)
	if n > uint64(MaxProofLife.Milliseconds()) {
		l.refuse(sdk.Unsuitable, field, "%d is above %d; a proof lives at most a minute", n, MaxProofLife.Milliseconds())
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

func (l *loader) base64(field, s string) []byte {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || base64.StdEncoding.EncodeToString(b) != s {
		l.refuse(sdk.Invalid, field, "not standard base64 with padding, in one line")
	}
	return b
}

func (l *loader) head(w *wireBundle) {
	s := &l.bundle.spec
	s.Generation = l.generation("generation", w.Generation)
	l.fail("audience", sdk.ValidateName("audience", w.Audience))
	s.Audience = w.Audience
	last := uint64(0)
	for i, text := range w.PolicyGenerations {
		field := fmt.Sprintf("policyGenerations[%d]", i)
		n := l.generation(field, text)
		if n <= last {
			l.refuse(sdk.Invalid, field, "%d after %d; list them in ascending order, each once", n, last)
		}
		last = n
		s.PolicyGenerations = append(s.PolicyGenerations, n)
	}
	if len(w.PolicyGenerations) == 0 {
		l.refuse(sdk.Invalid, "policyGenerations", "missing; list the current one")
	}
	s.Skew, s.MaxProof = l.millis("skewMillis", w.SkewMillis), l.millis("maxProofMillis", w.MaxProofMillis)
	if s.Skew >= s.MaxProof {
		l.refuse(sdk.Unsuitable, "skewMillis", "%d is not below maxProofMillis %d: a proof could be taken for as long again as it lives; lower it",
			s.Skew.Milliseconds(), s.MaxProof.Milliseconds())
	}
}

func (l *loader) limits(w *wireBundle) {
	keys, patterns := len(w.RootKeys), 0
	for n := range w.Issuers {
		keys, patterns = keys+len(w.Issuers[n].Keys), patterns+len(w.Issuers[n].Resources)
	}
	if keys > MaxKeys {
		l.refuse(sdk.Invalid, "issuers", "%d keys in all; a bundle has up to %d", keys, MaxKeys)
	}
	if patterns > MaxPatterns {
		l.refuse(sdk.Invalid, "issuers", "%d patterns in all; a bundle has up to %d", patterns, MaxPatterns)
	}
}

func (l *loader) issuer(field string, w *wireIssuer) {
	l.fail(field+".issuer", sdk.ValidateName("issuer", w.Issuer))
	if l.bundle.issuers[w.Issuer] != nil {
		l.refuse(sdk.Invalid, field+".issuer", "%q is listed twice", w.Issuer)
	}
	i := &issuer{name: w.Issuer, minEpoch: l.number(field+".minEpoch", w.MinEpoch)}
	s := Issuer{Name: w.Issuer, Resources: w.Resources, MinEpoch: i.minEpoch}
	for n, text := range w.Resources {
		at := fmt.Sprintf("%s.resources[%d]", field, n)
		p, err := pattern.Parse(text)
		l.fail(at, err)
		i.patterns = append(i.patterns, p)
		l.patterns = append(l.patterns, listedPattern{p, at, i.name})
	}
	if len(w.Resources) == 0 {
		l.refuse(sdk.Invalid, field+".resources", "missing; list the patterns of what it may grant")
	}
	for n, text := range w.RevokedEpochs {
		at := fmt.Sprintf("%s.revokedEpochs[%d]", field, n)
		epoch := l.number(at, text)
		s.RevokedEpochs = append(s.RevokedEpochs, epoch)
	}
	if w.RevokedEpochs == nil {
		l.refuse(sdk.Invalid, field+".revokedEpochs", "missing; write [] where none is revoked")
	}
	i.revoked = slices.Clone(s.RevokedEpochs)
	slices.Sort(i.revoked)
	for n := range w.Keys {
		if k, ok := l.issuerKey(fmt.Sprintf("%s.keys[%d]", field, n), i, &w.Keys[n]); ok {
			s.Keys = append(s.Keys, k)
		}
	}
	if w.Keys == nil {
		l.refuse(sdk.Invalid, field+".keys", "missing; write [] where it has none")
	}
	l.bundle.issuers[i.name] = i
	l.bundle.spec.Issuers = append(l.bundle.spec.Issuers, s)
}

func (l *loader) issuerKey(field string, i *issuer, w *wireKey) (IssuerKey, bool) {
	material, name, other := w.Public, "public", w.Secret
	if grant.Algorithm(w.Alg) == grant.HMACSHA256 {
		material, name, other = w.Secret, "secret", w.Public
	}
	if other != "" || material == "" {
		l.refuse(sdk.Invalid, field+"."+name, "a key of %s has %s and nothing else", grant.Algorithm(w.Alg), name)
	}
	epoch := l.number(field+".epoch", w.Epoch)
	k := l.key(field, w.KeyID, w.Alg, l.base64(field+"."+name, material))
	if k == nil {
		return IssuerKey{}, false
	}
	l.bundle.keys[w.KeyID] = &issuerKey{k, i, epoch}
	return IssuerKey{k, epoch}, true
}
