// Package registry issues what a worker needs to write: a coordinator decides who
// holds a resource and draws the fence token, the registry signs it.
package registry

import (
	"bytes"
	"context"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

const (
	// Retention is how long a request is remembered after its lease ended (R2).
	Retention = 24 * time.Hour
	// MaxNoteBytes bounds Params and Note, each.
	MaxNoteBytes = 4 << 10
)

// Coordinator decides who holds a resource, and counts. It keeps R1, R2, R4, R6
// and its part of R5; the registry over it keeps the rest. Adapters implement it
// with one linearizable step of their backend each.
//
// All methods may be called at the same time, by many handles in many processes.
// A context that is done ends a call promptly. Every error is or wraps an
// *[sdk.Error]; besides the numbered ones there is INVALID for a value out of
// range and CLOSED. Nothing is answered from a cache.
type Coordinator interface {
	// Acquire takes the resource for one owner and draws the next token of its
	// sequence, in one atomic step.
	//
	//  1. record, nil, State HELD: granted, by this call or by an earlier one with
	//     the same key. Token is above every token ever drawn for the resource and
	//     above every floor raised; nobody else holds it.
	//  2. record, nil, State EXPIRED or RELEASED: the key was granted before and
	//     its lease has ended. It is never granted again (R2), for [Retention]
	//     after the end or longer.
	//  3. zero, INVALID: the key was granted with another TTL or other Params, or a
	//     value is out of range.
	//  4. zero, NOT_HELD: somebody else holds the resource or waits for it, and
	//     Wait is false. Nothing was left behind.
	//  5. zero, FENCE_REGRESSION: the sequence is below Floor, or below what this
	//     handle has seen: the backend went back. No token was drawn.
	//  6. zero, UNSUITABLE: the sequence is exhausted, for good, or the backend
	//     cannot keep a law.
	//  7. zero, NOT_APPLIED: proved that nothing was granted and nothing will be.
	//     A wait that the context ended is 7 where the place in the queue is
	//     proved to be given up, else 8.
	//  8. zero, MUTATION_UNKNOWN: everything else. Ask again with the same key
	//     (L4).
	//
	// Waiters are served in the order in which they came, and the end of a lease
	// wakes one of them.
	Acquire(ctx context.Context, a Acquisition) (Record, error)

	// Renew extends a held lease to its full TTL from now.
	//
	//  1. record, nil, State HELD.
	//  2. record, NOT_HELD: the lease has ended; State says how. It never comes
	//     back.
	//  3. zero, NOT_FOUND: nothing was granted under this key and token.
	//  4. zero, NOT_APPLIED or MUTATION_UNKNOWN: the lease may have been extended
	//     and may end when it would have ended.
	Renew(ctx context.Context, ref Ref) (Record, error)

	// Release ends a lease; that is all that it does (R6).
	//
	//  1. record, nil, State RELEASED, or EXPIRED if it had ended by itself.
	//     Releasing again is 1.
	//  2. zero, NOT_FOUND: nothing was granted under this key and token; nothing
	//     changed.
	//  3. zero, NOT_APPLIED or MUTATION_UNKNOWN.
	Release(ctx context.Context, ref Ref) (Record, error)

	// Status reads what is known of a grant, linearizable with every other call.
	//
	//  1. record, nil: State is HELD, RELEASED or EXPIRED.
	//  2. zero, NOT_FOUND: nothing was granted under this key and token, or it was
	//     forgotten after Retention.
	//  3. zero, NOT_APPLIED: the backend could not be asked.
	Status(ctx context.Context, ref Ref) (Record, error)

	// ByRequest is Status for who does not know the token: after a lost Acquire.
	// NOT_FOUND does not prove that an Acquire under way will not be granted.
	ByRequest(ctx context.Context, key Key) (Record, error)

	// Highest is the highest token drawn for r or raised to, 0 if none,
	// linearizable with every Acquire and Raise.
	//
	//  1. token, nil.
	//  2. 0, FENCE_REGRESSION: it is below what this handle has seen.
	//  3. 0, NOT_APPLIED: the backend could not be asked.
	Highest(ctx context.Context, r sdk.ResourceID) (sdk.Token, error)

	// Raise puts the sequence of r to floor or above, so that the next token is
	// above floor. It never lowers: below what was drawn it changes nothing. A
	// lease that is held stays. It ends this handle's FENCE_REGRESSION of r once
	// the sequence is at or above all that the handle has seen.
	//
	//  1. the highest token afterwards, nil.
	//  2. 0, NOT_APPLIED or MUTATION_UNKNOWN; it may be called again.
	Raise(ctx context.Context, r sdk.ResourceID, floor sdk.Token) (sdk.Token, error)

	// Watch sends whenever the holder of r may have changed. It is a hint and no
	// more: it may miss changes and send without one, and silence says nothing.
	// The channel is closed when ctx is done or the watch is lost.
	Watch(ctx context.Context, r sdk.ResourceID) (<-chan struct{}, error)
}

// Key is what makes two requests the same: one key, one grant (R2).
type Key struct {
	Resource  sdk.ResourceID
	Owner     string // workload identity
	RequestID string // drawn once by the worker, before its first attempt
}

// Validate returns INVALID with the field that is out of range.
func (k Key) Validate() error {
	if err := k.Resource.Validate(); err != nil {
		return err
	}
	if err := sdk.ValidateName("owner", k.Owner); err != nil {
		return err
	}
	return sdk.ValidateName("request ID", k.RequestID)
}

// Ref names a grant.
type Ref struct {
	Key
	Token sdk.Token
}

// Validate returns INVALID with the field that is out of range.
func (r Ref) Validate() error {
	if !r.Token.Valid() {
		return sdk.Errorf(sdk.Invalid, "fence token", "%s is outside 1 to %s", r.Token, sdk.MaxToken)
	}
	return r.Key.Validate()
}

// Acquisition is what Acquire takes.
type Acquisition struct {
	Key
	TTL time.Duration // whole milliseconds, 1 ms to grant.MaxTTL

	// Params are compared when the key comes again: a difference is INVALID.
	Params []byte
	// Note is kept as the first call gave it, and not compared.
	Note []byte

	// Floor is the highest token that the caller knows of. A sequence below it has
	// gone back: FENCE_REGRESSION.
	Floor sdk.Token
	// Wait queues behind the holder until the context is done.
	Wait bool
}

// Validate returns INVALID with the field that is out of range.
func (a *Acquisition) Validate() error {
	switch {
	case a.TTL < time.Millisecond || a.TTL > grant.MaxTTL || a.TTL%time.Millisecond != 0:
		return sdk.Errorf(sdk.Invalid, "TTL", "%v is not in whole milliseconds from 1 ms to %v", a.TTL, grant.MaxTTL)
	case len(a.Params) > MaxNoteBytes || len(a.Note) > MaxNoteBytes:
		return sdk.Errorf(sdk.Invalid, "params", "%d and %d bytes; each has up to %d", len(a.Params), len(a.Note), MaxNoteBytes)
	case a.Floor > sdk.MaxToken:
		return sdk.Errorf(sdk.Invalid, "floor", "%s is above %s", a.Floor, sdk.MaxToken)
	}
	return a.Key.Validate()
}

// Record is what a coordinator keeps of a grant. Only State, Until and Observed
// ever change. The slices are the caller's.
type Record struct {
	Ref
	Lease    string // the backend's name of the lease, 1 to 256 bytes
	Revision uint64 // the backend's, at which it was granted
	TTL      time.Duration
	Params   []byte
	Note     []byte

	State grant.State // HELD, RELEASED, EXPIRED
	// Until is how long the lease is held at least, by the coordinator's clock in
	// this process and counted from before the backend was asked; zero unless
	// HELD. Nothing is compared with another machine's clock.
	Until time.Time
	// Observed is the backend's revision at which State was read.
	Observed uint64
}

// Repeats returns INVALID unless a is the request that r answered.
func (r *Record) Repeats(a *Acquisition) error {
	switch {
	case r.TTL != a.TTL:
		return sdk.Errorf(sdk.Invalid, "TTL", "the request %q of %q was granted for %v and is asked for %v; a new request takes a new ID", a.RequestID, a.Owner, r.TTL, a.TTL)
	case !bytes.Equal(r.Params, a.Params):
		return sdk.Errorf(sdk.Invalid, "params", "the request %q of %q was granted with other parameters; a new request takes a new ID", a.RequestID, a.Owner)
	}
	return nil
}

// Clone returns r with slices of its own.
func (r Record) Clone() Record {
	r.Params, r.Note = bytes.Clone(r.Params), bytes.Clone(r.Note)
	return r
}

// The refusals that every coordinator answers alike.

// Busy is NOT_HELD for an Acquire that does not wait.
func Busy(k Key) error {
	return sdk.Errorf(sdk.NotHeld, "resource", "%q is held or waited for by another; wait, or come again", k.Resource)
}

// Unknown is NOT_FOUND for a key, with or without its token.
func Unknown(k Key) error {
	return sdk.Errorf(sdk.NotFound, "request ID", "nothing was granted to %q for %q under this request and token", k.Owner, k.Resource)
}

// Ended is NOT_HELD for a renewal after the end.
func Ended(r *Record) error {
	return sdk.Errorf(sdk.NotHeld, "lease", "%q has ended as %s; acquire again with a new request ID", r.Lease, r.State)
}

// WentBack is FENCE_REGRESSION for a sequence below what is known.
func WentBack(r sdk.ResourceID, at, known sdk.Token) error {
	return sdk.Errorf(sdk.FenceRegression, "fence token", "the sequence of %q stands at %s, and %s was issued or stored: the coordinator went back; stop its writers and raise the floor above the highest stored fence", r, at, known)
}

// Exhausted is UNSUITABLE for a sequence at its end.
func Exhausted(r sdk.ResourceID) error {
	return sdk.Errorf(sdk.Unsuitable, "fence token", "the sequence of %q has reached %s and is exhausted, for good; use another resource ID", r, sdk.MaxToken)
}
