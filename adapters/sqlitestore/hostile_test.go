package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/sdk"
)

// A hook that ends its goroutine, as t.FailNow does in a test, ends its own call
// and no other's.
func TestHookEndsItsGoroutine(t *testing.T) {
	s := open(t, tempFile(t), sdk.OpenOptions{})
	m := mutation(1, 1, "op-1")
	m.Hook = func(context.Context, any) ([]byte, error) { runtime.Goexit(); return nil, nil }
	apply(t, s, m, sdk.NotApplied)
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
}

// A hook that writes through the store that is waiting for it would wait for
// itself.
func TestHookCallsTheStore(t *testing.T) {
	s := open(t, tempFile(t), sdk.OpenOptions{})
	m := mutation(1, 1, "op-1")
	m.Hook = func(ctx context.Context, _ any) ([]byte, error) {
		other := mutation(1, 1, "op-2")
		other.Resource = "another"
		_, err := s.Apply(context.WithoutCancel(ctx), admit(other))
		if !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Apply inside a hook: %v; want INVALID", err)
		}
		if err := s.Probe(context.WithoutCancel(ctx)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Probe inside a hook: %v; want INVALID", err)
		}
		if _, err := s.Inspect(ctx, resource); err != nil {
			t.Errorf("Inspect inside a hook: %v", err)
		}
		return nil, nil
	}
	apply(t, s, m, sdk.Accepted)
}

// F6: a statement of a hook that ends the transaction (here OR ROLLBACK) leaves
// nothing behind, neither what the hook does next nor fence and receipt.
func TestHookLosesTheTransaction(t *testing.T) {
	s, db := withTables(t)
	m := mutation(1, 1, "op-1")
	m.Hook = func(_ context.Context, tx any) ([]byte, error) {
		t := tx.(*sql.Tx)
		t.Exec("UPDATE account SET cents = 50")
		t.Exec("INSERT OR ROLLBACK INTO account VALUES (1, 1, 'there is a 1 already')")
		t.Exec("UPDATE account SET note = 'outside'")
		return nil, nil
	}
	out, err := s.Apply(t.Context(), admit(m))
	if out.Code != sdk.NotApplied {
		t.Errorf("got %v, %v; want NOT_APPLIED", out.Code, err)
	}
	var note sql.NullString
	if err := db.QueryRow("SELECT note FROM account").Scan(&note); err != nil || note.Valid {
		t.Errorf("the hook wrote %q outside any transaction, %v", note.String, err)
	}
	if state, err := s.Inspect(t.Context(), resource); err != nil || !state.Absent() {
		t.Errorf("%+v, %v: a fence without its effects", state, err)
	}
	if _, err := s.Receipt(t.Context(), resource, "op-1"); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("a receipt without its effects: %v", err)
	}
}

// F6: nor can it open a transaction of its own in the place of the lost one.
func TestHookReplacesTheTransaction(t *testing.T) {
	s, db := withTables(t)
	m := mutation(1, 1, "op-1")
	m.Hook = func(_ context.Context, tx any) ([]byte, error) {
		t := tx.(*sql.Tx)
		note, err := t.Prepare("UPDATE account SET note = 'outside'")
		if err != nil {
			return nil, err
		}
		save, err := t.Prepare("SAVEPOINT x")
		if err != nil {
			return nil, err
		}
		t.Exec("INSERT OR ROLLBACK INTO account VALUES (1, 1, 'there is a 1 already')")
		note.Exec()
		save.Exec()
		note.Exec()
		return nil, nil
	}
	apply(t, s, m, sdk.NotApplied)
	var note sql.NullString
	if err := db.QueryRow("SELECT note FROM account").Scan(&note); err != nil || note.Valid {
		t.Errorf("the hook wrote %q outside any transaction, %v", note.String, err)
	}
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
}

// neighbours is a batch of mutations on resources of their own, one of which is
// bad.
func neighbours(bad *sdk.Mutation) []sdk.Admission {
	var out []sdk.Admission
	for i := range 8 {
		m := mutation(1, 1, "op", sdk.Put("k", []byte("v")))
		if i == 4 {
			m = bad
		}
		m.Resource = sdk.ResourceID("neighbour/" + strconv.Itoa(i))
		out = append(out, admit(m))
	}
	return out
}

