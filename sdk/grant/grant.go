package grant

import (
	"errors"
	"strconv"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

const (
	grantSchema = "lockGrant.v1"
	proofSchema = "statusProof.v1"

	// MaxTTL is the longest lease that a grant can name.
	MaxTTL = 24 * time.Hour

	timeLayout = "2006-01-02T15:04:05Z"
	// maxShortText bounds what is read as a number or a time, and so what of it
	// an error can repeat.
	maxShortText = 32
)

// Grant is the content of a lockGrant.v1. It never changes: renewing extends
// the lease and yields a new status proof.
type Grant struct {
	Audience         string // the one store that it is for
	Resource         sdk.ResourceID
	Owner            string // workload identity
	RequestID        string
	Lease            string
	Category         string
	Root             sdk.Digest // the job
	Fence            sdk.Token
	Backend          string // kind of coordinator, for people
	BackendRevision  uint64
	PolicyGeneration uint64
	Issuer           string
	IssuerEpoch      uint64
	TTL              time.Duration // of the lease, whole milliseconds, up to MaxTTL
	IssuedAt         time.Time     // UTC, whole seconds
}

// State is what the registry says of a lease. Only StateHeld lets a write pass;
// every other name, known or not, does not.
type State string

const (
	StateHeld     State = "HELD"
	StateReleased State = "RELEASED"
	StateExpired  State = "EXPIRED"
	StateUnknown  State = "UNKNOWN"
)

// Proof is the content of a statusProof.v1.
type Proof struct {
	Grant           sdk.Digest // of the grant's payload bytes
	Resource        sdk.ResourceID
	Fence           sdk.Token
	State           State
	BackendRevision uint64
	Issuer          string
	IssuerEpoch     uint64
	IssuedAt        time.Time // UTC, whole seconds
	ExpiresAt       time.Time // UTC, whole seconds
}

type wireGrant struct {
	Schema           string `json:"schema"`
	Audience         string `json:"audience"`
	Resource         string `json:"resource"`
	Owner            string `json:"owner"`
	RequestID        string `json:"requestId"`
	Lease            string `json:"lease"`
	Category         string `json:"category"`
	OperationRoot    string `json:"operationRoot"`
	FenceToken       string `json:"fenceToken"`
	Backend          string `json:"backend"`
	BackendRevision  string `json:"backendRevision"`
	PolicyGeneration string `json:"policyGeneration"`
	Issuer           string `json:"issuer"`
	IssuerEpoch      string `json:"issuerEpoch"`
	TTLMillis        string `json:"ttlMillis"`
	IssuedAt         string `json:"issuedAt"`
}

type wireProof struct {
	Schema          string `json:"schema"`
	GrantDigest     string `json:"grantDigest"`
	Resource        string `json:"resource"`
	FenceToken      string `json:"fenceToken"`
	State           string `json:"state"`
	BackendRevision string `json:"backendRevision"`
	Issuer          string `json:"issuer"`
	IssuerEpoch     string `json:"issuerEpoch"`
	IssuedAt        string `json:"issuedAt"`
	ExpiresAt       string `json:"expiresAt"`
}

// reader parses fields one after the other and keeps the first error.
type reader struct{ err error }

// fail records the first error, as MALFORMED of the field.
func (r *reader) fail(field string, err error) {
	if r.err == nil && err != nil {
		msg := err.Error()
		var e *sdk.Error
		if errors.As(err, &e) {
			msg = e.Msg
		}
		r.err = malformed(field, "%s", msg)
	}
}

func (r *reader) schema(got, want string) {
	if got != want {
		r.fail("schema", malformed("schema", "%q is not %q", clip(got), want))
	}
}

func (r *reader) name(field, s string) string {
	r.fail(field, sdk.ValidateName(field, s))
	return s
}

func (r *reader) resource(s string) sdk.ResourceID {
	id, err := sdk.ParseResourceID(s)
	r.fail("resource", err)
	return id
}

func (r *reader) token(s string) sdk.Token {
	if !r.short("fenceToken", s) {
		return 0
	}
	t, err := sdk.ParseToken(s)
	r.fail("fenceToken", err)
	return t
}

// short refuses what is missing or longer than any number or time.
func (r *reader) short(field, s string) bool {
	switch {
	case s == "":
		r.fail(field, malformed(field, "missing"))
	case len(s) > maxShortText:
		r.fail(field, malformed(field, "%d bytes; it has up to %d", len(s), maxShortText))
	default:
		return true
	}
	return false
}

func (r *reader) digest(field, s string) sdk.Digest {
	d, err := sdk.ParseDigest(s)
	r.fail(field, err)
	return d
}

func (r *reader) number(field, s string) uint64 {
	if !r.short(field, s) {
		return 0
	}
	n, err := sdk.ParseDecimal(field, s)
	r.fail(field, err)
	return n
}

func (r *reader) time(field, s string) time.Time {
	if !r.short(field, s) {
		return time.Time{}
	}
	t, err := time.Parse(timeLayout, s)
	// The layout alone would let a fraction of a second pass.
	if err != nil || t.Format(timeLayout) != s {
		r.fail(field, malformed(field, "%q is not a UTC time in whole seconds such as 2026-07-19T10:00:00Z", s))
		return time.Time{}
	}
	return t
}

// unmarshal reads the JSON of a payload, bounded before it is parsed.
func unmarshal(what string, payload []byte, v any) error {
	if len(payload) == 0 || len(payload) > MaxEnvelopeBytes {
		return malformed(what, "%d bytes; it has 1 to %d", len(payload), MaxEnvelopeBytes)
	}
	return under(what, Unmarshal(payload, v))
}

// ParseGrant reads the payload of a lockGrant.v1; MALFORMED names the field.
func ParseGrant(payload []byte) (*Grant, error) {
	var w wireGrant
	if err := unmarshal("grant", payload, &w); err != nil {
		return nil, err
	}
	var r reader
	r.schema(w.Schema, grantSchema)
	g := &Grant{
		Audience:         r.name("audience", w.Audience),
		Resource:         r.resource(w.Resource),
		Owner:            r.name("owner", w.Owner),
		RequestID:        r.name("requestId", w.RequestID),
		Lease:            r.name("lease", w.Lease),
		Category:         r.name("category", w.Category),
		Root:             r.digest("operationRoot", w.OperationRoot),
		Fence:            r.token(w.FenceToken),
		Backend:          r.name("backend", w.Backend),
		BackendRevision:  r.number("backendRevision", w.BackendRevision),
		PolicyGeneration: r.number("policyGeneration", w.PolicyGeneration),
		Issuer:           r.name("issuer", w.Issuer),
		IssuerEpoch:      r.number("issuerEpoch", w.IssuerEpoch),
		IssuedAt:         r.time("issuedAt", w.IssuedAt),
	}
	ttl := r.number("ttlMillis", w.TTLMillis)
	if ttl < 1 || ttl > uint64(MaxTTL.Milliseconds()) {
		r.fail("ttlMillis", malformed("ttlMillis", "%d is outside 1 to %d", ttl, MaxTTL.Milliseconds()))
		ttl = 0
	}
	g.TTL = time.Duration(ttl) * time.Millisecond
	if r.err != nil {
		return nil, r.err
	}
	return g, nil
}

// Encode writes the payload of a lockGrant.v1. What ParseGrant would refuse is
// MALFORMED here too.
func (g *Grant) Encode() ([]byte, error) {
	b, err := json.Marshal(wireGrant{
		Schema: grantSchema, Audience: g.Audience, Resource: string(g.Resource), Owner: g.Owner,
		RequestID: g.RequestID, Lease: g.Lease, Category: g.Category, OperationRoot: g.Root.String(),
		FenceToken: g.Fence.String(), Backend: g.Backend, BackendRevision: decimal(g.BackendRevision),
		PolicyGeneration: decimal(g.PolicyGeneration), Issuer: g.Issuer, IssuerEpoch: decimal(g.IssuerEpoch),
		TTLMillis: strconv.FormatInt(g.TTL.Milliseconds(), 10), IssuedAt: g.IssuedAt.UTC().Format(timeLayout),
	})
	switch {
	case err != nil:
		return nil, malformed("grant", "a field is not UTF-8")
	case g.TTL%time.Millisecond != 0:
		return nil, malformed("ttlMillis", "%v is not in whole milliseconds", g.TTL)
	case g.IssuedAt.Nanosecond() != 0:
		return nil, malformed("issuedAt", "not in whole seconds")
	}
	if _, err = ParseGrant(b); err != nil {
		return nil, err
	}
	return b, nil
}

// ParseProof reads the payload of a statusProof.v1; MALFORMED names the field.
func ParseProof(payload []byte) (*Proof, error) {
	var w wireProof
	if err := unmarshal("status", payload, &w); err != nil {
		return nil, err
	}
	var r reader
	r.schema(w.Schema, proofSchema)
	p := &Proof{
		Grant:           r.digest("grantDigest", w.GrantDigest),
		Resource:        r.resource(w.Resource),
		Fence:           r.token(w.FenceToken),
		State:           State(r.name("state", w.State)),
		BackendRevision: r.number("backendRevision", w.BackendRevision),
		Issuer:          r.name("issuer", w.Issuer),
		IssuerEpoch:     r.number("issuerEpoch", w.IssuerEpoch),
		IssuedAt:        r.time("issuedAt", w.IssuedAt),
		ExpiresAt:       r.time("expiresAt", w.ExpiresAt),
	}
	if r.err != nil {
		return nil, r.err
	}
	return p, nil
}

// Encode writes the payload of a statusProof.v1. What ParseProof would refuse
// is MALFORMED here too.
func (p *Proof) Encode() ([]byte, error) {
	b, err := json.Marshal(wireProof{
		Schema: proofSchema, GrantDigest: p.Grant.String(), Resource: string(p.Resource), FenceToken: p.Fence.String(),
		State: string(p.State), BackendRevision: decimal(p.BackendRevision), Issuer: p.Issuer, IssuerEpoch: decimal(p.IssuerEpoch),
		IssuedAt: p.IssuedAt.UTC().Format(timeLayout), ExpiresAt: p.ExpiresAt.UTC().Format(timeLayout),
	})
	switch {
	case err != nil:
		return nil, malformed("status", "a field is not UTF-8")
	case p.IssuedAt.Nanosecond() != 0:
		return nil, malformed("issuedAt", "not in whole seconds")
	case p.ExpiresAt.Nanosecond() != 0:
		return nil, malformed("expiresAt", "not in whole seconds")
	}
	if _, err = ParseProof(b); err != nil {
		return nil, err
	}
	return b, nil
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
