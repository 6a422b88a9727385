package sqlitejournal

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/reconcile"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const childDSN = "FENCEDSTORE_TEST_JOURNAL"

// TestMain is a worker too, which begins intents until it is killed.
func TestMain(m *testing.M) {
	dsn := os.Getenv(childDSN)
	if dsn == "" {
		os.Exit(m.Run())
	}
	j, err := Open(context.Background(), dsn)
	for n := 0; err == nil; n++ {
		if _, err = j.Begin(context.Background(), intent(fmt.Sprint("op-", n), time.UnixMilli(int64(n)))); err == nil {
			fmt.Println(n)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func intent(op string, since time.Time) reconcile.Intent {
	return reconcile.Intent{Resource: "invoice/42", Operation: sdk.OperationID(op), Segment: 1<<62 - 1, Fence: sdk.MaxToken, Grant: sdk.SumDigest([]byte("grant")), Owner: "w",
		Audience: "db", Category: "bill", Root: sdk.SumDigest([]byte("root")), Payload: sdk.SumDigest([]byte(op)),
		Effects: []sdk.Effect{sdk.Put("k", []byte{0, 255, '"'})}, Result: []byte("result"), Since: since.UTC()}
}

func opened(t *testing.T, dsn string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func begin(t *testing.T, j *Journal, in reconcile.Intent, fresh bool) {
	t.Helper()
	got, err := j.Begin(t.Context(), in)
	if err != nil || got != fresh {
		t.Errorf("begun %q: fresh %v, %v", in.Operation, got, err)
	}
}

func wantOpen(t *testing.T, j *Journal, want ...reconcile.Intent) {
	t.Helper()
	got, err := j.Open(t.Context())
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestJournal(t *testing.T) {
	dsn := Scheme + filepath.Join(t.TempDir(), "journal.db")
	j := opened(t, dsn)
	at := time.UnixMilli(1_700_000_000_123)
	b, a := intent("b", at.Add(time.Second)), intent("a", at)
	begin(t, j, b, true)
	begin(t, j, a, true)
	begin(t, j, a, false)
	wantOpen(t, j, a, b)
	// Sent again under another fence it is the same unknown, as old as it was.
	later := intent("a", at.Add(time.Hour))
	later.Fence--
	begin(t, j, later, false)
	later.Since = a.Since
	if err := j.Escalated(t.Context(), a.Resource, "a", at.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	later.Escalated = at.Add(time.Minute).UTC()
	again := opened(t, dsn)
	wantOpen(t, again, later, b)
	for range 2 {
		if err := again.Settle(t.Context(), a.Resource, "a", reconcile.Applied); err != nil {
			t.Fatal(err)
		}
	}
	wantOpen(t, j, b)
	begin(t, j, a, true)
	wantOpen(t, j, a, b)
	if err := j.Settle(t.Context(), b.Resource, "b", reconcile.Absent); err != nil {
		t.Fatal(err)
	}
	if n, err := j.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil || n != 1 {
		t.Error(n, err)
	}
	wantOpen(t, j, a)
}

// A worker is killed: what it began is there.
func TestKilled(t *testing.T) {
	dsn := Scheme + filepath.Join(t.TempDir(), "journal.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDSN+"="+dsn)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last, lines := -1, bufio.NewScanner(out)
	for lines.Scan() {
		if _, err := fmt.Sscan(lines.Text(), &last); err != nil {
			t.Fatal(err)
		}
		if last == 20 {
			cmd.Process.Kill() // what it still wrote is read on
		}
	}
	cmd.Wait()
	open, err := opened(t, dsn).Open(t.Context())
	if err != nil || last < 20 || len(open) < last+1 {
		t.Fatalf("%d intents after %d were acknowledged: %v", len(open), last+1, err)
	}
}

func TestRefuses(t *testing.T) {
	for _, d := range []string{"", "sqlitejournal:", "sqlitejournal::memory:", "sqlite:x", "sqlitejournal:x?y"} {
		if _, err := Open(t.Context(), d); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		}
	}
	other := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE theirs (x)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for _, p := range []string{other, t.TempDir(), filepath.Join(other, "no")} {
		if _, err := Open(t.Context(), Scheme+p); !errors.Is(err, sdk.ErrUnsuitable) {
			t.Errorf("%v, want UNSUITABLE", err)
		}
	}
	j := opened(t, Scheme+filepath.Join(t.TempDir(), "j.db"))
	j.Close()
	if _, err := j.Begin(t.Context(), intent("a", time.Now())); !errors.Is(err, sdk.ErrNotApplied) {
		t.Errorf("%v, want NOT_APPLIED", err)
	}
}
