package sqlitecoord

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fencedstore/fencedstore/sdk"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// primary is SQLite's result code without its extension.
func primary(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return -1
}

func busy(err error) bool { return err != nil && primary(err) == lib.SQLITE_BUSY }

// rules say what a result code means before COMMIT, where everything is rolled
// back. What is not listed is NOT_APPLIED.
var rules = []struct {
	code   int
	ours   sdk.Code
	advice string
}{
	{lib.SQLITE_BUSY, sdk.NotApplied, "another process holds the file's lock; try again"},
	{lib.SQLITE_LOCKED, sdk.NotApplied, "another statement holds a table's lock; try again"},
	{lib.SQLITE_INTERRUPT, sdk.NotApplied, "the call was cancelled"},
	{lib.SQLITE_NOMEM, sdk.NotApplied, "out of memory"},
	{lib.SQLITE_FULL, sdk.NotApplied, "the disk is full; make room"},
	{lib.SQLITE_IOERR, sdk.NotApplied, "the disk answered with an error; look at the system's log"},
	{lib.SQLITE_CORRUPT, sdk.Unsuitable, "the file is damaged; restore it and raise the floors above every token issued"},
	{lib.SQLITE_NOTADB, sdk.Unsuitable, "the file is not a SQLite database"},
	{lib.SQLITE_CANTOPEN, sdk.Unsuitable, "the file cannot be opened; its folder must exist and be writable"},
	{lib.SQLITE_READONLY, sdk.Unsuitable, "the file or its folder is read-only; the coordinator writes"},
	{lib.SQLITE_PERM, sdk.Unsuitable, "no permission for the file or its folder"},
	{lib.SQLITE_CONSTRAINT, sdk.Unsuitable, "the tables refuse it; another program has written to them"},
	{lib.SQLITE_ERROR, sdk.Unsuitable, "the tables are not as this version made them"},
}

// classify turns an error from before COMMIT into one of ours. One that is ours
// already stays.
func classify(err error) error {
	switch {
	case err == nil, sdk.CodeOf(err) != 0:
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return sdk.Errorf(sdk.NotApplied, "", "the call's context ended before COMMIT: %w", err)
	case errors.Is(err, sql.ErrConnDone), errors.Is(err, sql.ErrTxDone):
		return sdk.Errorf(sdk.NotApplied, "", "the connection was closed before COMMIT: %w", err)
	}
	code := primary(err)
	for _, r := range rules {
		if r.code == code {
			return sdk.Errorf(r.ours, "sqlite", "%s: %w", r.advice, err)
		}
	}
	return sdk.Errorf(sdk.NotApplied, "sqlite", "%w", err)
}

// committed turns an error of COMMIT into one of ours: it may have reached the
// disk all the same.
func committed(err error) error {
	if err == nil {
		return nil
	}
	return sdk.Errorf(sdk.MutationUnknown, "commit", "it failed, and may have reached the disk all the same: %w", err)
}
