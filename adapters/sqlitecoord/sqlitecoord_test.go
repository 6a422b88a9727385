package sqlitecoord

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance/coordination"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/clock"
	"github.com/fencedstore/fencedstore/sdk/registry"
	lib "modernc.org/sqlite/lib"
)

// file is a coordinator's file and the clock of its leases.
type file struct {
	path  string
	clock *clock.Manual
}

func newFile(t testing.TB) *file {
	return &file{filepath.Join(t.TempDir(), "coord.db"), clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC))}
}

func (f *file) open(t testing.TB) *Coordinator {
	t.Helper()
	c, err := Open(t.Context(), Scheme+f.path, &Options{Clock: f.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (f *file) query(ctx context.Context, query string, args ...any) (n int, err error) {
	db, err := sql.Open("sqlite", f.path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = retryBusy(ctx, func() error { return db.QueryRowContext(ctx, query, args...).Scan(&n) })
	return n, err
}

func TestConformance(t *testing.T) {
	f := newFile(t)
	looker := f.open(t)
	coordination.Run(t, coordination.Harness{Name: "sqlitecoord",
		Open: func(ctx context.Context) (coordination.Handle, error) {
			c, err := Open(ctx, Scheme+f.path, &Options{Clock: f.clock})
			if err != nil {
				return coordination.Handle{}, err
			}
			return coordination.Handle{Coordinator: c, Close: c.Close}, nil
		},
		Queued: func(ctx context.Context, r sdk.ResourceID) (n int, err error) {
			err = looker.transact(ctx, func(ctx context.Context) error {
				return looker.conn.QueryRowContext(ctx, "SELECT count(*) FROM fencedcoord_waiter WHERE resource = ?", string(r)).Scan(&n)
			})
			return n, err
		},
		Advance: f.clock.Advance,
		Expire: func(_ context.Context, r registry.Record) error {
			f.clock.Advance(r.TTL)
			return nil
		},
	})
}

func key(owner, id string) registry.Key {
	return registry.Key{Resource: "invoice/42", Owner: owner, RequestID: id}
}

func ask(owner, id string) registry.Acquisition {
	return registry.Acquisition{Key: key(owner, id), TTL: 10 * time.Second}
}

// The file outlives its handles: holder, requests and sequence, and C106, the end
// of the sequence.
func TestReopened(t *testing.T) {
	f := newFile(t)
	c := f.open(t)
	a, err := c.Acquire(t.Context(), ask("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := c.Acquire(t.Context(), ask("a", "1")); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("%v, want CLOSED", err)
	}
	c = f.open(t)
	again, err := c.Acquire(t.Context(), ask("a", "1"))
	if err != nil || again.Ref != a.Ref || again.Lease != a.Lease || !again.Until.Equal(a.Until) {
		t.Errorf("%+v, then %+v, %v", a, again, err)
	}
	if _, err := c.Raise(t.Context(), "invoice/42", sdk.MaxToken); err != nil {
		t.Fatal(err)
	}
	c.Close()
	f.clock.Advance(time.Hour)
	if _, err := f.open(t).Acquire(t.Context(), ask("b", "1")); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("%v, want UNSUITABLE", err)
	}
}

// A clock that is set back neither revives a lease nor draws a token twice.
func TestClockSetBack(t *testing.T) {
	f := newFile(t)
	c := f.open(t)
	a, err := c.Acquire(t.Context(), ask("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(11 * time.Second)
	if r, err := c.Status(t.Context(), a.Ref); err != nil || r.State != "EXPIRED" {
		t.Fatal(r.State, err)
	}
	f.clock.Advance(-time.Hour)
	if r, err := c.Status(t.Context(), a.Ref); err != nil || r.State != "EXPIRED" {
		t.Error(r.State, err)
	}
	b, err := c.Acquire(t.Context(), ask("b", "1"))
	if err != nil || b.Token != a.Token+1 {
		t.Error(b.Token, err)
	}
}

// C29: an older copy of the file is put back under a handle that saw more. C84.
func TestOlderCopy(t *testing.T) {
	f := newFile(t)
	c := f.open(t)
	for n := range 3 {
		a, err := c.Acquire(t.Context(), ask("a", fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Release(t.Context(), a.Ref); err != nil {
			t.Fatal(err)
		}
	}
	// Behind the back of the schema, as a copy would be.
	if _, err := c.conn.ExecContext(t.Context(), "DROP TRIGGER fencedcoord_sequence_up; UPDATE fencedcoord_sequence SET highest = 1; DELETE FROM fencedcoord_request WHERE token > 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(t.Context(), ask("b", "1")); !errors.Is(err, sdk.ErrFenceRegression) {
		t.Errorf("%v, want FENCE_REGRESSION", err)
	}
	if n, err := f.query(t.Context(), "SELECT highest FROM fencedcoord_sequence"); err != nil || n != 1 {
		t.Error(n, err)
	}
	if _, err := c.Raise(t.Context(), "invoice/42", 10); err != nil {
		t.Fatal(err)
	}
	if b, err := c.Acquire(t.Context(), ask("b", "1")); err != nil || b.Token != 11 {
		t.Error(b.Token, err)
	}
}

// The schema keeps R1, R2 and R4, whoever writes to the file.
func TestSchemaRefuses(t *testing.T) {
	f := newFile(t)
	c := f.open(t)
	if _, err := c.Acquire(t.Context(), ask("a", "1")); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		"UPDATE fencedcoord_sequence SET highest = 0",
		"UPDATE fencedcoord_sequence SET highest = highest",
		"DELETE FROM fencedcoord_sequence",
		"UPDATE fencedcoord_request SET token = 9",
		"INSERT INTO fencedcoord_request SELECT resource, 'b', request, 9, revision, ttl_millis, params, note, until_millis, state FROM fencedcoord_request",
		"INSERT INTO fencedcoord_request SELECT resource, 'b', request, token, revision, ttl_millis, params, note, until_millis, 'EXPIRED' FROM fencedcoord_request",
	} {
		if _, err := c.conn.ExecContext(t.Context(), q); primary(err) != lib.SQLITE_CONSTRAINT {
			t.Errorf("%s: %v", q, err)
		}
	}
}

// A waiter whose process is gone does not block those behind it.
func TestDeadWaiter(t *testing.T) {
	f := newFile(t)
	c := f.open(t)
	_, err := c.conn.ExecContext(t.Context(), "INSERT INTO fencedcoord_waiter (resource, owner, request, seen_millis) VALUES ('invoice/42', 'dead', '1', ?)", time.Now().Add(-2*WaiterLife).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(t.Context(), ask("a", "1")); err != nil {
		t.Error(err)
	}
	if n, err := f.query(t.Context(), "SELECT count(*) FROM fencedcoord_waiter"); err != nil || n != 0 {
		t.Error(n, err)
	}
}

func TestBadDSN(t *testing.T) {
	for _, d := range []string{"", "sqlitecoord:", "sqlitecoord::memory:", "sqlite:x", "sqlitecoord:x?y=z"} {
		if _, err := Open(t.Context(), d, nil); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		}
	}
}

// Files of others stay as they were.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	other := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE theirs (x)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for _, p := range []string{write("short", "hello"), write("long", fmt.Sprintf("%1000s", "not a database")), other, dir, filepath.Join(dir, "no", "such")} {
		before, _ := os.ReadFile(p)
		if _, err := Open(t.Context(), Scheme+p, nil); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%s: %v, want UNSUITABLE", filepath.Base(p), err)
		}
		if after, _ := os.ReadFile(p); string(before) != string(after) {
			t.Errorf("%s was changed", filepath.Base(p))
		}
	}
}

func TestClassify(t *testing.T) {
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, sql.ErrConnDone, errors.New("other")} {
		if got := classify(err); sdk.CodeOf(got) != sdk.NotApplied {
			t.Errorf("%v: %v", err, got)
		}
		if got := committed(err); sdk.CodeOf(got) != sdk.MutationUnknown {
			t.Errorf("%v: %v", err, got)
		}
	}
	seen := map[int]bool{}
	for _, r := range rules {
		if seen[r.code] || r.advice == "" || r.ours != sdk.NotApplied && r.ours != sdk.Unsuitable {
			t.Errorf("%+v", r)
		}
		seen[r.code] = true
	}
	if ours := registry.Busy(key("a", "1")); classify(ours) != ours || classify(nil) != nil || committed(nil) != nil {
		t.Error("an error that is ours does not stay")
	}
}
