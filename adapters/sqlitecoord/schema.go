package sqlitecoord

import (
	"context"
	"database/sql"

	"github.com/fencedstore/fencedstore/sdk"
)

// layout is what the file's own record says of it; released ones never change.
const layout = "coordinator.v1"

// The index allows one holder a resource (R4); the triggers keep the sequence
// from going down (R1) and a request from being granted again (R2).
const schema = `
CREATE TABLE fencedcoord_meta (
	name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE fencedcoord_revision (
	one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL
) STRICT;

CREATE TABLE fencedcoord_sequence (
	resource TEXT NOT NULL PRIMARY KEY, highest INTEGER NOT NULL CHECK (highest >= 1)
) STRICT, WITHOUT ROWID;

CREATE TABLE fencedcoord_request (
	resource TEXT NOT NULL, owner TEXT NOT NULL, request TEXT NOT NULL,
	token INTEGER NOT NULL CHECK (token >= 1), revision INTEGER NOT NULL,
	ttl_millis INTEGER NOT NULL, params BLOB NOT NULL, note BLOB NOT NULL,
	until_millis INTEGER NOT NULL, state TEXT NOT NULL CHECK (state IN ('HELD', 'RELEASED', 'EXPIRED')),
	PRIMARY KEY (resource, owner, request), UNIQUE (resource, token)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX fencedcoord_holder ON fencedcoord_request (resource) WHERE state = 'HELD';

CREATE TABLE fencedcoord_waiter (
	place INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	resource TEXT NOT NULL, owner TEXT NOT NULL, request TEXT NOT NULL, seen_millis INTEGER NOT NULL,
	UNIQUE (resource, owner, request)
) STRICT;

CREATE TRIGGER fencedcoord_sequence_up BEFORE UPDATE ON fencedcoord_sequence
WHEN NEW.resource <> OLD.resource OR NEW.highest <= OLD.highest
BEGIN SELECT RAISE(ABORT, 'fencedcoord: a sequence only rises'); END;

CREATE TRIGGER fencedcoord_sequence_stays BEFORE DELETE ON fencedcoord_sequence
BEGIN SELECT RAISE(ABORT, 'fencedcoord: a sequence is never deleted'); END;

CREATE TRIGGER fencedcoord_request_ended BEFORE UPDATE ON fencedcoord_request
WHEN OLD.state <> 'HELD' OR NEW.token <> OLD.token OR NEW.ttl_millis <> OLD.ttl_millis OR NEW.params <> OLD.params OR NEW.note <> OLD.note
BEGIN SELECT RAISE(ABORT, 'fencedcoord: a grant never changes and never comes back'); END;

INSERT INTO fencedcoord_revision (one, revision) VALUES (1, 0);
`

// migrate makes the tables in an empty file and refuses any other that is not
// ours.
func migrate(ctx context.Context, conn *sql.Conn) (err error) {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	var ours, foreign int
	err = conn.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE name = 'fencedcoord_meta'), count(*) FILTER (WHERE substr(name, 1, 12) <> 'fencedcoord_' AND substr(name, 1, 7) <> 'sqlite_')
		FROM sqlite_schema WHERE type = 'table'`).Scan(&ours, &foreign)
	switch {
	case err != nil:
		return err
	case foreign > 0:
		return sdk.Errorf(sdk.Unsuitable, "file", "a database with %d tables of another application; the coordinator has a file of its own", foreign)
	case ours > 0:
		var have string
		if err := conn.QueryRowContext(ctx, "SELECT coalesce(max(value), '') FROM fencedcoord_meta WHERE name = 'layout'").Scan(&have); err != nil {
			return err
		}
		if have != layout {
			return sdk.Errorf(sdk.Unsuitable, "file", "layout %q is not %q; use the version that wrote it", have, layout)
		}
	default:
		if _, err := conn.ExecContext(ctx, schema+"INSERT INTO fencedcoord_meta VALUES ('layout', '"+layout+"')"); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}
