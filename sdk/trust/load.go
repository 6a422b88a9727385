package trust

import (
	"encoding/base64"
	"errors"
	"fmt"
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
)

type wireBundle struct {
	Generation        string       `json:"generation"`
	Audience          string       `json:"audience"`
	PolicyGenerations []string     `json:"policyGenerations"`
	SkewMillis        string       `json:"skewMillis"`
	MaxProofMillis    string       `json:"maxProofMillis"`
	Issuers           []wireIssuer `json:"issuers"`
	RootKeys          []wireRoot   `json:"rootKeys"`
	RootThreshold     string       `json:"rootThreshold"`
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
	Public string `json:"public"`
	Secret string `json:"secret"`
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
//   - UNSUITABLE: it cannot keep a law: a weak key, one key listed twice, two
//     issuers for one resource, a skew that is not below the proofs' life.
func Load(b []byte) (*Bundle, error) {
	if len(b) == 0 || len(b) > MaxBundleBytes {
		return nil, sdk.Errorf(sdk.Invalid, "trust bundle", "%d bytes; it has 1 to %d", len(b), MaxBundleBytes)
	}
	var w wireBundle
	if err := grant.Unmarshal(b, &w); err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "trust bundle", "%w", err)
	}
	l := loader{bundle: &Bundle{issuers: map[string]*issuer{}, keys: map[string]*issuerKey{}, roots: map[string]*grant.Key{}}}
	l.head(&w)
	for i := range w.Issuers {
		l.issuer(fmt.Sprintf("issuers[%d]", i), &w.Issuers[i])
	}
	if len(w.Issuers) == 0 {
		l.fail("issuers", sdk.Errorf(sdk.Invalid, "", "missing"))
	}
	l.disjoint()
	l.rootKeys(&w)
	if l.err != nil {
		return nil, l.err
	}
	return l.bundle, nil
}

