package sdk

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencedstore/fencedstore/sdk/internal/nfc"
)

const (
	// MaxToken is the highest fence token, 2^63−1.
	MaxToken Token = 1<<63 - 1
	// MaxSegment is the last position under one fence, 2^62.
	MaxSegment Segment = 1 << 62
	// MaxResourceBytes is the longest resource ID.
	MaxResourceBytes = 512
	// MaxNameBytes is the longest operation ID, owner, audience and the like.
	MaxNameBytes = 256
)

// ResourceID names what is protected: 1 to 512 bytes of UTF-8 in NFC, segments
// split by '/', none of them empty, "." or "..", no control character and none
// of % \ ? # ;. Case counts. A non-canonical ID is refused, never repaired: two
// spellings must not become two fences.
type ResourceID string

// ParseResourceID returns s as a ResourceID, or INVALID with what is wrong.
func ParseResourceID(s string) (ResourceID, error) {
	r := ResourceID(s)
	return r, r.Validate()
}

// Validate returns INVALID unless r is canonical.
func (r ResourceID) Validate() error {
	s := string(r)
	if len(s) == 0 || len(s) > MaxResourceBytes {
		return Errorf(Invalid, "resource", "%d bytes; a resource ID has 1 to %d", len(s), MaxResourceBytes)
	}
	start := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && s[i] != '/' {
			switch c := s[i]; {
			case c < 0x20 || c == 0x7f:
				return Errorf(Invalid, "resource", "%q has a control character at byte %d", s, i)
			case c == '%' || c == '\\' || c == '?' || c == '#' || c == ';':
				return Errorf(Invalid, "resource", "%q has %q at byte %d; use letters, digits, '-', '_' or ':' instead", s, c, i)
			}
			continue
		}
		switch s[start:i] {
		case "":
			return Errorf(Invalid, "resource", "%q has an empty segment; write it without leading, trailing or doubled '/'", s)
		case ".", "..":
			return Errorf(Invalid, "resource", "%q has a %q segment; write the ID without it", s, s[start:i])
		}
		start = i + 1
	}
	if !nfc.IsNormal(s) {
		return Errorf(Invalid, "resource", "%+q is not UTF-8 in normal form NFC; normalize it where it is made", s)
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return Errorf(Invalid, "resource", "%+q has a control character at byte %d", s, i)
	}
	return nil
}

// Token is a fence token: 1 … 2^63−1 per resource, from the registry's
// linearizable sequence. 0 is no token.
type Token uint64

// Valid reports whether t is within 1 … 2^63−1.
func (t Token) Valid() bool { return t >= 1 && t <= MaxToken }

// String returns t in decimal.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// ParseToken reads a token from its exact decimal form: digits only, no sign,
// no leading zero, no fraction, no exponent.
func ParseToken(s string) (Token, error) {
	n, err := parseDecimal("fence token", s)
	if err != nil {
		return 0, err
	}
	if t := Token(n); t.Valid() {
		return t, nil
	}
	return 0, Errorf(Invalid, "fence token", "%s is outside 1 to %s", s, MaxToken)
}

// ParseDecimal reads a non-negative integer below 2^64 from its exact decimal
// form; field names it in the error.
func ParseDecimal(field, s string) (uint64, error) { return parseDecimal(field, s) }

func parseDecimal(field, s string) (uint64, error) {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, Errorf(Invalid, field, "%q is not a decimal integer", s)
		}
	}
	if len(s) > 1 && s[0] == '0' {
		return 0, Errorf(Invalid, field, "%q has a leading zero", s)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, Errorf(Invalid, field, "%q is not a decimal integer below 2^64", s)
	}
	return n, nil
}

// Segment is the position of a mutation under its fence: 1, 2, 3, … 2^62.
// 0 is no position.
type Segment uint64

// Valid reports whether s is within 1 … 2^62.
func (s Segment) Valid() bool { return s >= 1 && s <= MaxSegment }

// String returns s in decimal.
func (s Segment) String() string { return strconv.FormatUint(uint64(s), 10) }

// Digest is a SHA-256. The zero Digest stands for "none" and is never a valid
// grant, root or payload: it is what an ID that nobody set looks like.
type Digest [sha256.Size]byte

const digestPrefix = "sha256:"

// SumDigest returns the SHA-256 of b.
func SumDigest(b []byte) Digest { return sha256.Sum256(b) }

// ParseDigest reads "sha256:" and 64 lower-case hex digits, not all zero.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	hexa, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(hexa) != 2*len(d) || strings.ToLower(hexa) != hexa {
		return Digest{}, Errorf(Invalid, "digest", "%q is not \"sha256:\" and 64 lower-case hex digits", clip(s))
	}
	if _, err := hex.Decode(d[:], []byte(hexa)); err != nil {
		return Digest{}, Errorf(Invalid, "digest", "%q is not \"sha256:\" and 64 lower-case hex digits", clip(s))
	}
	if d.IsZero() {
		return Digest{}, Errorf(Invalid, "digest", "all zero, which is what an unset ID looks like; hash something that names the job")
	}
	return d, nil
}

// IsZero reports whether d is the zero Digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns "sha256:" and 64 hex digits, or "" for the zero Digest.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return digestPrefix + hex.EncodeToString(d[:])
}

// MarshalText is String as bytes.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDigest, and takes "" for the zero Digest.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*d = Digest{}
		return nil
	}
	*d, err = ParseDigest(string(b))
	return err
}

// OperationID names one logical mutation of a resource, chosen by the
// application and stable across owners: 1 to 256 bytes of UTF-8 without control
// characters. IDs that begin with "fencedstore." are reserved.
type OperationID string

const (
	reservedPrefix = "fencedstore."
	claimPrefix    = reservedPrefix + "claim:"
)

// Validate returns INVALID unless op is well formed; reserved IDs pass, and the
// gate refuses them.
func (op OperationID) Validate() error { return ValidateName("operation", string(op)) }

// Reserved reports whether op begins with "fencedstore.".
func (op OperationID) Reserved() bool { return strings.HasPrefix(string(op), reservedPrefix) }

// ClaimID is the operation ID of the claim under a grant: a mutation with
// segment 1 and no effects that raises the fence and shuts the old owner out.
func ClaimID(grant Digest) OperationID { return OperationID(claimPrefix + grant.String()) }

// ValidateName checks one of the free names (operation, owner, audience, …):
// 1 to 256 bytes of UTF-8 without control characters.
func ValidateName(field, s string) error {
	if len(s) == 0 || len(s) > MaxNameBytes {
		return Errorf(Invalid, field, "%d bytes; it has 1 to %d", len(s), MaxNameBytes)
	}
	return validateText(field, s)
}

func validateText(field, s string) error {
	if !utf8.ValidString(s) {
		return Errorf(Invalid, field, "%+q is not UTF-8", clip(s))
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return Errorf(Invalid, field, "%+q has a control character at byte %d", clip(s), i)
	}
	return nil
}

// clip keeps hostile input short in messages.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
