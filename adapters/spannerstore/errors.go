package spannerstore

import (
	"errors"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// commitAnswers are the codes with which the server says that it has not
// committed and will not, each with what the caller is told. What is not listed
// is unknown: Unknown, DeadlineExceeded, Canceled, Unavailable, ResourceExhausted
// and Internal among others. ABORTED is run anew before it comes here.
//
// judged: the server says it of the transaction. The others it says at the door,
// and of that sending only: where the commit was perhaps sent before they prove
// nothing.
var commitAnswers = []struct {
	code   codes.Code
	means  sdk.Code
	judged bool
	advice string
}{
	{codes.InvalidArgument, sdk.Invalid, true, "an effect is not what the database takes, or has more mutation cells than a commit may"},
	{codes.FailedPrecondition, sdk.NotApplied, true, "an effect contradicts a constraint of the database"},
	{codes.AlreadyExists, sdk.NotApplied, true, "an effect inserts a row that is there"},
	{codes.OutOfRange, sdk.NotApplied, true, "an effect's value is out of range, or contradicts a CHECK"},
	{codes.Aborted, sdk.NotApplied, true, "other transactions were faster"},
	{codes.NotFound, sdk.NotApplied, true, "an effect updates a row that is not there, or the session ended"},
	{codes.PermissionDenied, sdk.Unsuitable, false, "the role may not write a table; see `adaptercheck schema` for the grants"},
	{codes.Unauthenticated, sdk.Unsuitable, false, "the credentials are not taken"},
	{codes.Unimplemented, sdk.Unsuitable, false, "the server lacks a function that is needed"},
}

// code is the status of an error, also of one that the client has wrapped.
func code(err error) codes.Code {
	var of interface{ GRPCStatus() *status.Status }
	if errors.As(err, &of) {
		return of.GRPCStatus().Code()
	}
	return spanner.ErrCode(err)
}

// commitError says what an error of a commit means; MUTATION_UNKNOWN unless it
// is on the list. again: the commit may have been sent before.
func commitError(err error, again bool) error {
	for _, a := range commitAnswers {
		if a.code == code(err) && (a.judged || !again) {
			return sdk.Errorf(a.means, "Spanner", "nothing was applied: %s: %w", a.advice, err)
		}
	}
	return sdk.Errorf(sdk.MutationUnknown, "Spanner", "the commit was sent and its answer does not tell what became of it: %w", err)
}

// readError is the error of a read, or of a transaction that came to no commit.
// [Store.asked] looks further into those that may come of tables that are not
// there.
func readError(err error) error {
	var own *sdk.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	switch code(err) {
	case codes.PermissionDenied:
		return sdk.Errorf(sdk.Unsuitable, "permission", "the role may not read or write a table; see `adaptercheck schema` for the grants: %w", err)
	case codes.Unauthenticated:
		return sdk.Errorf(sdk.Unsuitable, "credentials", "they are not taken: %w", err)
	case codes.Unimplemented:
		return sdk.Errorf(sdk.Unsuitable, "server", "it lacks a function that is needed: %w", err)
	}
	return sdk.Errorf(sdk.NotApplied, "Spanner", "%w", err)
}

// isAborted: the server gave the transaction up, and it may be run anew. An error
// of ours may wrap another transaction's ABORTED.
func isAborted(err error) bool {
	var own *sdk.Error
	return err != nil && !errors.As(err, &own) && code(err) == codes.Aborted
}

// isMissing: the row that was read is not there.
func isMissing(err error) bool { return errors.Is(err, spanner.ErrRowNotFound) }

func isAlreadyThere(err error) bool { return err != nil && code(err) == codes.AlreadyExists }

// mayBeTables: the server does not find or take what a request names. That may be
// a table, or the transaction itself.
func mayBeTables(err error) bool {
	var own *sdk.Error
	if err == nil || errors.As(err, &own) || isMissing(err) || isSessionGone(err) {
		return false
	}
	c := code(err)
	return c == codes.NotFound || c == codes.InvalidArgument
}

const sessionType = "type.googleapis.com/google.spanner.v1.Session"

// isSessionGone: the server does not know the client's session any more. The
// client itself goes on with it.
func isSessionGone(err error) bool {
	var own *sdk.Error
	if err == nil || errors.As(err, &own) || code(err) != codes.NotFound {
		return false
	}
	// The client's own error does not pass the details on, what it wraps has them.
	for ; err != nil; err = errors.Unwrap(err) {
		of, ok := err.(interface{ GRPCStatus() *status.Status })
		if !ok {
			continue
		}
		for _, d := range of.GRPCStatus().Details() {
			if r, ok := d.(*errdetails.ResourceInfo); ok && r.GetResourceType() == sessionType {
				return true
			}
		}
	}
	return false
}