// loader checks field after field and keeps the first error.
type loader struct {
	bundle *Bundle
	all    []*grant.Key
	err    error
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

func (l *loader) number(field, s string, least uint64) uint64 {
	n, err := sdk.ParseDecimal(field, s)
	switch {
	case s == "":
		l.refuse(sdk.Invalid, field, "missing; integers are decimal strings")
	case err != nil:
		l.fail(field, err)
	case n < least:
		l.refuse(sdk.Invalid, field, "%d is below %d", n, least)
	}
	return n
}

func (l *loader) millis(field, s string) time.Duration {
	n := l.number(field, s, 0)
	if n > uint64(MaxProofLife.Milliseconds()) {
		l.refuse(sdk.Invalid, field, "%d is above %d", n, MaxProofLife.Milliseconds())
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
	b := l.bundle
	b.generation = l.number("generation", w.Generation, 1)
	l.fail("audience", sdk.ValidateName("audience", w.Audience))
	b.audience = w.Audience
	last := uint64(0)
	for i, s := range w.PolicyGenerations {
		n := l.number(fmt.Sprintf("policyGenerations[%d]", i), s, 1)
		if n <= last {
			l.refuse(sdk.Invalid, "policyGenerations", "not in ascending order, each once")
		}
		last = n
		b.policies = append(b.policies, n)
	}
	if len(b.policies) == 0 {
		l.refuse(sdk.Invalid, "policyGenerations", "missing; list the current one")
	}
	b.skew, b.maxProof = l.millis("skewMillis", w.SkewMillis), l.millis("maxProofMillis", w.MaxProofMillis)
	if b.skew >= b.maxProof {
		l.refuse(sdk.Unsuitable, "skewMillis", "%d is not below maxProofMillis %d: a proof could be taken for as long again as it lives",
			b.skew.Milliseconds(), b.maxProof.Milliseconds())
	}
}

func (l *loader) issuer(field string, w *wireIssuer) {
	l.fail(field+".issuer", sdk.ValidateName("issuer", w.Issuer))
	if l.bundle.issuers[w.Issuer] != nil {
		l.refuse(sdk.Invalid, field+".issuer", "%q is listed twice", w.Issuer)
	}
	i := &issuer{name: w.Issuer, minEpoch: l.number(field+".minEpoch", w.MinEpoch, 0)}
	for n, text := range w.Resources {
		p, err := pattern.Parse(text)
		l.fail(fmt.Sprintf("%s.resources[%d]", field, n), err)
		i.patterns = append(i.patterns, p)
	}
	if len(w.Resources) == 0 {
		l.refuse(sdk.Invalid, field+".resources", "missing; list the patterns of what it may grant")
	}
	for n, s := range w.RevokedEpochs {
		i.revoked = append(i.revoked, l.number(fmt.Sprintf("%s.revokedEpochs[%d]", field, n), s, 0))
	}
	for n := range w.Keys {
		l.issuerKey(fmt.Sprintf("%s.keys[%d]", field, n), i, &w.Keys[n])
	}
	l.bundle.issuers[w.Issuer] = i
}

func (l *loader) issuerKey(field string, i *issuer, w *wireKey) {
	material, name := w.Public, "public"
	if grant.Algorithm(w.Alg) == grant.HMACSHA256 {
		material, name = w.Secret, "secret"
	}
	if w.Public != "" && w.Secret != "" || material == "" {
		l.refuse(sdk.Invalid, field+"."+name, "a key of %q has %s and nothing else", w.Alg, name)
		return
	}
	k := l.key(field, w.KeyID, w.Alg, l.base64(field+"."+name, material))
	if k != nil {
		l.bundle.keys[w.KeyID] = &issuerKey{k, i, l.number(field+".epoch", w.Epoch, 0)}
	}
}

// key loads one key and refuses it if its ID or its material came before.
func (l *loader) key(field, id, alg string, material []byte) *grant.Key {
	if l.err != nil {
		return nil
	}
	k, err := grant.NewKey(id, grant.Algorithm(alg), material)
	if err != nil {
		l.fail(field, err)
		return nil
	}
	for _, other := range l.all {
		if other.ID() == id {
			l.refuse(sdk.Invalid, field+".keyid", "%q is listed twice", id)
		}
		if other.Same(k) {
			l.refuse(sdk.Unsuitable, field, "%q and %q are the same key", other.ID(), id)
		}
	}
	l.all = append(l.all, k)
	return k
}

// disjoint refuses two issuers for one resource: either could issue the other's
// tokens.
func (l *loader) disjoint() {
	for _, a := range l.bundle.issuers {
		for _, b := range l.bundle.issuers {
			if a.name >= b.name {
				continue
			}
			for _, p := range a.patterns {
				for _, q := range b.patterns {
					if p.Intersects(q) {
						l.refuse(sdk.Unsuitable, "issuers", "%q of %q and %q of %q can name one resource; a resource has one issuer", p, a.name, q, b.name)
					}
				}
			}
		}
	}
}

func (l *loader) rootKeys(w *wireBundle) {
	for n := range w.RootKeys {
		r := &w.RootKeys[n]
		field := fmt.Sprintf("rootKeys[%d]", n)
		if grant.Algorithm(r.Alg) == grant.HMACSHA256 {
			l.refuse(sdk.Unsuitable, field+".alg", "a gate that holds a root secret could sign its own bundle; use %s or %s", grant.Ed25519, grant.ECDSAP256)
			return
		}
		if k := l.key(field, r.KeyID, r.Alg, l.base64(field+".public", r.Public)); k != nil {
			l.bundle.roots[r.KeyID] = k
		}
	}
	if len(w.RootKeys) == 0 && w.RootThreshold == "" {
		return // a bundle that is replaced by hand only
	}
	n := l.number("rootThreshold", w.RootThreshold, 1)
	if n > uint64(len(w.RootKeys)) {
		l.refuse(sdk.Invalid, "rootThreshold", "%d of %d root keys", n, len(w.RootKeys))
		return
	}
	l.bundle.threshold = int(n)
}
