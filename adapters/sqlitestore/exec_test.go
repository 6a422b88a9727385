package sqlitestore_test

import (
	"database/sql"
	"errors"
	"math"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/sdk"
)

// withTables returns a store beside two tables, a view and a trigger of the
// team's, opened with a scope that lets everything pass: what is refused is
// refused by the store.
func withTables(t *testing.T) (*sqlitestore.Store, *sql.DB) {
	t.Helper()
	path := tempFile(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := open(t, path, sdk.OpenOptions{Scope: func(sdk.ResourceID, sdk.Effect) error { return nil }})
	if _, err := db.Exec(`CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER CHECK (cents >= 0), note);
		CREATE TABLE audit (id INTEGER); INSERT INTO account VALUES (1, 100, NULL);
		CREATE TRIGGER account_audit AFTER UPDATE ON account BEGIN INSERT INTO audit VALUES (NEW.id); END;
		CREATE VIEW fences AS SELECT * FROM fencedstore_fence;
		CREATE TRIGGER fences_insert INSTEAD OF INSERT ON fences BEGIN UPDATE fencedstore_meta SET value = 'x'; END;
		CREATE TABLE trap (id INTEGER); CREATE TRIGGER trap_sprung AFTER INSERT ON trap BEGIN DELETE FROM fencedstore_value; END;`); err != nil {
		t.Fatal(err)
	}
	return s, db
}

func raw(query string) sdk.Effect {
	return sdk.Effect{Kind: sqlitestore.KindExec, Body: []byte(`{"sql":` + quote(query) + `,"args":[]}`)}
}

func quote(s string) string {
	out := []byte{'"'}
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case 0:
			out = append(out, `\u0000`...)
		default:
			out = append(out, c)
		}
	}
	return string(append(out, '"'))
}

func TestExec(t *testing.T) {
	s, db := withTables(t)
	e, err := sqlitestore.Exec("UPDATE account SET cents = cents - ?, note = ? WHERE id = ?; -- done", int64(30), []byte{0, 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, mutation(1, 1, "op-1", e, sdk.Put("k", []byte("v"))), sdk.Accepted)
	apply(t, s, mutation(1, 1, "op-1", e, sdk.Put("k", []byte("v"))), sdk.Replayed)
	var cents, audits int
	if err := db.QueryRow("SELECT cents, (SELECT count(*) FROM audit) FROM account").Scan(&cents, &audits); err != nil || cents != 70 || audits != 1 {
		t.Errorf("%d cents, %d audits, %v", cents, audits, err)
	}
	// A statement that fails takes the whole mutation with it.
	bad, err := sqlitestore.Exec("UPDATE account SET cents = -1")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, mutation(1, 2, "op-2", sdk.Put("k", []byte("w")), bad), sdk.Invalid)
	if v, _ := s.Read(t.Context(), resource, "k"); string(v) != "v" {
		t.Errorf("half a mutation: k is %q", v)
	}
	if state, err := s.Inspect(t.Context(), resource); err != nil || state.Segment != 1 {
		t.Errorf("%+v, %v", state, err)
	}
}

