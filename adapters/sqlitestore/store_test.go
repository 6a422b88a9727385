package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

const resource sdk.ResourceID = "invoice/42"

func open(t testing.TB, path string, opts sdk.OpenOptions) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), "sqlite:"+path+"?create=beside", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*sqlitestore.Store)
}

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "store.db") }

func mutation(fence sdk.Token, segment sdk.Segment, op string, effects ...sdk.Effect) *sdk.Mutation {
	id := sdk.OperationID(op)
	return &sdk.Mutation{Resource: resource, Operation: id, Fence: fence, Segment: segment, Owner: "w",
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(fence.String())),
		Payload: sdk.PayloadDigest(id, nil, effects), Effects: effects}
}

func admit(m *sdk.Mutation) sdk.Admission { return sdk.NewAdmission(seal.Cut(), m) }

func apply(t testing.TB, s sdk.FencedStore, m *sdk.Mutation, want sdk.Code) error {
	t.Helper()
	out, err := s.Apply(t.Context(), admit(m))
	if out.Code != want || (err == nil) != want.Ok() {
		t.Fatalf("%s: got %v, %v; want %v", m.Operation, out.Code, err, want)
	}
	return err
}

func TestReopen(t *testing.T) {
	path := tempFile(t)
	s := open(t, path, sdk.OpenOptions{})
	apply(t, s, mutation(7, 1, "op-1", sdk.Put("k", []byte("v"))), sdk.Accepted)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := s.Inspect(t.Context(), resource); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("Inspect after Close: %v", err)
	}
	apply(t, s, mutation(8, 1, "op-2"), sdk.Closed)
	s = open(t, path, sdk.OpenOptions{})
	apply(t, s, mutation(6, 1, "op-2"), sdk.StaleOwner)
	apply(t, s, mutation(7, 1, "op-1", sdk.Put("k", []byte("v"))), sdk.Replayed)
	if v, err := s.Read(t.Context(), resource, "k"); err != nil || string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
	if err := s.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

// Many writers on many resources share commits; every one of them is answered
// for itself.
func TestSharedCommits(t *testing.T) {
	s := open(t, tempFile(t), sdk.OpenOptions{})
	const writers, each = 32, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 1; i <= each; i++ {
				m := mutation(5, sdk.Segment(i), "op-"+strconv.Itoa(i), sdk.Put("k", []byte(strconv.Itoa(i))))
				m.Resource = sdk.ResourceID("r/" + strconv.Itoa(w))
				if out, err := s.Apply(t.Context(), admit(m)); err != nil {
					t.Errorf("writer %d, %d: %v, %v", w, i, out.Code, err)
				}
				stale := *m
				stale.Fence = 4
				if out, _ := s.Apply(t.Context(), admit(&stale)); out.Code != sdk.StaleOwner {
					t.Errorf("writer %d, %d: stale is %v", w, i, out.Code)
				}
			}
		})
	}
	wg.Wait()
}

// Handles opened apart fight for the file's lock and lose nothing.
func TestManyHandles(t *testing.T) {
	path := tempFile(t)
	var wg sync.WaitGroup
	const handles, each = 4, 10
	for h := range handles {
		s := open(t, path, sdk.OpenOptions{})
		wg.Go(func() {
			for i := 1; i <= each; i++ {
				m := mutation(1, sdk.Segment(i), "op-"+strconv.Itoa(i))
				m.Resource = sdk.ResourceID("handle/" + strconv.Itoa(h))
				if out, err := s.Apply(t.Context(), admit(m)); err != nil {
					t.Errorf("handle %d, %d: %v, %v", h, i, out.Code, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestHook(t *testing.T) {
	path := tempFile(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER CHECK (cents >= 0)); INSERT INTO account VALUES (1, 100)"); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, sdk.OpenOptions{})
	withdraw := func(op string, segment sdk.Segment, fn func(tx *sql.Tx) error) *sdk.Mutation {
		m := mutation(1, segment, op)
		m.Hook = func(ctx context.Context, tx any) ([]byte, error) {
			if err := fn(tx.(*sql.Tx)); err != nil {
				return nil, err
			}
			return []byte("done"), nil
		}
		return m
	}
	take := func(cents int) func(tx *sql.Tx) error {
		return func(tx *sql.Tx) error {
			_, err := tx.Exec("UPDATE account SET cents = cents - ? WHERE id = 1", cents)
			return err
		}
	}
	apply(t, s, withdraw("op-1", 1, take(30)), sdk.Accepted)
	apply(t, s, withdraw("op-1", 1, take(30)), sdk.Replayed)
	apply(t, s, withdraw("op-2", 2, take(300)), sdk.NotApplied)
	for name, fn := range map[string]func(tx *sql.Tx) error{
		"panics":         func(*sql.Tx) error { panic("business") },
		"commits":        func(tx *sql.Tx) error { take(1)(tx); return errors.Join(tx.Commit(), errors.New("committed")) },
		"commits, nil":   func(tx *sql.Tx) error { take(1)(tx); tx.Commit(); return nil },
		"rolls back":     func(tx *sql.Tx) error { take(1)(tx); tx.Rollback(); return nil },
		"commits in SQL": func(tx *sql.Tx) error { take(1)(tx); _, err := tx.Exec("COMMIT"); return err },
		"lowers a fence": func(tx *sql.Tx) error { _, err := tx.Exec("UPDATE fencedstore_fence SET highest = 1"); return err },
		"drops a table":  func(tx *sql.Tx) error { _, err := tx.Exec("DROP TABLE fencedstore_receipt"); return err },
		"detaches":       func(tx *sql.Tx) error { _, err := tx.Exec("PRAGMA synchronous = OFF"); return err },
	} {
		apply(t, s, withdraw("op-"+name, 2, fn), sdk.NotApplied)
		var cents int
		if err := db.QueryRow("SELECT cents FROM account").Scan(&cents); err != nil || cents != 70 {
			t.Fatalf("%s: %d cents, %v", name, cents, err)
		}
	}
	apply(t, s, withdraw("op-2", 2, take(20)), sdk.Accepted)
	r, err := s.Receipt(t.Context(), resource, "op-2")
	if err != nil || string(r.Result) != "done" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A caller that leaves before COMMIT is proved not applied, promptly, though the
// writer is held up.
func TestContextEndsWhileAHookRuns(t *testing.T) {
	s := open(t, tempFile(t), sdk.OpenOptions{})
	entered, leave := make(chan struct{}), make(chan struct{})
	m := mutation(1, 1, "slow")
	m.Hook = func(context.Context, any) ([]byte, error) { close(entered); <-leave; return nil, nil }
	slow := make(chan error, 1)
	go func() { _, err := s.Apply(context.Background(), admit(m)); slow <- err }()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	other := mutation(1, 1, "other")
	other.Resource = "invoice/43"
	done := make(chan sdk.Outcome, 1)
	go func() { out, _ := s.Apply(ctx, admit(other)); done <- out }()
	cancel()
	if out := <-done; out.Code != sdk.NotApplied {
		t.Errorf("got %v, want NOT_APPLIED", out.Code)
	}
	close(leave)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	apply(t, s, other, sdk.Accepted)
}
