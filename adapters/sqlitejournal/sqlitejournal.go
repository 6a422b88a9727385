// Package sqlitejournal keeps the intents of sdk/reconcile in a SQLite file, on
// the worker's own disk. An intent is on the disk before its write is sent, so a
// worker that is killed in between finds it when it starts again.
//
// Intents that are settled stay, for people, until they are Pruned.
package sqlitejournal

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/reconcile"
	"github.com/go-json-experiment/json"
	_ "modernc.org/sqlite" // the driver
)

// Scheme begins a DSN: sqlitejournal:PATH
const Scheme = "sqlitejournal:"

// layout is what the file's own record says of it.
const layout = "journal.v1"

const schema = `
CREATE TABLE fencedjournal_meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE fencedjournal_intent (
	resource TEXT NOT NULL, operation TEXT NOT NULL, intent BLOB NOT NULL,
	since_millis INTEGER NOT NULL, escalated_millis INTEGER NOT NULL DEFAULT 0, settled_millis INTEGER NOT NULL DEFAULT 0,
	status TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (resource, operation)
) STRICT, WITHOUT ROWID;
CREATE INDEX fencedjournal_open ON fencedjournal_intent (since_millis) WHERE status = '';
INSERT INTO fencedjournal_meta VALUES ('layout', '` + layout + `');
`

// Journal is a handle on a file. It implements reconcile.Journal; several handles,
// in several processes too, may be open on one file.
type Journal struct{ db *sql.DB }

var _ reconcile.Journal = (*Journal)(nil)

