package sdk

import "time"

// MaxResultBytes is the longest result that a receipt keeps for a later owner.
const MaxResultBytes = 64 << 10

// Generations are those of the policy and of the trust bundle under which a
// gate wrote. The fence record takes them at each takeover and never lowers
// them; a gate whose own are older refuses with POLICY_STALE (P1).
type Generations struct {
	Policy uint64
	Trust  uint64
}

// Max returns the higher of each.
func (g Generations) Max(o Generations) Generations {
	return Generations{Policy: max(g.Policy, o.Policy), Trust: max(g.Trust, o.Trust)}
}

// FenceState is what a store holds of a resource's ownership: the highest fence
// that it accepted, and under it the grant, the job and the last segment.
// Highest 0 means that nothing was ever accepted.
type FenceState struct {
	Highest     Token
	Grant       Digest // of the grant that took the highest fence
	Root        Digest // the job of that grant
	Segment     Segment
	Generations Generations
}

// Absent reports whether nothing was ever accepted.
func (s FenceState) Absent() bool { return s.Highest == 0 }

// Receipt is what an accepted mutation leaves, for ever.
type Receipt struct {
	Resource  ResourceID
	Operation OperationID
	Fence     Token
	Segment   Segment
	Root      Digest
	Grant     Digest
	Payload   Digest
	Owner     string
	Time      time.Time // the gate's clock at admission, UTC, whole milliseconds; for people, never for decisions
	Result    []byte    // up to 64 KiB that a later owner can reuse
}

// Echoes reports whether r is the receipt of exactly m: equal in operation,
// payload, fence, segment and grant (O2).
func (r *Receipt) Echoes(m *Mutation) bool {
	return r.Operation == m.Operation && r.Payload == m.Payload && r.Fence == m.Fence &&
		r.Segment == m.Segment && r.Grant == m.Grant
}

// QuarantineKey is what makes two quarantine records of a resource the same.
type QuarantineKey struct {
	Fence     Token
	Segment   Segment
	Operation OperationID
	Payload   Digest
}

// Quarantine is the record of a mutation that was refused because its position
// or its operation had been accepted with other content (F5). Records are
// append-only; the same attempt again is the same record.
type Quarantine struct {
	QuarantineKey
	Resource ResourceID
	Grant    Digest
	Owner    string
	Time     time.Time // the gate's clock at admission, UTC, whole milliseconds

	// ResolvedBy is the operation that settled it, empty while it is open.
	ResolvedBy OperationID
	// Dropped, in the last element that Quarantined returns and only there,
	// counts the records beyond Limits.Quarantine, of which nothing else is
	// kept; that element's other fields are zero but for Resource.
	Dropped uint64
}

// Outcome is the answer to a write.
type Outcome struct {
	// Code is the one of the error, or ACCEPTED or REPLAYED when there is none.
	Code Code
	// Receipt is this mutation's when Code is ACCEPTED or REPLAYED; otherwise
	// the original receipt of the operation where there is one.
	Receipt *Receipt
	// Observed is the fence state after the write, or the one that refused it.
	// Highest 0 if it is not known.
	Observed FenceState
}

// Refusal is the Outcome that goes with err: its code (MUTATION_UNKNOWN if it
// carries none), receipt and observed state.
func Refusal(err error) Outcome {
	out := Outcome{Code: WriteCode(err)}
	if e, ok := asError(err); ok {
		out.Receipt, out.Observed = e.Receipt, e.Observed
	}
	return out
}