// Every way that we know to something else than rows of the team's own tables.
func TestExecRefuses(t *testing.T) {
	s, _ := withTables(t)
	apply(t, s, mutation(1, 1, "op-1", sdk.Put("k", []byte("v"))), sdk.Accepted)
	for _, q := range []string{
		"", ";", "-- nothing", "COMMIT", "BEGIN", "ROLLBACK", "SAVEPOINT x", "RELEASE fencedstore_one", "PRAGMA foreign_keys = OFF",
		"ATTACH 'x' AS y", "DETACH main", "VACUUM", "CREATE TABLE x (y)", "DROP TABLE account", "ALTER TABLE account ADD x", "EXPLAIN DELETE FROM account",
		"SELECT 1", "DELETE FROM audit; COMMIT", "DELETE FROM audit; DELETE FROM account", "DELETE FROM audit /* ; */ ; /* x */ DELETE FROM account",
		"DELETE FROM audit\x00; COMMIT", "DELETE FROM audit WHERE id = 'x", "DELETE FROM audit /* x",
		"UPDATE fencedstore_fence SET highest = 1", "DELETE FROM FencedStore_Receipt", `DELETE FROM "fencedstore_value"`, "DELETE FROM [fencedstore_value]",
		"DELETE FROM `fencedstore_value`", "DELETE FROM main.fencedstore_value", `DELETE FROM "main"."fencedstore_value"`,
		"INSERT INTO fences (highest) VALUES (1)", "INSERT INTO trap VALUES (1)", "INSERT INTO audit SELECT highest FROM fences",
		"INSERT INTO audit SELECT highest FROM fencedstore_fence", "WITH x AS (SELECT highest FROM fencedstore_fence) INSERT INTO audit SELECT * FROM x",
		"UPDATE account SET cents = (SELECT count(*) FROM fencedstore_receipt)", "DELETE FROM sqlite_schema", "UPDATE sqlite_schema SET sql = ''",
		"INSERT INTO nowhere VALUES (1)", "INSERT INTO audit VALUES (1, 2)", "DELETE FROM audit WHERE", "INSERT INTO audit VALUES (?)", "INSERT INTO audit VALUES (:named)", "WITH x AS (SELECT 1) SELECT * FROM x, fencedstore_meta",
	} {
		out, err := s.Apply(t.Context(), admit(mutation(1, 2, "op-2", raw(q))))
		if out.Code != sdk.Invalid || !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, %v; want INVALID", q, out.Code, err)
		}
	}
	if v, err := s.Read(t.Context(), resource, "k"); err != nil || string(v) != "v" {
		t.Errorf("k is %q, %v", v, err)
	}
	apply(t, s, mutation(1, 2, "op-2"), sdk.Accepted)
}

func TestExecForm(t *testing.T) {
	for _, body := range []string{``, `{}`, `[]`, `{"sql":"DELETE FROM x","SQL":"COMMIT"}`, `{"sql":"DELETE FROM x","sql":"COMMIT"}`, `{"sql":"DELETE FROM x","x":1}`,
		`{"sql":"DELETE FROM x","args":[{}]}`, `{"sql":"DELETE FROM x","args":[{"int":"1","text":"a"}]}`, `{"sql":"DELETE FROM x","args":[{"int":1}]}`,
		`{"sql":"DELETE FROM x","args":[{"int":"01"}]}`, `{"sql":"DELETE FROM x","args":[{"int":"9223372036854775808"}]}`,
		`{"sql":"DELETE FROM x","args":[{"real":"NaN"}]}`, `{"sql":"DELETE FROM x","args":[{"real":"1e999"}]}`, `{"sql":"DELETE FROM x","args":[{"blob":"!"}]}`,
		`{"sql":"DELETE FROM x","args":[1]}`} {
		if _, _, err := sqlitestore.ParseExec([]byte(body)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, arg := range []any{math.NaN(), math.Inf(1), uint64(1), struct{}{}, []string{"x"}} {
		if _, err := sqlitestore.Exec("DELETE FROM x WHERE y = ?", arg); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%T: %v", arg, err)
		}
	}
	e, err := sqlitestore.Exec("DELETE FROM x WHERE y IN (?, ?, ?, ?, ?, ?)", nil, true, int64(math.MinInt64), 0.1, "é", []byte("b"))
	if err != nil {
		t.Fatal(err)
	}
	_, args, err := sqlitestore.ParseExec(e.Body)
	if err != nil || len(args) != 6 || args[0] != nil || args[1] != int64(1) || args[2] != int64(math.MinInt64) || args[3] != 0.1 || args[4] != "é" || string(args[5].([]byte)) != "b" {
		t.Errorf("%v, %v", args, err)
	}
}

func TestExecNeedsScope(t *testing.T) {
	e, err := sqlitestore.Exec("DELETE FROM audit")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, open(t, tempFile(t), sdk.OpenOptions{}), mutation(1, 1, "op", e), sdk.Invalid)
}

func FuzzParseExec(f *testing.F) {
	f.Add([]byte(`{"sql":"DELETE FROM x WHERE a = ?","args":[{"int":"1"},null,{"text":"a;b"}]}`))
	f.Add([]byte(`{"sql":"INSERT INTO x VALUES ('a''b') -- c","args":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		query, args, err := sqlitestore.ParseExec(body)
		if err != nil {
			return
		}
		again, err := sqlitestore.Exec(query, args...)
		if err != nil {
			t.Fatalf("%q %v: parsed, and refused when written again: %v", query, args, err)
		}
		q2, _, err := sqlitestore.ParseExec(again.Body)
		if err != nil || q2 != query {
			t.Errorf("%q became %q, %v", query, q2, err)
		}
	})
}