// F12: what fails in one mutation of a shared commit changes no other's verdict.
func TestNeighboursOfAFailure(t *testing.T) {
	exec := func(q string) sdk.Effect {
		e, err := sqlitestore.Exec(q)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, c := range []struct {
		name string
		bad  sdk.Effect
		want sdk.Code
	}{
		{"a constraint", exec("INSERT INTO account VALUES (1, 1, '')"), sdk.Invalid},
		{"OR ROLLBACK", exec("INSERT OR ROLLBACK INTO account VALUES (1, 1, '')"), sdk.Invalid},
		{"a trigger's RAISE(ROLLBACK)", exec("INSERT INTO backout VALUES (1)"), sdk.Invalid},
		{"a deferred foreign key", exec("INSERT INTO child VALUES (7)"), sdk.Invalid},
		{"a full disk", sdk.Put("k", make([]byte, 4<<20)), sdk.NotApplied},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, db := withTables(t)
			if _, err := db.Exec(`CREATE TABLE backout (id); CREATE TRIGGER back BEFORE INSERT ON backout BEGIN SELECT RAISE(ROLLBACK, 'no'); END;
				CREATE TABLE child (id REFERENCES account (id) DEFERRABLE INITIALLY DEFERRED)`); err != nil {
				t.Fatal(err)
			}
			if c.want == sdk.NotApplied {
				sqlitestore.LimitPages(t, s)
			}
			codes := sqlitestore.Together(s, neighbours(mutation(1, 1, "op", c.bad))...)
			for i, code := range codes {
				want := sdk.Accepted
				if i == 4 {
					want = c.want
				}
				if code != want {
					t.Errorf("mutation %d: %v, want %v", i, code, want)
				}
				state, err := s.Inspect(t.Context(), sdk.ResourceID("neighbour/"+strconv.Itoa(i)))
				if err != nil || state.Absent() != (i == 4) {
					t.Errorf("mutation %d was answered %v and its fence is %+v, %v", i, code, state, err)
				}
			}
		})
	}
}

// A deferred constraint is judged before COMMIT, where it would be unknown.
func TestDeferredConstraintAlone(t *testing.T) {
	s, db := withTables(t)
	if _, err := db.Exec("CREATE TABLE child (id REFERENCES account (id) DEFERRABLE INITIALLY DEFERRED)"); err != nil {
		t.Fatal(err)
	}
	apply(t, s, mutation(1, 1, "op-1", raw("INSERT INTO child VALUES (7)")), sdk.Invalid)
	m := mutation(1, 1, "op-1")
	m.Hook = func(_ context.Context, tx any) ([]byte, error) {
		_, err := tx.(*sql.Tx).Exec("INSERT INTO child VALUES (7)")
		return nil, err
	}
	apply(t, s, m, sdk.NotApplied)
	// Within one mutation it may be broken and made good.
	apply(t, s, mutation(1, 1, "op-2", raw("INSERT INTO child VALUES (7)"), raw("INSERT INTO account VALUES (7, 1, '')")), sdk.Accepted)
}

// F12, O4: a statement that never ends goes with its caller, and holds no other
// resource up for longer.
func TestEndlessStatement(t *testing.T) {
	s, _ := withTables(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	endless := mutation(1, 1, "op", raw("WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) INSERT INTO audit SELECT count(*) FROM n"))
	if out, err := s.Apply(ctx, admit(endless)); out.Code != sdk.NotApplied {
		t.Errorf("got %v, %v; want NOT_APPLIED", out.Code, err)
	}
	other := mutation(1, 1, "op")
	other.Resource = "another"
	apply(t, s, other, sdk.Accepted)
}

// Rows that a hook leaves open do not keep its transaction from committing.
func TestHookLeavesRowsOpen(t *testing.T) {
	s, db := withTables(t)
	m := mutation(1, 1, "op-1")
	m.Hook = func(ctx context.Context, tx any) ([]byte, error) {
		rows, err := tx.(*sql.Tx).QueryContext(ctx, "INSERT INTO audit VALUES (1), (2), (3) RETURNING id")
		if err == nil {
			rows.Next()
		}
		return nil, err
	}
	apply(t, s, m, sdk.Accepted)
	var n int
	if err := db.QueryRow("SELECT count(*) FROM audit").Scan(&n); err != nil || n != 3 {
		t.Errorf("%d rows, %v; want 3", n, err)
	}
}
