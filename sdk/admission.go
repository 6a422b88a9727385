package sdk

import (
	"context"
	"time"

	"github.com/fencedstore/fencedstore/internal/seal"
)

// Mutation is one write under a grant, as the gate has authenticated it.
type Mutation struct {
	Resource  ResourceID
	Operation OperationID
	Fence     Token
	Segment   Segment
	Root      Digest
	Grant     Digest // of the grant's payload bytes
	Payload   Digest // PayloadDigest, or InputDigest when Hook is set
	Owner     string
	Time      time.Time // the gate's clock, UTC, whole milliseconds

	Effects []Effect
	Result  []byte

	// Generations are the gate's own, for the fence record at a takeover.
	Generations Generations

	// Seed is the state to start from where the store has none: the fence that
	// shadow mode has seen. It is committed with the first accepted mutation.
	Seed FenceState

	// Hook, where set, takes the place of Effects: the store calls it inside the
	// transaction that moves the fence, with its own transaction handle, and
	// puts what it returns into the receipt as Result. It may run again. When it
	// fails nothing is applied.
	Hook Hook

	// GrantEnvelope and StatusEnvelope are the signed bytes, for a plug-in that
	// verifies for itself. Status is nil where a registry query took its place.
	GrantEnvelope  []byte
	StatusEnvelope []byte
}

// Hook is caller's code inside a store's transaction; tx is the adapter's own
// type (a *sql.Tx for SQL stores). Use gate.ApplyTx, which types it.
type Hook func(ctx context.Context, tx any) (result []byte, err error)

// IsClaim reports whether m is the claim under its own grant.
func (m *Mutation) IsClaim() bool {
	return m.Segment == 1 && m.Operation == ClaimID(m.Grant)
}

// Key is the key of the quarantine record that m would leave.
func (m *Mutation) Key() QuarantineKey {
	return QuarantineKey{Fence: m.Fence, Segment: m.Segment, Operation: m.Operation, Payload: m.Payload}
}

// Validate returns INVALID for the first field that is outside its range.
func (m *Mutation) Validate() error {
	if err := m.Resource.Validate(); err != nil {
		return err
	}
	if err := m.Operation.Validate(); err != nil {
		return err
	}
	if !m.Fence.Valid() {
		return Errorf(Invalid, "fence token", "%s is outside 1 to %s", m.Fence, MaxToken)
	}
	if !m.Segment.Valid() {
		return Errorf(Invalid, "segment", "%s is outside 1 to %s", m.Segment, MaxSegment)
	}
	if m.Root.IsZero() {
		return Errorf(Invalid, "operation root", "missing")
	}
	if m.Grant.IsZero() {
		return Errorf(Invalid, "grant digest", "missing")
	}
	if m.Payload.IsZero() {
		return Errorf(Invalid, "payload digest", "missing")
	}
	if err := ValidateName("owner", m.Owner); err != nil {
		return err
	}
	if len(m.Result) > MaxResultBytes {
		return Errorf(TooLarge, "result", "%d bytes; a receipt keeps up to %d", len(m.Result), MaxResultBytes)
	}
	if m.Generations.Policy > uint64(MaxToken) || m.Generations.Trust > uint64(MaxToken) {
		return Errorf(Invalid, "generations", "%d and %d; they go up to %s", m.Generations.Policy, m.Generations.Trust, MaxToken)
	}
	if m.Hook != nil && (len(m.Effects) > 0 || len(m.Result) > 0) {
		return Errorf(Invalid, "effects", "a hook takes the place of effects and result")
	}
	return validateEffects(m.Effects)
}

// Admission is a mutation that a gate let through. Only the gate (and, in this
// module, the plug-in server and the conformance suite) makes one; the zero
// value is INVALID in every store.
type Admission struct {
	m   *Mutation
	err error // of m.Validate, once
}

// NewAdmission seals m, which must not be changed afterwards. The key can be
// had inside this module only. A zero key gives the zero Admission.
func NewAdmission(k seal.Key, m *Mutation) Admission {
	if !k.Fits() || m == nil {
		return Admission{}
	}
	return Admission{m: m, err: m.Validate()}
}

// Mutation returns what was admitted, to be read and not written, or INVALID
// for the zero Admission and for fields out of range (TOO_LARGE for a result
// that no receipt can keep).
func (a Admission) Mutation() (*Mutation, error) {
	if a.m == nil {
		return nil, Errorf(Invalid, "admission", "empty; call gate.ApplyFencedMutation, which makes one from a signed grant")
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.m, nil
}
