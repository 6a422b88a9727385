package sdk

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels, one per code that is an error, for errors.Is. They match in
// process and through a plug-in.
var (
	ErrStaleOwner       error = sentinel(StaleOwner)
	ErrSegmentSkipped   error = sentinel(SegmentSkipped)
	ErrRootMismatch     error = sentinel(RootMismatch)
	ErrQuarantined      error = sentinel(Quarantined)
	ErrAlreadyApplied   error = sentinel(AlreadyApplied)
	ErrUnauthenticated  error = sentinel(Unauthenticated)
	ErrMalformed        error = sentinel(Malformed)
	ErrResourceMismatch error = sentinel(ResourceMismatch)
	ErrOwnerMismatch    error = sentinel(OwnerMismatch)
	ErrNotHeld          error = sentinel(NotHeld)
	ErrRevoked          error = sentinel(Revoked)
	ErrPolicyStale      error = sentinel(PolicyStale)
	ErrFenceRegression  error = sentinel(FenceRegression)
	ErrMutationUnknown  error = sentinel(MutationUnknown)
	ErrNotApplied       error = sentinel(NotApplied)
	ErrInvalid          error = sentinel(Invalid)
	ErrTooLarge         error = sentinel(TooLarge)
	ErrUnsupported      error = sentinel(Unsupported)
	ErrUnsuitable       error = sentinel(Unsuitable)
	ErrClosed           error = sentinel(Closed)
	ErrNotFound         error = sentinel(NotFound)
)

type sentinel Code

func (s sentinel) Error() string { return Code(s).String() }

// Error is every error that a FencedStore or the gate returns. Act on the
// code, never on the text.
type Error struct {
	Code  Code   // never zero, never ACCEPTED or REPLAYED
	Field string // what was wrong: a field, flag, table or permission; may be empty
	Msg   string // what was found and what to do about it, for a person

	// Alarm says that FENCE_REGRESSION was seen beside Code; errors.Is matches
	// both.
	Alarm bool

	// Observed is what the store held when it refused; Highest 0 if it was not
	// read.
	Observed FenceState
	// Receipt is the original receipt of the operation where there is one.
	Receipt *Receipt

	// Err is the cause (a client library's error, a context's), may be nil.
	Err error
}

// Errorf makes an Error. A %w verb in format sets the cause.
func Errorf(code Code, field, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Field: field, Msg: err.Error(), Err: errors.Unwrap(err)}
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Code.String())
	if e.Alarm && e.Code != FenceRegression {
		b.WriteString("+FENCE_REGRESSION")
	}
	if e.Field != "" {
		b.WriteString(": ")
		b.WriteString(e.Field)
	}
	if e.Msg != "" {
		b.WriteString(": ")
		b.WriteString(e.Msg)
	} else if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap yields the sentinel of the code (and of the alarm), then the cause.
func (e *Error) Unwrap() []error {
	out := make([]error, 0, 3)
	out = append(out, sentinel(e.Code))
	if e.Alarm && e.Code != FenceRegression {
		out = append(out, ErrFenceRegression)
	}
	if e.Err != nil {
		out = append(out, e.Err)
	}
	return out
}

// CodeOf returns the code of the first Error in err's tree; 0 when err is nil
// or has none. A caller of a write reads 0 with a non-nil err as
// MUTATION_UNKNOWN.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var s sentinel
	if errors.As(err, &s) {
		return Code(s)
	}
	return 0
}

// WriteCode is CodeOf for the answer to a write: nil is 0, and any error that
// carries no code known to this version is MUTATION_UNKNOWN (O1).
func WriteCode(err error) Code {
	if err == nil {
		return 0
	}
	if c := CodeOf(err); c.Refused() {
		return c
	}
	return MutationUnknown
}

func asError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
