package trust

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

// key loads one key and refuses it if its ID or its material came before.
func (l *loader) key(field, id, alg string, material []byte) *grant.Key {
	if l.err != nil {
		return nil
	}
	k, err := grant.NewKey(id, grant.Algorithm(alg), material)
	var e *sdk.Error
	switch {
	case errors.As(err, &e):
		l.fail(field+"."+e.Field, err)
		return nil
	case err != nil:
		l.fail(field, err)
		return nil
	}
	for _, other := range l.all {
		if other.ID() == id {
			l.refuse(sdk.Invalid, field+".keyid", "%q is %s's already; give each key an ID of its own", id, other.field)
		}
		if other.Same(k) {
			l.refuse(sdk.Unsuitable, field, "%q is the same key as %s, %q; generate another", id, other.field, other.ID())
		}
	}
	l.all = append(l.all, listedKey{k, field})
	return k
}

// secrets refuses an HMAC secret that is one of the public keys in some
// spelling: everybody could forge under it.
func (l *loader) secrets() {
	for _, h := range l.all {
		if h.Algorithm() != grant.HMACSHA256 {
			continue
		}
		for _, k := range l.all {
			if k.Algorithm() == grant.HMACSHA256 {
				continue
			}
			for _, s := range spellings(k.Key) {
				if bytes.Equal(bytes.TrimSpace(h.Material()), bytes.TrimSpace(s)) {
					l.refuse(sdk.Unsuitable, h.field+".secret", "%q is the public key %q, which is no secret; draw one at random", h.ID(), k.ID())
				}
			}
		}
	}
}

// spellings are the ways in which people write a public key.
func spellings(k *grant.Key) [][]byte {
	raw, der := k.Material(), k.Material()
	if k.Algorithm() == grant.Ed25519 {
		if b, err := x509.MarshalPKIXPublicKey(ed25519.PublicKey(raw)); err == nil {
			der = b
		}
	}
	out := [][]byte{raw, der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}
	for _, b := range out[:2] {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			out = append(out, []byte(enc.EncodeToString(b)))
		}
		out = append(out, []byte(hex.EncodeToString(b)))
	}
	return out
}

// disjoint refuses two issuers for one resource: either could issue the other's
// tokens.
func (l *loader) disjoint() {
	for n, p := range l.patterns {
		for _, q := range l.patterns[:n] {
			if l.err == nil && p.issuer != q.issuer && p.Intersects(q.Pattern) {
				l.refuse(sdk.Unsuitable, p.field, "%q of %q and %q of %q (%s) can name one resource; a resource has one issuer",
					p.Pattern, p.issuer, q.Pattern, q.issuer, q.field)
			}
		}
	}
}

func (l *loader) rootKeys(w *wireBundle) {
	s := &l.bundle.spec
	for n := range w.RootKeys {
		r := &w.RootKeys[n]
		field := fmt.Sprintf("rootKeys[%d]", n)
		if grant.Algorithm(r.Alg) == grant.HMACSHA256 {
			l.refuse(sdk.Unsuitable, field+".alg", "a gate that holds a root secret could sign its own bundle; use %s or %s", grant.Ed25519, grant.ECDSAP256)
			return
		}
		if k := l.key(field, r.KeyID, r.Alg, l.base64(field+".public", r.Public)); k != nil {
			l.bundle.roots[r.KeyID] = k
			s.RootKeys = append(s.RootKeys, k)
		}
	}
	if len(w.RootKeys) == 0 && w.RootThreshold == "" {
		return // a bundle that is replaced by hand only
	}
	n := l.number("rootThreshold", w.RootThreshold)
	if n < 1 || n > uint64(len(w.RootKeys)) {
		l.refuse(sdk.Invalid, "rootThreshold", "%d of %d root keys; it is at least 1 and at most all", n, len(w.RootKeys))
		return
	}
	s.RootThreshold = int(n)
}
