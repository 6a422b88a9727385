package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

// openSQLite opens the file of a DSN past the adapter.
func openSQLite(dsn string) (*sql.DB, error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(dsn, sqlitestore.Scheme), "//"), "?")
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: "mode=rw&_pragma=busy_timeout(10000)&_txlock=immediate"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// damageSQLite deletes the fence of r. The triggers that forbid it are out of
// the way meanwhile and back afterwards, as with somebody who knows what to
// type.
func damageSQLite(ctx context.Context, dsn string, r sdk.ResourceID) error {
	db, err := openSQLite(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'fencedstore_fence'")
	if err != nil {
		return err
	}
	defer rows.Close()
	var drop, restore []string
	for rows.Next() {
		var name, create string
		if err := rows.Scan(&name, &create); err != nil {
			return err
		}
		drop, restore = append(drop, "DROP TRIGGER "+name), append(restore, create)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, q := range drop {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	res, err := tx.ExecContext(ctx, "DELETE FROM fencedstore_fence WHERE resource = ?", string(r))
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("%d fences of %s deleted, want 1: %v", n, r, err)
	}
	for _, q := range restore {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return tx.Commit()
}

const (
	nativeTable  = "CREATE TABLE IF NOT EXISTS adaptercheck_native (resource TEXT NOT NULL, n INTEGER NOT NULL CHECK (n > 0))"
	nativeInsert = "INSERT INTO adaptercheck_native (resource, n) VALUES (?, ?)"
)

// nativeSQLite tries sql.exec.v1 on a table of a team's own, in which a
// resource may touch its own rows.
func nativeSQLite(dsn string, r sdk.ResourceID) conformance.Native {
	missing := createNative(dsn)
	return conformance.Native{
		Scope: func(r sdk.ResourceID, e sdk.Effect) error {
			query, args, err := sqlitestore.ParseExec(e.Body)
			if err != nil {
				return err
			}
			if query != nativeInsert || len(args) != 2 || args[0] != string(r) {
				return fmt.Errorf("only rows of %s may be inserted", r)
			}
			return nil
		},
		Inside:  rawExec(nativeInsert, string(r), 1),
		Outside: rawExec(nativeInsert, "another/"+string(r)[:min(len(r), 400)], 1),
		Failing: rawExec(nativeInsert, string(r), 0),
		Own: []sdk.Effect{
			rawExec("DELETE FROM fencedstore_fence"),
			rawExec("UPDATE FencedStore_Receipt SET owner = ?", "x"),
			rawExec(`INSERT INTO "fencedstore_value" (namespace, resource, key, value) SELECT namespace, resource, 'k', x'00' FROM fencedstore_fence`),
			rawExec("WITH f AS (SELECT 1) DELETE FROM main.fencedstore_quarantine"),
			rawExec("COMMIT"), rawExec("ROLLBACK"), rawExec("SAVEPOINT s"),
			rawExec("PRAGMA writable_schema = 1"),
			rawExec(nativeInsert+"; COMMIT", string(r), 1),
			rawExec("DROP TABLE fencedstore_fence"),
		},
		Count: func(ctx context.Context) (n int, err error) {
			if missing != nil {
				return 0, missing
			}
			db, err := openSQLite(dsn)
			if err != nil {
				return 0, err
			}
			defer db.Close()
			err = db.QueryRowContext(ctx, "SELECT count(*) FROM adaptercheck_native WHERE resource = ?", string(r)).Scan(&n)
			return n, err
		},
	}
}

func createNative(dsn string) error {
	db, err := openSQLite(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(nativeTable)
	return err
}

// rawExec is a sql.exec.v1 effect that sqlitestore.Exec may refuse to make;
// arguments are int and string.
func rawExec(query string, args ...any) sdk.Effect {
	list := []map[string]string{}
	for _, a := range args {
		kind := "text"
		if _, ok := a.(int); ok {
			kind = "int"
		}
		list = append(list, map[string]string{kind: fmt.Sprint(a)})
	}
	body, err := json.Marshal(map[string]any{"sql": query, "args": list})
	if err != nil {
		panic(err) // strings always encode
	}
	return sdk.Effect{Kind: sqlitestore.KindExec, Body: body}
}
