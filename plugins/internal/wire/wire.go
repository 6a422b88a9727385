// Package wire turns what the sdk knows into protocol messages and back. What
// comes from the other side is hostile until it is parsed: every length, range
// and name is checked, and nothing is repaired.
package wire

import (
	"slices"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/internal/seal"
	pb "github.com/fencedstore/fencedstore/plugins/proto/fencedstore/v1"
	"github.com/fencedstore/fencedstore/sdk"
)

const (
	// MaxMessageBytes is the longest message that either side takes: a mutation
	// or a value at the limits of the largest store, with room to spare.
	MaxMessageBytes = 64 << 20
	// maxText is the longest text for a person that is kept.
	maxText = 4 << 10
	// maxUnix bounds times to the years 1 to 9999.
	minUnixMS, maxUnixMS = -62135596800000, 253402300799999
)

// Text is s as it may cross the wire: valid UTF-8 and not endless.
func Text(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + " …"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func digest(field string, b []byte, zero bool) (d sdk.Digest, err error) {
	if len(b) == 0 && zero {
		return d, nil
	}
	if len(b) != len(d) {
		return d, sdk.Errorf(sdk.Invalid, field, "%d bytes; a digest has %d", len(b), len(d))
	}
	copy(d[:], b)
	return d, nil
}

func bytesOf(d sdk.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

func timeOf(ms int64) (time.Time, error) {
	if ms < minUnixMS || ms > maxUnixMS {
		return time.Time{}, sdk.Errorf(sdk.Invalid, "time", "%d ms is not within the years 1 to 9999", ms)
	}
	return time.UnixMilli(ms).UTC(), nil
}

// State is s as a message; nil for the empty state.
func State(s sdk.FenceState) *pb.FenceState {
	if s == (sdk.FenceState{}) {
		return nil
	}
	return &pb.FenceState{Highest: uint64(s.Highest), Grant: bytesOf(s.Grant), Root: bytesOf(s.Root),
		Segment: uint64(s.Segment), PolicyGeneration: s.Generations.Policy, TrustGeneration: s.Generations.Trust}
}

// ParseState reads a state; nil is the empty one.
func ParseState(p *pb.FenceState) (s sdk.FenceState, err error) {
	if p == nil {
		return s, nil
	}
	s.Highest, s.Segment = sdk.Token(p.Highest), sdk.Segment(p.Segment)
	s.Generations = sdk.Generations{Policy: p.PolicyGeneration, Trust: p.TrustGeneration}
	if s.Grant, err = digest("grant digest", p.Grant, p.Highest == 0); err != nil {
		return sdk.FenceState{}, err
	}
	if s.Root, err = digest("operation root", p.Root, p.Highest == 0); err != nil {
		return sdk.FenceState{}, err
	}
	switch {
	case s.Highest == 0 && s != (sdk.FenceState{Generations: s.Generations}):
		err = sdk.Errorf(sdk.Invalid, "fence state", "no fence, and yet a grant, job or segment")
	case s.Highest != 0 && (!s.Highest.Valid() || !s.Segment.Valid() || s.Grant.IsZero() || s.Root.IsZero()):
		err = sdk.Errorf(sdk.Invalid, "fence state", "fence %s, segment %s: out of range, or without grant or job", s.Highest, s.Segment)
	case s.Generations.Policy > uint64(sdk.MaxToken) || s.Generations.Trust > uint64(sdk.MaxToken):
		err = sdk.Errorf(sdk.Invalid, "generations", "above %s", sdk.MaxToken)
	}
	if err != nil {
		return sdk.FenceState{}, err
	}
	return s, nil
}

// Receipt is r as a message; nil for nil.
func Receipt(r *sdk.Receipt) *pb.Receipt {
	if r == nil {
		return nil
	}
	return &pb.Receipt{Resource: string(r.Resource), Operation: string(r.Operation), Fence: uint64(r.Fence),
		Segment: uint64(r.Segment), Root: bytesOf(r.Root), Grant: bytesOf(r.Grant), Payload: bytesOf(r.Payload),
		Owner: r.Owner, TimeUnixMs: r.Time.UnixMilli(), Result: r.Result}
}

// ParseReceipt reads a receipt; nil is nil.
func ParseReceipt(p *pb.Receipt) (*sdk.Receipt, error) {
	if p == nil {
		return nil, nil
	}
	r := &sdk.Receipt{Resource: sdk.ResourceID(p.Resource), Operation: sdk.OperationID(p.Operation),
		Fence: sdk.Token(p.Fence), Segment: sdk.Segment(p.Segment), Owner: p.Owner, Result: p.Result}
	var err error
	if r.Root, err = digest("operation root", p.Root, false); err != nil {
		return nil, err
	}
	if r.Grant, err = digest("grant digest", p.Grant, false); err != nil {
		return nil, err
	}
	if r.Payload, err = digest("payload digest", p.Payload, false); err != nil {
		return nil, err
	}
	if r.Time, err = timeOf(p.TimeUnixMs); err != nil {
		return nil, err
	}
	if err := r.Resource.Validate(); err != nil {
		return nil, err
	}
	if err := r.Operation.Validate(); err != nil {
		return nil, err
	}
	if !r.Fence.Valid() || !r.Segment.Valid() {
		return nil, sdk.Errorf(sdk.Invalid, "receipt", "fence %s, segment %s: out of range", r.Fence, r.Segment)
	}
	if len(r.Result) > sdk.MaxResultBytes {
		return nil, sdk.Errorf(sdk.Invalid, "result", "%d bytes; a receipt keeps up to %d", len(r.Result), sdk.MaxResultBytes)
	}
	return r, sdk.ValidateName("owner", r.Owner)
}

// Quarantine is q as a message.
func Quarantine(q *sdk.Quarantine) *pb.Quarantine {
	p := &pb.Quarantine{Fence: uint64(q.Fence), Segment: uint64(q.Segment), Operation: string(q.Operation),
		Payload: bytesOf(q.Payload), Resource: string(q.Resource), Grant: bytesOf(q.Grant), Owner: q.Owner,
		ResolvedBy: string(q.ResolvedBy), Dropped: q.Dropped}
	if q.Dropped == 0 {
		p.TimeUnixMs = q.Time.UnixMilli()
	}
	return p
}

// ParseQuarantine reads the records of r.
func ParseQuarantine(r sdk.ResourceID, list []*pb.Quarantine) ([]sdk.Quarantine, error) {
	var out []sdk.Quarantine
	for i, p := range list {
		q := sdk.Quarantine{Resource: sdk.ResourceID(p.GetResource()), Dropped: p.GetDropped()}
		if q.Resource != r {
			return nil, sdk.Errorf(sdk.Invalid, "quarantine", "a record of another resource")
		}
		if q.Dropped > 0 {
			if i != len(list)-1 {
				return nil, sdk.Errorf(sdk.Invalid, "quarantine", "a record that counts and is not the last")
			}
			return append(out, q), nil
		}
		q.Fence, q.Segment = sdk.Token(p.GetFence()), sdk.Segment(p.GetSegment())
		q.Operation, q.Owner, q.ResolvedBy = sdk.OperationID(p.GetOperation()), p.GetOwner(), sdk.OperationID(p.GetResolvedBy())
		var err error
		if q.Payload, err = digest("payload digest", p.GetPayload(), false); err != nil {
			return nil, err
		}
		if q.Grant, err = digest("grant digest", p.GetGrant(), false); err != nil {
			return nil, err
		}
		if q.Time, err = timeOf(p.GetTimeUnixMs()); err != nil {
			return nil, err
		}
		if err := q.Operation.Validate(); err != nil {
			return nil, err
		}
		if !q.Fence.Valid() || !q.Segment.Valid() {
			return nil, sdk.Errorf(sdk.Invalid, "quarantine", "fence %s, segment %s: out of range", q.Fence, q.Segment)
		}
		out = append(out, q)
	}
	return out, nil
}

// Admission is m as a message, whole but for a hook, which cannot cross.
func Admission(m *sdk.Mutation) *pb.Admission {
	p := &pb.Admission{Resource: string(m.Resource), Operation: string(m.Operation), Fence: uint64(m.Fence),
		Segment: uint64(m.Segment), Root: m.Root[:], Grant: m.Grant[:], Payload: m.Payload[:], Owner: m.Owner,
		TimeUnixMs: m.Time.UnixMilli(), Result: m.Result, PolicyGeneration: m.Generations.Policy,
		TrustGeneration: m.Generations.Trust, Seed: State(m.Seed), GrantEnvelope: m.GrantEnvelope,
		StatusEnvelope: m.StatusEnvelope}
	p.Effects = make([]*pb.Effect, len(m.Effects))
	for i := range m.Effects {
		p.Effects[i] = &pb.Effect{Kind: m.Effects[i].Kind, Body: m.Effects[i].Body}
	}
	return p
}

// ParseMutation reads what a host sent. INVALID: a field does not parse, or
// is one that this version does not know.
func ParseMutation(p *pb.Admission) (*sdk.Mutation, error) {
	if p == nil {
		return nil, sdk.Errorf(sdk.Invalid, "admission", "missing")
	}
	if len(p.ProtoReflect().GetUnknown()) > 0 {
		return nil, sdk.Errorf(sdk.Invalid, "admission", "it has a field that this plug-in does not know")
	}
	m := &sdk.Mutation{Resource: sdk.ResourceID(p.Resource), Operation: sdk.OperationID(p.Operation),
		Fence: sdk.Token(p.Fence), Segment: sdk.Segment(p.Segment), Owner: p.Owner, Result: p.Result,
		Generations:   sdk.Generations{Policy: p.PolicyGeneration, Trust: p.TrustGeneration},
		GrantEnvelope: p.GrantEnvelope, StatusEnvelope: p.StatusEnvelope}
	var err error
	if m.Root, err = digest("operation root", p.Root, false); err != nil {
		return nil, err
	}
	if m.Grant, err = digest("grant digest", p.Grant, false); err != nil {
		return nil, err
	}
	if m.Payload, err = digest("payload digest", p.Payload, false); err != nil {
		return nil, err
	}
	if m.Time, err = timeOf(p.TimeUnixMs); err != nil {
		return nil, err
	}
	if m.Seed, err = ParseState(p.Seed); err != nil {
		return nil, err
	}
	if len(p.Effects) > 0 {
		m.Effects = make([]sdk.Effect, len(p.Effects))
		for i, e := range p.Effects {
			if len(e.ProtoReflect().GetUnknown()) > 0 {
				return nil, sdk.Errorf(sdk.Invalid, "effect", "it has a field that this plug-in does not know")
			}
			m.Effects[i] = sdk.Effect{Kind: e.GetKind(), Body: e.GetBody()}
		}
	}
	return m, nil
}

// Admit seals m for the store of this process.
func Admit(m *sdk.Mutation) sdk.Admission { return sdk.NewAdmission(seal.Cut(), m) }

// Description is d as a message.
func Description(d *sdk.Description) *pb.Description {
	p := &pb.Description{Name: Text(d.Name), Version: Text(d.Version), Backend: Text(d.Backend),
		Environment: Text(string(d.Environment)), Layout: Text(d.Layout), Kinds: d.Kinds,
		Limits: &pb.Limits{Effects: uint64(d.Limits.Effects), ValueBytes: uint64(d.Limits.ValueBytes),
			TotalBytes: uint64(d.Limits.TotalBytes), Quarantine: uint64(d.Limits.Quarantine)}}
	for _, c := range sdk.Capabilities() {
		said, ok := d.Capabilities[c]
		if !ok {
			continue
		}
		p.Capabilities = append(p.Capabilities, &pb.Capability{Name: string(c), Support: pb.Support(said.Support), Reason: Text(said.Reason)})
	}
	return p
}

// ParseDescription reads a description. INVALID names what cannot be true.
func ParseDescription(p *pb.Description) (d sdk.Description, err error) {
	if p == nil {
		return d, sdk.Errorf(sdk.Invalid, "description", "missing")
	}
	d = sdk.Description{Name: p.Name, Version: Text(p.Version), Backend: Text(p.Backend),
		Environment: sdk.Environment(p.Environment), Layout: Text(p.Layout), Kinds: slices.Clone(p.Kinds),
		Capabilities: map[sdk.Capability]sdk.Declared{}}
	if !ValidName(d.Name) {
		return d, sdk.Errorf(sdk.Invalid, "description", "name %+q is not 1 to 64 of a-z 0-9 _ -", Text(d.Name))
	}
	switch d.Environment {
	case sdk.Embedded, sdk.Emulator, sdk.Live:
	default:
		return d, sdk.Errorf(sdk.Invalid, "description", "environment %+q is none of embedded, emulator and live", Text(p.Environment))
	}
	for _, k := range sdk.PortableKinds() {
		if !slices.Contains(d.Kinds, k) {
			return d, sdk.Errorf(sdk.Invalid, "description", "the kind %s, which every store takes, is missing", k)
		}
	}
	if len(d.Kinds) > 1000 {
		return d, sdk.Errorf(sdk.Invalid, "description", "%d effect kinds", len(d.Kinds))
	}
	for _, c := range p.Capabilities {
		name := sdk.Capability(c.GetName())
		if !slices.Contains(sdk.Capabilities(), name) {
			continue // a newer version's
		}
		if _, twice := d.Capabilities[name]; twice {
			return d, sdk.Errorf(sdk.Invalid, "description", "capability %s is declared twice", name)
		}
		s := sdk.Unknown
		switch c.GetSupport() {
		case pb.Support_SUPPORT_SUPPORTED:
			s = sdk.Supported
		case pb.Support_SUPPORT_UNSUPPORTED:
			s = sdk.NotSupported
		}
		if s != sdk.Supported && c.GetReason() == "" {
			return d, sdk.Errorf(sdk.Invalid, "description", "capability %s is %s without a reason", name, s)
		}
		d.Capabilities[name] = sdk.Declared{Support: s, Reason: Text(c.GetReason())}
	}
	const most = 1 << 40
	l := p.Limits
	for _, n := range []uint64{l.GetEffects(), l.GetValueBytes(), l.GetTotalBytes(), l.GetQuarantine()} {
		if n > most {
			return d, sdk.Errorf(sdk.Invalid, "description", "a limit of %d", n)
		}
	}
	d.Limits = sdk.Limits{Effects: int(l.GetEffects()), ValueBytes: int(l.GetValueBytes()),
		TotalBytes: int64(l.GetTotalBytes()), Quarantine: int(l.GetQuarantine())}
	return d, nil
}

// ValidName reports whether s is 1 to 64 of a-z 0-9 _ -.
func ValidName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}
