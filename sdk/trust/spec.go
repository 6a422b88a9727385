package trust

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Spec is the content of a bundle, for tools that write one: take a bundle's
// own, change it, raise the generation, and give it to New.
type Spec struct {
	Generation        uint64 // 1 … 2^63−1
	Audience          string // the one store that the gate is in front of
	PolicyGenerations []uint64
	Skew              time.Duration // whole milliseconds
	MaxProof          time.Duration // whole milliseconds
	Issuers           []Issuer
	RootKeys          []*grant.Key // never HMAC
	RootThreshold     int          // 0 exactly if there are no root keys
}

// Issuer is a registry and what it may grant.
type Issuer struct {
	Name          string
	Resources     []string // patterns, disjoint from the other issuers'
	MinEpoch      uint64
	RevokedEpochs []uint64
	Keys          []IssuerKey
}

// IssuerKey is a key and the one epoch that it signs for.
type IssuerKey struct {
	Key   *grant.Key
	Epoch uint64
}

// New makes a bundle of s; answers as Load.
func New(s Spec) (*Bundle, error) {
	b, err := s.encode()
	if err != nil {
		return nil, err
	}
	return Load(b)
}

// Spec returns a copy of the bundle's content.
func (b *Bundle) Spec() Spec {
	s := b.spec
	s.PolicyGenerations = slices.Clone(s.PolicyGenerations)
	s.RootKeys = slices.Clone(s.RootKeys)
	s.Issuers = slices.Clone(s.Issuers)
	for n := range s.Issuers {
		i := &s.Issuers[n]
		i.Resources, i.RevokedEpochs, i.Keys = slices.Clone(i.Resources), slices.Clone(i.RevokedEpochs), slices.Clone(i.Keys)
	}
	return s
}

// Encode writes the bundle as Load reads it. It contains the secrets of HMAC
// keys, if there are any.
func (b *Bundle) Encode() ([]byte, error) { return b.spec.encode() }

func (s *Spec) encode() ([]byte, error) {
	w := wireBundle{Generation: decimal(s.Generation), Audience: s.Audience, PolicyGenerations: decimals(s.PolicyGenerations)}
	var err error
	if w.SkewMillis, err = millis("skewMillis", s.Skew); err != nil {
		return nil, err
	}
	if w.MaxProofMillis, err = millis("maxProofMillis", s.MaxProof); err != nil {
		return nil, err
	}
	w.Issuers = []wireIssuer{}
	for n, i := range s.Issuers {
		keys := []wireKey{}
		for m, k := range i.Keys {
			if k.Key == nil {
				return nil, sdk.Errorf(sdk.Invalid, fmt.Sprintf("issuers[%d].keys[%d]", n, m), "missing")
			}
			material := base64.StdEncoding.EncodeToString(k.Key.Material())
			key := wireKey{KeyID: k.Key.ID(), Alg: string(k.Key.Algorithm()), Epoch: decimal(k.Epoch), Public: material}
			if k.Key.Algorithm() == grant.HMACSHA256 {
				key.Public, key.Secret = "", material
			}
			keys = append(keys, key)
		}
		resources := append([]string{}, i.Resources...)
		w.Issuers = append(w.Issuers, wireIssuer{i.Name, resources, decimal(i.MinEpoch), decimals(i.RevokedEpochs), keys})
	}
	for n, k := range s.RootKeys {
		if k == nil {
			return nil, sdk.Errorf(sdk.Invalid, fmt.Sprintf("rootKeys[%d]", n), "missing")
		}
		w.RootKeys = append(w.RootKeys, wireRoot{k.ID(), string(k.Algorithm()), base64.StdEncoding.EncodeToString(k.Material())})
	}
	if len(s.RootKeys) > 0 || s.RootThreshold != 0 {
		w.RootThreshold = strconv.Itoa(s.RootThreshold)
	}
	b, err := json.Marshal(w, jsontext.WithIndent("  "))
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "trust bundle", "a name is not UTF-8")
	}
	return b, nil
}

func millis(field string, d time.Duration) (string, error) {
	if d%time.Millisecond != 0 {
		return "", sdk.Errorf(sdk.Invalid, field, "%v is not in whole milliseconds", d)
	}
	return strconv.FormatInt(d.Milliseconds(), 10), nil
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func decimals(list []uint64) []string {
	out := make([]string, len(list))
	for n, v := range list {
		out[n] = decimal(v)
	}
	return out
}
