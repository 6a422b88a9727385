package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/fencedstore/fencedstore/sdk"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// phase is when an error came.
type phase uint8

const (
	opening    phase = iota // looking at the file, before anything of ours is in it
	reading                 // a read of its own
	deciding                // inside the transaction, before COMMIT: it is rolled back
	effecting               // a team's own statement, inside the transaction
	committing              // COMMIT itself
)

// primary is SQLite's result code without its extension.
func primary(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return -1
}

// rule says what a result code means in each phase; what is not listed is
// otherwise. An error of COMMIT is always unknown.
type rule struct {
	code                                  int // SQLite's
	opening, reading, deciding, effecting sdk.Code
	advice                                string
}

var rules = []rule{
	{lib.SQLITE_BUSY, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, "another process holds the file's lock; try again"},
	{lib.SQLITE_LOCKED, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, "another statement holds a table's lock; try again"},
	{lib.SQLITE_INTERRUPT, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, "the call was cancelled"},
	{lib.SQLITE_NOMEM, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, "out of memory"},
	{lib.SQLITE_FULL, sdk.Unsuitable, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, "the disk is full; make room"},
	{lib.SQLITE_IOERR, sdk.Unsuitable, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, "the disk answered with an error; look at the system's log"},
	{lib.SQLITE_CORRUPT, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, "the file is damaged; restore it and raise the registry's floor above every token issued"},
	{lib.SQLITE_NOTADB, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, "the file is not a SQLite database"},
	{lib.SQLITE_CANTOPEN, sdk.Unsuitable, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, "the file cannot be opened; its folder must exist and be writable"},
	{lib.SQLITE_READONLY, sdk.Unsuitable, sdk.NotApplied, sdk.Unsuitable, sdk.Unsuitable, "the file or its folder is read-only; the store writes"},
	{lib.SQLITE_PERM, sdk.Unsuitable, sdk.NotApplied, sdk.Unsuitable, sdk.Unsuitable, "no permission for the file or its folder"},
	{lib.SQLITE_AUTH, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, sdk.Invalid, "the statement may not do this: one SELECT, INSERT, UPDATE, DELETE or REPLACE on the team's own tables"},
	{lib.SQLITE_CONSTRAINT, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, sdk.Invalid, "a constraint of the team's own tables"},
	{lib.SQLITE_MISMATCH, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, sdk.Invalid, "a value of another type than the column's"},
	{lib.SQLITE_TOOBIG, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, sdk.TooLarge, "a value beyond SQLite's limit"},
	{lib.SQLITE_RANGE, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, sdk.Invalid, "an argument for which the statement has no place"},
	{lib.SQLITE_ERROR, sdk.Unsuitable, sdk.Unsuitable, sdk.Unsuitable, sdk.Invalid, "the statement does not fit the tables"},
	{lib.SQLITE_SCHEMA, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, sdk.NotApplied, "the tables changed meanwhile; try again"},
}

// otherwise is what an error without a rule means: in a transaction that is
// rolled back it is proved not applied.
var otherwise = map[phase]sdk.Code{opening: sdk.Unsuitable, reading: sdk.NotApplied, deciding: sdk.NotApplied, effecting: sdk.NotApplied}

// classify turns an error of the client library into one of ours. One that is
// ours already stays.
func classify(p phase, err error) error {
	var ours *sdk.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return err
	case p == committing:
		return sdk.Errorf(sdk.MutationUnknown, "commit", "it failed, and may have reached the disk all the same: %w", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return sdk.Errorf(sdk.NotApplied, "", "the call's context ended before COMMIT: %w", err)
	case errors.Is(err, sql.ErrConnDone), errors.Is(err, sql.ErrTxDone), errors.Is(err, driver.ErrBadConn):
		return sdk.Errorf(sdk.NotApplied, "", "the connection was closed before COMMIT: %w", err)
	}
	code := primary(err)
	if p == effecting && code < 0 {
		return sdk.Errorf(sdk.Invalid, "sqlite", "the statement and its arguments do not fit: %w", err) // the client library's own check
	}
	for _, r := range rules {
		if r.code == code {
			return sdk.Errorf([]sdk.Code{r.opening, r.reading, r.deciding, r.effecting}[p], "sqlite", "%s: %w", r.advice, err)
		}
	}
	return sdk.Errorf(otherwise[p], "sqlite", "%w", err)
}
