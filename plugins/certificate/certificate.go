// Package certificate is what the suite found of a plug-in as a signed
// statement: an in-toto statement in a DSSE envelope, whose subject is the
// SHA-256 of the binary. docs/plugin-protocol.md describes the fields.
package certificate

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

const (
	// PayloadType is the envelope's.
	PayloadType = "application/vnd.in-toto+json"
	// StatementType and PredicateType name the forms.
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "urn:fencedstore:conformance:v1"
	// MaxBytes bounds an envelope before it is parsed.
	MaxBytes = 1 << 20
)

// What became of a law or a case.
const (
	Proven    = "proven"
	Failed    = "failed"
	NotProven = "not_proven"
)

// Statement is the in-toto statement.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"` // exactly one
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is the plug-in.
type Subject struct {
	Name   string `json:"name"` // the file's
	Digest Digest `json:"digest"`
}

// Digest is of the binary, or of a script's manifest.
type Digest struct {
	SHA256 string `json:"sha256"` // 64 hex digits in lower case
}

// Predicate is what was run and what was found.
type Predicate struct {
	Adapter Adapter   `json:"adapter"`
	Suite   string    `json:"suite"`
	Profile string    `json:"profile"` // quick, standard or release
	Seed    string    `json:"seed"`    // decimal
	Started time.Time `json:"started"`

	Certified bool   `json:"certified"`
	Verdict   string `json:"verdict"`
	Laws      []Law  `json:"laws"`
	Cases     []Case `json:"cases"`
	// Beyond is what this environment cannot prove, in sentences.
	Beyond  []string `json:"beyond"`
	Figures Figures  `json:"figures"`
}

// Adapter is what the plug-in said of itself.
type Adapter struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Backend     string `json:"backend"`     // the store's own version
	Environment string `json:"environment"` // embedded, emulator or live
}

// Law sums its cases up: failed if one failed, else not_proven if one was not
// proven, else proven.
type Law struct {
	ID      string   `json:"id"`
	Status  string   `json:"status"`
	Cases   int      `json:"cases"`
	Reasons []string `json:"reasons"` // why cases are not proven
}

