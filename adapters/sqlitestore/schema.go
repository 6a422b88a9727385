package sqlitestore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

// tablePrefix begins the name of everything that is ours in the file.
const tablePrefix = "fencedstore_"

// Layout is what the store's own record says of how it is laid out.
const layout = "tables.v1"

// migrations[i] takes a file from schema version i to i+1. Released ones never
// change.
var migrations = []string{schemaV1}

const schemaV1 = `
CREATE TABLE fencedstore_meta (
	name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE fencedstore_fence (
	namespace TEXT NOT NULL, resource TEXT NOT NULL,
	highest INTEGER NOT NULL CHECK (highest >= 1), grant_digest BLOB NOT NULL, root BLOB NOT NULL,
	segment INTEGER NOT NULL CHECK (segment >= 1),
	policy_generation INTEGER NOT NULL CHECK (policy_generation >= 0),
	trust_generation INTEGER NOT NULL CHECK (trust_generation >= 0),
	PRIMARY KEY (namespace, resource)
) STRICT, WITHOUT ROWID;

CREATE TABLE fencedstore_receipt (
	namespace TEXT NOT NULL, resource TEXT NOT NULL, operation TEXT NOT NULL,
	fence INTEGER NOT NULL, segment INTEGER NOT NULL, root BLOB NOT NULL, grant_digest BLOB NOT NULL,
	payload BLOB NOT NULL, owner TEXT NOT NULL, time_millis INTEGER NOT NULL, result BLOB NOT NULL,
	PRIMARY KEY (namespace, resource, operation)
) STRICT, WITHOUT ROWID;

CREATE TABLE fencedstore_value (
	namespace TEXT NOT NULL, resource TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
	PRIMARY KEY (namespace, resource, key)
) STRICT;

CREATE TABLE fencedstore_quarantine (
	namespace TEXT NOT NULL, resource TEXT NOT NULL,
	fence INTEGER NOT NULL, segment INTEGER NOT NULL, operation TEXT NOT NULL, payload BLOB NOT NULL,
	grant_digest BLOB NOT NULL, owner TEXT NOT NULL, time_millis INTEGER NOT NULL, resolved_by TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (namespace, resource, fence, segment, operation, payload)
) STRICT, WITHOUT ROWID;

CREATE TABLE fencedstore_dropped (
	namespace TEXT NOT NULL, resource TEXT NOT NULL, records INTEGER NOT NULL,
	PRIMARY KEY (namespace, resource)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER fencedstore_fence_once BEFORE INSERT ON fencedstore_fence
WHEN EXISTS (SELECT 1 FROM fencedstore_fence WHERE namespace = NEW.namespace AND resource = NEW.resource)
BEGIN SELECT RAISE(ABORT, 'fencedstore: a fence is updated, never replaced'); END;

CREATE TRIGGER fencedstore_fence_up BEFORE UPDATE ON fencedstore_fence
WHEN NEW.namespace <> OLD.namespace OR NEW.resource <> OLD.resource OR NEW.highest < OLD.highest
	OR (NEW.highest = OLD.highest AND NEW.segment <= OLD.segment)
	OR NEW.policy_generation < OLD.policy_generation OR NEW.trust_generation < OLD.trust_generation
BEGIN SELECT RAISE(ABORT, 'fencedstore: a fence never goes down'); END;

CREATE TRIGGER fencedstore_fence_stays BEFORE DELETE ON fencedstore_fence
BEGIN SELECT RAISE(ABORT, 'fencedstore: a fence is never deleted'); END;

CREATE TRIGGER fencedstore_receipt_once BEFORE INSERT ON fencedstore_receipt
WHEN EXISTS (SELECT 1 FROM fencedstore_receipt WHERE namespace = NEW.namespace AND resource = NEW.resource AND operation = NEW.operation)
BEGIN SELECT RAISE(ABORT, 'fencedstore: an operation has one receipt'); END;

CREATE TRIGGER fencedstore_receipt_same BEFORE UPDATE ON fencedstore_receipt
BEGIN SELECT RAISE(ABORT, 'fencedstore: a receipt never changes'); END;

CREATE TRIGGER fencedstore_receipt_stays BEFORE DELETE ON fencedstore_receipt
BEGIN SELECT RAISE(ABORT, 'fencedstore: a receipt is never deleted'); END;

CREATE TRIGGER fencedstore_quarantine_stays BEFORE DELETE ON fencedstore_quarantine
BEGIN SELECT RAISE(ABORT, 'fencedstore: a quarantine record is never deleted'); END;
`

// found says what a file holds before anything of ours is written to it.
type found struct {
	version int    // of our schema, 0 if it is not there
	base    string // namespace that the store was created with
	layout  string
	foreign int // tables that are not ours
}

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// inspectFile reads what is in the file, and writes nothing.
func inspectFile(ctx context.Context, q querier) (found, error) {
	var f found
	var ours int
	err := q.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE name = 'fencedstore_meta'),
		count(*) FILTER (WHERE substr(name, 1, 12) <> 'fencedstore_' AND substr(name, 1, 7) <> 'sqlite_')
		FROM sqlite_schema WHERE type = 'table'`).Scan(&ours, &f.foreign)
	if err != nil || ours == 0 {
		return f, err
	}
	var version string
	err = q.QueryRowContext(ctx, `SELECT max(value) FILTER (WHERE name = 'schema_version'),
		max(value) FILTER (WHERE name = 'namespace'), max(value) FILTER (WHERE name = 'layout')
		FROM fencedstore_meta`).Scan(&version, &f.base, &f.layout)
	if err != nil {
		return f, sdk.Errorf(sdk.Unsuitable, "file", "its fencedstore_meta table is damaged: %w", err)
	}
	if f.version, err = strconv.Atoi(version); err != nil || f.version < 1 {
		return f, sdk.Errorf(sdk.Unsuitable, "file", "schema version %q is not one of ours", version)
	}
	return f, nil
}

// check refuses a file that this version must not touch.
func (f found) check(base string, beside bool) error {
	switch {
	case f.version > len(migrations):
		return sdk.Errorf(sdk.Unsuitable, "file", "written by a newer version (schema %d, this one knows up to %d); upgrade this program", f.version, len(migrations))
	case f.version == 0 && f.foreign > 0 && !beside:
		return sdk.Errorf(sdk.Unsuitable, "file", "a database of another application (%d tables); to keep fences beside them add ?create=beside to the DSN", f.foreign)
	case f.version > 0 && f.layout != layout:
		return sdk.Errorf(sdk.Unsuitable, "file", "layout %q is not %q", f.layout, layout)
	case f.version > 0 && f.base != base:
		return sdk.Errorf(sdk.Unsuitable, "namespace", "%q; this file was created with %q and a resource has one fence", base, f.base)
	}
	return nil
}

// migrate brings the file to this version in one transaction, and fixes the
// namespace of a new one.
func migrate(ctx context.Context, conn *sql.Conn, base string, beside bool) (err error) {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	// Looked at again under the lock: another process may have been first.
	f, err := inspectFile(ctx, conn)
	if err != nil {
		return err
	}
	if err := f.check(base, beside); err != nil {
		return err
	}
	if f.version < len(migrations) {
		if _, err := conn.ExecContext(ctx, strings.Join(migrations[f.version:], "\n")); err != nil {
			return err
		}
		const put = "INSERT INTO fencedstore_meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
		for _, kv := range [][2]string{{"schema_version", strconv.Itoa(len(migrations))}, {"namespace", base}, {"layout", layout}} {
			if _, err := conn.ExecContext(ctx, put, kv[0], kv[1]); err != nil {
				return err
			}
		}
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}
