package sdk

import "strconv"

// Code says how a call ended. The set is closed, numbered and append-only: a
// number is never used again, and the numbers cross the plug-in wire.
//
// The zero Code is no answer at all; on a write it reads as [MutationUnknown],
// as does every number that this version does not know.
type Code uint32

const (
	// Accepted: the mutation was committed by this call.
	Accepted Code = 1
	// Replayed: the same mutation had been committed before; nothing changed.
	Replayed Code = 2

	// StaleOwner: a newer owner has written; this grant is over for good (F1).
	StaleOwner Code = 3
	// SegmentSkipped: the segment is not the next one under its fence (F2, F3).
	SegmentSkipped Code = 4
	// RootMismatch: the fence belongs to another job (F3).
	RootMismatch Code = 5
	// Quarantined: the position or the operation was accepted with other
	// content; nothing was applied and the attempt is on record (F5).
	Quarantined Code = 6
	// AlreadyApplied: the operation has its one receipt from another position;
	// nothing changed and nothing was taken over (F10).
	AlreadyApplied Code = 7

	// Unauthenticated: signature, key, issuer or epoch do not hold (A1).
	Unauthenticated Code = 8
	// Malformed: the grant or proof is not exactly a lockGrant.v1 or
	// statusProof.v1 (A2).
	Malformed Code = 9
	// ResourceMismatch: audience, resource, root or category of the request are
	// not the grant's (A3).
	ResourceMismatch Code = 10
	// OwnerMismatch: the caller is not the grant's owner (A4).
	OwnerMismatch Code = 11
	// NotHeld: nothing shows that the lease is held now (A5). The same owner may
	// come again with a newer proof.
	NotHeld Code = 12
	// Revoked: the issuer's epoch is revoked (A6).
	Revoked Code = 13
	// PolicyStale: the grant's policy generation is not accepted, or this gate's
	// own policy or trust bundle is older than what the store has seen (A6, P1).
	PolicyStale Code = 14

	// FenceRegression: stored or issued fences went backwards, or one token was
	// issued twice. An alarm for a person; the resource stands still (F7, F13).
	FenceRegression Code = 15

	// MutationUnknown: the mutation may or may not have been, or may yet be,
	// applied. Look the receipt up; package sdk/reconcile says how (O1, O3).
	MutationUnknown Code = 16
	// NotApplied: proved that nothing was and nothing will be applied. The same
	// call may be made again as it is (O1).
	NotApplied Code = 17

	// Invalid: a value is outside its range or form; the error names the field.
	Invalid Code = 18
	// TooLarge: a value is beyond the store's declared limit.
	TooLarge Code = 19
	// Unsupported: the store does not offer this, and says so in its description.
	Unsupported Code = 20
	// Unsuitable: the store or its configuration cannot keep a law; the error
	// says which and what to do.
	Unsuitable Code = 21
	// Closed: the handle was closed.
	Closed Code = 22
	// NotFound: there is no such receipt or value.
	NotFound Code = 23
)

var codeNames = [...]string{
	Accepted: "ACCEPTED", Replayed: "REPLAYED",
	StaleOwner: "STALE_OWNER", SegmentSkipped: "SEGMENT_SKIPPED", RootMismatch: "ROOT_MISMATCH",
	Quarantined: "QUARANTINED", AlreadyApplied: "ALREADY_APPLIED",
	Unauthenticated: "UNAUTHENTICATED", Malformed: "MALFORMED", ResourceMismatch: "RESOURCE_MISMATCH",
	OwnerMismatch: "OWNER_MISMATCH", NotHeld: "NOT_HELD", Revoked: "REVOKED", PolicyStale: "POLICY_STALE",
	FenceRegression: "FENCE_REGRESSION",
	MutationUnknown: "MUTATION_UNKNOWN", NotApplied: "NOT_APPLIED",
	Invalid: "INVALID", TooLarge: "TOO_LARGE", Unsupported: "UNSUPPORTED", Unsuitable: "UNSUITABLE",
	Closed: "CLOSED", NotFound: "NOT_FOUND",
}

// Codes returns every code of this version in the order of its number.
func Codes() []Code {
	out := make([]Code, 0, len(codeNames)-1)
	for c := Accepted; c.Known(); c++ {
		out = append(out, c)
	}
	return out
}

// Known reports whether this version has a name for c.
func (c Code) Known() bool { return c >= Accepted && int(c) < len(codeNames) }

// String returns the code's upper-case name, as in design and reports.
func (c Code) String() string {
	if !c.Known() {
		return "CODE_" + strconv.FormatUint(uint64(c), 10)
	}
	return codeNames[c]
}

// ParseCode returns the code of a name that String gave.
func ParseCode(name string) (Code, error) {
	for _, c := range Codes() {
		if codeNames[c] == name {
			return c, nil
		}
	}
	return 0, Errorf(Invalid, "code", "%q is not the name of a code", name)
}

// Ok reports whether the mutation is in the store: ACCEPTED or REPLAYED.
func (c Code) Ok() bool { return c == Accepted || c == Replayed }

// Refused reports whether c, as a store's answer to a write, proves that this
// mutation changed nothing but perhaps the quarantine.
func (c Code) Refused() bool {
	return c.Known() && !c.Ok() && c != MutationUnknown
}
