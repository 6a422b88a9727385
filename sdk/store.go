package sdk

import "context"

// FencedStore accepts a mutation of a resource only from its newest owner.
//
// All methods may be called at the same time from many goroutines; several
// handles, in one process or in many, may be open on the same data. Every
// method takes a resource that may be non-canonical and then answers INVALID.
// A context that is done ends the call promptly (O4). After Close every method
// but Describe and Close answers CLOSED. Every error is or wraps an *[Error].
type FencedStore interface {
	// Apply decides and commits in one atomic step (F1–F13). The Outcome's code
	// is that of the error, or ACCEPTED or REPLAYED when there is none.
	//
	//  1. ACCEPTED, nil: fence, segment, receipt and every effect are committed
	//     and durable. Outcome.Receipt is the new receipt, Observed the new state.
	//  2. REPLAYED, nil: the very same mutation was committed before, nothing
	//     changed. Outcome.Receipt is the original receipt.
	//  3. STALE_OWNER, SEGMENT_SKIPPED, ROOT_MISMATCH, ALREADY_APPLIED,
	//     FENCE_REGRESSION: nothing changed; the error and the Outcome carry
	//     Observed, and Receipt if the operation has one. FENCE_REGRESSION may
	//     come as Error.Alarm beside another refusal.
	//  4. QUARANTINED: as 3, and the quarantine record is durable. If the record
	//     could not be made durable the answer is NOT_APPLIED.
	//  5. INVALID, TOO_LARGE, UNSUPPORTED, CLOSED: the store was not touched.
	//  6. NOT_APPLIED: it is proved that nothing was and nothing will be applied;
	//     the same call may be made again.
	//  7. MUTATION_UNKNOWN: everything else, and any code that the caller does
	//     not know. In doubt between 6 and 7 it is 7.
	//  8. UNSUITABLE: the store's own records say that it cannot keep a law (a
	//     foreign layout, a damaged record); nothing was applied.
	//
	// When an earlier attempt inside this call may have reached the store, a
	// refusal is answered only after comparing the receipt: the call's own echo
	// is REPLAYED (O2).
	Apply(ctx context.Context, a Admission) (Outcome, error)

	// Inspect returns the fence state, linearizable with every Apply (F8).
	//
	//  1. state, nil; Highest is 0 if nothing was ever accepted.
	//  2. zero, FENCE_REGRESSION: the fence is missing though receipts or a
	//     marker show that there was one (F7).
	//  3. zero, INVALID, CLOSED, UNSUITABLE, or NOT_APPLIED: the store could not
	//     be asked.
	Inspect(ctx context.Context, r ResourceID) (FenceState, error)

	// Receipt returns the one receipt of op, linearizable with every Apply.
	//
	//  1. receipt, nil.
	//  2. zero, NOT_FOUND: no mutation with this operation was accepted before
	//     the call began. Whether one still may be is O3's matter.
	//  3. zero and a code as for Inspect. Never NOT_FOUND for a receipt that
	//     could not be read.
	Receipt(ctx context.Context, r ResourceID, op OperationID) (Receipt, error)

	// Read returns the value of a portable key inside the resource, linearizable
	// with every Apply. The slice is the caller's.
	//
	//  1. value, nil; an empty value is not nil.
	//  2. nil, NOT_FOUND: no such key.
	//  3. nil and a code as for Inspect.
	Read(ctx context.Context, r ResourceID, key string) ([]byte, error)

	// Quarantined returns the quarantine records of r in the order of fence,
	// segment, operation, payload, then (if any were dropped) one element that
	// counts those beyond the limit. No records is nil, nil.
	Quarantined(ctx context.Context, r ResourceID) ([]Quarantine, error)

	// Probe proves on the live store that its primitive works, that its
	// configuration keeps the laws and that this handle has the permissions that
	// it needs. It leaves no fence behind.
	//
	//  1. nil.
	//  2. UNSUITABLE: names what cannot be kept and what to change.
	//  3. CLOSED, or NOT_APPLIED: the store could not be asked.
	Probe(ctx context.Context) error

	// Describe returns the same on every call, also after Close. It does no I/O.
	Describe() Description

	// Close releases the handle; mutations under way end as MUTATION_UNKNOWN or
	// are waited for. A second Close returns nil.
	Close() error
}

// OpenFunc opens a store by DSN; every adapter has one.
//
//  1. store, nil.
//  2. INVALID: the DSN or an option does not parse; names the part.
//  3. UNSUITABLE: it is not a store of this adapter, or of a newer version, or
//     cannot keep the laws; nothing in it was changed.
//  4. NOT_APPLIED: it could not be reached.
type OpenFunc func(ctx context.Context, dsn string, opts OpenOptions) (FencedStore, error)