// Open opens the journal in the file that the DSN names, and makes it if there is
// none. INVALID: the DSN does not parse. UNSUITABLE: it is another application's
// file, or cannot be written to.
func Open(ctx context.Context, dsn string) (*Journal, error) {
	path, ok := strings.CutPrefix(dsn, Scheme)
	if !ok || path == "" || path == ":memory:" || strings.ContainsAny(path, "?\x00") {
		return nil, sdk.Errorf(sdk.Invalid, "DSN", "%q names no file; write %sPATH", dsn, Scheme)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, sdk.Errorf(sdk.Invalid, "DSN", "%w", err)
	}
	uri := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_pragma=trusted_schema(0)&_txlock=immediate"}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return nil, sdk.Errorf(sdk.Unsuitable, "file", "%w", err)
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		db.Close()
		return nil, err
	}
	return &Journal{db}, nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	unsuitable := func(err error) error { return sdk.Errorf(sdk.Unsuitable, "file", "%w", err) }
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return unsuitable(err)
	}
	defer tx.Rollback()
	var ours, foreign int
	err = tx.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE name = 'fencedjournal_meta'), count(*) FILTER (WHERE name NOT LIKE 'fencedjournal!_%' ESCAPE '!' AND name NOT LIKE 'sqlite!_%' ESCAPE '!')
		FROM sqlite_schema WHERE type = 'table'`).Scan(&ours, &foreign)
	switch {
	case err != nil:
		return unsuitable(err)
	case foreign > 0:
		return sdk.Errorf(sdk.Unsuitable, "file", "a database of another application (%d tables); the journal has a file of its own", foreign)
	case ours == 0:
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return unsuitable(err)
		}
	default:
		var have string
		if err := tx.QueryRowContext(ctx, "SELECT value FROM fencedjournal_meta WHERE name = 'layout'").Scan(&have); err != nil || have != layout {
			return sdk.Errorf(sdk.Unsuitable, "file", "layout %q is not %q", have, layout)
		}
	}
	if err := tx.Commit(); err != nil {
		return unsuitable(err)
	}
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode); err != nil {
		return unsuitable(err)
	}
	if mode != "wal" {
		return sdk.Errorf(sdk.Unsuitable, "journal_mode", "%q and not WAL; the file must be on a local file system", mode)
	}
	return nil
}

// Close closes the file. Calls after it fail.
func (j *Journal) Close() error { return j.db.Close() }

func failed(err error) error {
	if err == nil || sdk.CodeOf(err) != 0 {
		return err
	}
	return sdk.Errorf(sdk.NotApplied, "journal", "%w", err)
}

// Begin implements reconcile.Journal.
func (j *Journal) Begin(ctx context.Context, in reconcile.Intent) (fresh bool, err error) {
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return false, failed(err)
	}
	defer tx.Rollback()
	was, err := one(tx.QueryRowContext(ctx, "SELECT intent, escalated_millis FROM fencedjournal_intent WHERE resource = ? AND operation = ? AND status = ''", string(in.Resource), string(in.Operation)))
	if err != nil {
		return false, failed(err)
	}
	if was != nil && was.Same(&in) {
		return false, nil
	}
	escalated := int64(0)
	if was != nil {
		in.Since, in.Escalated = was.Since, was.Escalated
		escalated = millis(was.Escalated)
	}
	blob, err := json.Marshal(in)
	if err != nil {
		return false, sdk.Errorf(sdk.Invalid, "intent", "%w", err)
	}
	_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO fencedjournal_intent (resource, operation, intent, since_millis, escalated_millis) VALUES (?, ?, ?, ?, ?)",
		string(in.Resource), string(in.Operation), blob, in.Since.UnixMilli(), escalated)
	if err == nil {
		err = tx.Commit()
	}
	return was == nil && err == nil, failed(err)
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// one reads an intent; nil if there is none.
func one(row interface{ Scan(...any) error }) (*reconcile.Intent, error) {
	var blob []byte
	var escalated int64
	switch err := row.Scan(&blob, &escalated); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var in reconcile.Intent
	if err := json.Unmarshal(blob, &in, json.RejectUnknownMembers(true)); err != nil {
		return nil, sdk.Errorf(sdk.Unsuitable, "journal", "an intent is damaged: %w", err)
	}
	in.Escalated = time.Time{}
	if escalated != 0 {
		in.Escalated = time.UnixMilli(escalated).UTC()
	}
	return &in, nil
}

// Settle implements reconcile.Journal.
func (j *Journal) Settle(ctx context.Context, r sdk.ResourceID, op sdk.OperationID, s reconcile.Status) error {
	_, err := j.db.ExecContext(ctx, "UPDATE fencedjournal_intent SET status = ?, settled_millis = ? WHERE resource = ? AND operation = ? AND status = ''", string(s), time.Now().UnixMilli(), string(r), string(op))
	return failed(err)
}

// Escalated implements reconcile.Journal.
func (j *Journal) Escalated(ctx context.Context, r sdk.ResourceID, op sdk.OperationID, at time.Time) error {
	_, err := j.db.ExecContext(ctx, "UPDATE fencedjournal_intent SET escalated_millis = ? WHERE resource = ? AND operation = ? AND status = ''", millis(at), string(r), string(op))
	return failed(err)
}

// Open implements reconcile.Journal.
func (j *Journal) Open(ctx context.Context) ([]reconcile.Intent, error) {
	rows, err := j.db.QueryContext(ctx, "SELECT intent, escalated_millis FROM fencedjournal_intent WHERE status = '' ORDER BY since_millis, resource, operation")
	if err != nil {
		return nil, failed(err)
	}
	defer rows.Close()
	var out []reconcile.Intent
	for rows.Next() {
		in, err := one(rows)
		if err != nil {
			return nil, failed(err)
		}
		out = append(out, *in)
	}
	return out, failed(rows.Err())
}

// Prune forgets intents that were settled before a time, and returns how many.
func (j *Journal) Prune(ctx context.Context, before time.Time) (int64, error) {
	res, err := j.db.ExecContext(ctx, "DELETE FROM fencedjournal_intent WHERE status <> '' AND settled_millis < ?", before.UnixMilli())
	if err != nil {
		return 0, failed(err)
	}
	n, err := res.RowsAffected()
	return n, failed(err)
}