// Case is one case of the suite.
type Case struct {
	ID     string `json:"id"`
	Law    string `json:"law"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Figures count what seeded schedules did; the last three are 0.
type Figures struct {
	Schedules         int64 `json:"schedules"`
	Steps             int64 `json:"steps"`
	StaleAccepted     int64 `json:"staleAccepted"`
	LostAccepted      int64 `json:"lostAccepted"`
	ReceiptMismatches int64 `json:"receiptMismatches"`
}

// Summarize returns the laws of cases, in the order of the first case of each.
func Summarize(cases []Case) []Law {
	var out []Law
	for _, c := range cases {
		i := slices.IndexFunc(out, func(l Law) bool { return l.ID == c.Law })
		if i < 0 {
			i = len(out)
			out = append(out, Law{ID: c.Law, Status: Proven, Reasons: []string{}})
		}
		l := &out[i]
		l.Cases++
		switch {
		case c.Status == Failed:
			l.Status = Failed
		case c.Status == NotProven && l.Status == Proven:
			l.Status = NotProven
		}
		if c.Status == NotProven && !slices.Contains(l.Reasons, c.Reason) {
			l.Reasons = append(l.Reasons, c.Reason)
		}
	}
	return out
}

// Beyond is what a run against an environment cannot prove.
func Beyond(e sdk.Environment) []string {
	if e != sdk.Emulator {
		return []string{}
	}
	return []string{
		"that the real service orders and isolates as the emulator does, under failure of its own nodes",
		"that what it acknowledged is durable there",
		"its limits, throttling and permissions",
	}
}

// Sign returns the signed envelope of s.
func Sign(s *Statement, by *grant.Signer) ([]byte, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "certificate", "%w", err)
	}
	return by.Sign(PayloadType, payload)
}

// Verify reads an envelope that one of the keys signed.
//
//   - MALFORMED: it is none, or says things that contradict each other.
//   - UNAUTHENTICATED: no signature of a key that counts holds; with the field
//     "key" where none is by such a key at all.
func Verify(envelope []byte, keys []*grant.Key) (*Statement, error) {
	e, err := grant.ParseEnvelopeMulti(envelope, MaxBytes)
	if err != nil {
		return nil, err
	}
	if e.PayloadType != PayloadType {
		return nil, sdk.Errorf(sdk.Malformed, "payloadType", "not that of an in-toto statement")
	}
	known, good := false, false
	for _, sig := range e.Signatures {
		for _, k := range keys {
			if k.ID() == sig.KeyID {
				known = true
				good = good || k.Verify(e.PayloadType, e.Payload, sig.Sig) == nil
			}
		}
	}
	switch {
	case !known:
		return nil, sdk.Errorf(sdk.Unauthenticated, "key", "signed by %q, which is none of the keys that count", e.Signatures[0].KeyID)
	case !good:
		return nil, sdk.Errorf(sdk.Unauthenticated, "signature", "does not hold: the certificate was changed after it was signed")
	}
	var s Statement
	if err := grant.Unmarshal(e.Payload, &s); err != nil {
		return nil, err
	}
	return &s, s.validate()
}

// validate checks form, and that nothing contradicts anything.
func (s *Statement) validate() error {
	p := &s.Predicate
	bad := func(field, format string, args ...any) error {
		return sdk.Errorf(sdk.Malformed, field, format, args...)
	}
	switch {
	case s.Type != StatementType:
		return bad("_type", "not %s", StatementType)
	case s.PredicateType != PredicateType:
		return bad("predicateType", "not %s", PredicateType)
	case len(s.Subject) != 1:
		return bad("subject", "%d; there is exactly one", len(s.Subject))
	case s.Subject[0].Name == "" || !lowerHex(s.Subject[0].Digest.SHA256):
		return bad("subject", "without a name or a SHA-256 of 64 hex digits in lower case")
	case p.Adapter.Name == "" || p.Suite == "":
		return bad("predicate", "without the adapter's name or the suite's version")
	case !slices.Contains([]string{string(sdk.Embedded), string(sdk.Emulator), string(sdk.Live)}, p.Adapter.Environment):
		return bad("environment", "none of embedded, emulator and live")
	case !slices.Equal(p.Beyond, Beyond(sdk.Environment(p.Adapter.Environment))):
		return bad("beyond", "not what %s cannot prove", p.Adapter.Environment)
	}
	seen := map[string]bool{}
	failed := 0
	for i, c := range p.Cases {
		switch {
		case c.ID == "" || c.Law == "" || seen[c.ID]:
			return bad("cases", "[%d] has no ID or law, or is listed twice", i)
		case c.Status != Proven && c.Status != Failed && c.Status != NotProven:
			return bad("cases", "[%d] is neither proven, failed nor not_proven", i)
		case c.Status == NotProven && c.Reason == "":
			return bad("cases", "[%d] is not proven without a reason", i)
		}
		if c.Status == Failed {
			failed++
		}
		seen[c.ID] = true
	}
	if !slices.EqualFunc(p.Laws, Summarize(p.Cases), sameLaw) {
		return bad("laws", "not what the cases say")
	}
	if p.Certified && (failed > 0 || len(p.Cases) == 0 || p.Figures.StaleAccepted+p.Figures.LostAccepted+p.Figures.ReceiptMismatches > 0) {
		return bad("certified", "though cases failed, or none ran")
	}
	return nil
}

func sameLaw(a, b Law) bool {
	return a.ID == b.ID && a.Status == b.Status && a.Cases == b.Cases && slices.Equal(a.Reasons, b.Reasons)
}

func lowerHex(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// Missing are those of the wanted case IDs that s does not list.
func (s *Statement) Missing(want []string) []string {
	var out []string
	for _, id := range want {
		if !slices.ContainsFunc(s.Predicate.Cases, func(c Case) bool { return c.ID == id }) {
			out = append(out, id)
		}
	}
	return out
}

// OlderThan reports whether version a (1.2.3) is older than b. A version that
// does not parse is older than all.
func OlderThan(a, b string) bool {
	x, y := numbers(a), numbers(b)
	return slices.Compare(x, y) < 0
}

func numbers(v string) (out []int) {
	for part := range strings.SplitSeq(v, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// Pretty is the statement for a person.
func (s *Statement) Pretty() ([]byte, error) {
	return json.Marshal(s, jsontext.WithIndent("  "))
}
