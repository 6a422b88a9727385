package spannerstore

import (
	"errors"
	"strings"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// commitAnswers are the codes with which the server says that it has not
// committed and will not, each with what the caller is told. What is not listed
// is unknown: Unknown, DeadlineExceeded, Canceled, Unavailable and Internal among
// others. ABORTED does not come out of the client but when the context ended.
var commitAnswers = []struct {
	code   codes.Code
	means  sdk.Code
	advice string
}{
	{codes.InvalidArgument, sdk.Invalid, "an effect is not what the database takes, or has more mutation cells than a commit may"},
	{codes.FailedPrecondition, sdk.NotApplied, "an effect contradicts a constraint of the database"},
	{codes.AlreadyExists, sdk.NotApplied, "an effect inserts a row that is there"},
	{codes.NotFound, sdk.NotApplied, "an effect updates a row that is not there, or the session ended"},
	{codes.OutOfRange, sdk.NotApplied, "an effect's value is out of range, or contradicts a CHECK"},
	{codes.PermissionDenied, sdk.Unsuitable, "the role may not write a table; see `adaptercheck schema` for the grants"},
	{codes.Unauthenticated, sdk.Unsuitable, "the credentials are not taken"},
	{codes.Unimplemented, sdk.Unsuitable, "the server lacks a function that is needed"},
	{codes.Aborted, sdk.NotApplied, "other transactions were faster until the context ended"},
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
// is on the list.
func commitError(err error) error {
	for _, a := range commitAnswers {
		if a.code == code(err) {
			return sdk.Errorf(a.means, "Spanner", "nothing was applied: %s: %w", a.advice, err)
		}
	}
	return sdk.Errorf(sdk.MutationUnknown, "Spanner", "the commit was sent and its answer does not tell what became of it: %w", err)
}

// readError is the error of a read, or of a transaction that was not sent to
// commit.
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
	case codes.NotFound, codes.InvalidArgument:
		// The text is the server's own; it has no other field for it.
		if text := spanner.ErrDesc(err); strings.Contains(text, tablePrefix) || strings.Contains(text, "Database not found") || strings.Contains(text, "Instance not found") {
			return sdk.Errorf(sdk.Unsuitable, "tables", "they are not there; see `adaptercheck schema`: %w", err)
		}
	}
	return sdk.Errorf(sdk.NotApplied, "Spanner", "%w", err)
}

func isMissing(err error) bool { return code(err) == codes.NotFound && err != nil }

func isAlreadyThere(err error) bool { return err != nil && code(err) == codes.AlreadyExists }
