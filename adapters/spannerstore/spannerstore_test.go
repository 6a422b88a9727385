package spannerstore

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/civil"
	"cloud.google.com/go/spanner"
	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// once bends the first Commit and lets everything else through.
func once(f func(ctx context.Context, reply any, send func() error) error) bend {
	var mu sync.Mutex
	done := false
	return func(ctx context.Context, method string, _, reply any, send func() error) error {
		mu.Lock()
		first := method == "Commit" && !done
		done = done || first
		mu.Unlock()
		if first {
			return f(ctx, reply, send)
		}
		return send()
	}
}

// C11, C26: codes at the commit, with the transaction committed and not. What
// proves nothing is settled by the receipt: REPLAYED, or, as long as it may yet
// land, MUTATION_UNKNOWN, and accepted once when it is sent again.
func TestLostAnswer(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	segment := 0
	for _, lost := range []codes.Code{codes.Unknown, codes.DeadlineExceeded, codes.Internal, codes.Canceled, codes.DataLoss} {
		for _, committed := range []bool{true, false} {
			segment++
			m := mutation(1, segment, fmt.Sprint("op-", segment), sdk.Put("k", []byte("v")))
			c.set(once(func(_ context.Context, _ any, send func() error) error {
				if committed {
					if err := send(); err != nil {
						t.Error(err)
					}
				}
				return status.Error(lost, "Transaction outcome unknown")
			}))
			want := sdk.MutationUnknown
			if committed {
				want = sdk.Replayed
			}
			apply(t, s, m, want)
			c.set(nil)
			want = sdk.Accepted
			if committed {
				want = sdk.Replayed
			}
			apply(t, s, m, want)
		}
	}
}

// An answer that was lost while another writer moved on: this commit can never
// land any more, so the mutation is judged anew.
func TestLostAndOvertaken(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	other, _ := watched(t, e)
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
	c.set(once(func(_ context.Context, _ any, _ func() error) error {
		apply(t, other, mutation(2, 1, "op-2"), sdk.Accepted)
		return status.Error(codes.Unknown, "Transaction outcome unknown")
	}))
	// The transaction holds the emulator's turn; the other handle must not wait.
	s.one = make(chan struct{}, 1)
	apply(t, s, mutation(1, 2, "op-3"), sdk.StaleOwner)
}

// C26, C56, C58: every code on the list, and some that are not.
func TestCommitAnswers(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	want := map[codes.Code]sdk.Code{codes.Unknown: sdk.MutationUnknown, codes.DeadlineExceeded: sdk.MutationUnknown, codes.DataLoss: sdk.MutationUnknown, 99: sdk.MutationUnknown}
	for _, a := range commitAnswers {
		if a.code != codes.Aborted { // the client runs the transaction anew
			want[a.code] = a.means
		}
	}
	segment := 0
	for answer, means := range want {
		segment++
		m := mutation(1, segment, fmt.Sprint("op-", segment))
		c.set(once(func(context.Context, any, func() error) error { return status.Error(answer, "x") }))
		apply(t, s, m, means)
		c.set(nil)
		apply(t, s, m, sdk.Accepted)
	}
	for _, err := range []error{errors.New("x"), context.Canceled, status.Error(codes.Unavailable, "x")} {
		if got := sdk.CodeOf(commitError(err, false)); got != sdk.MutationUnknown {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// C59: ABORTED is run anew, with everything read again, a bounded number of
// times; and the handle is as good as before.
func TestAborted(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	aborted := 0
	c.set(func(_ context.Context, method string, _, _ any, send func() error) error {
		if method == "Commit" && aborted < 5 {
			aborted++
			return status.Error(codes.Aborted, "x")
		}
		return send()
	})
	apply(t, s, mutation(1, 1, "op-1", sdk.Put("k", []byte("v"))), sdk.Accepted)
	for range 3 {
		c.set(func(_ context.Context, method string, _, _ any, send func() error) error {
			if method == "Commit" {
				return status.Error(codes.Aborted, "x")
			}
			return send()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		out, err := s.Apply(ctx, sdk.NewAdmission(seal.Cut(), mutation(1, 2, "op-2")))
		cancel()
		if out.Code != sdk.NotApplied && out.Code != sdk.MutationUnknown {
			t.Fatalf("%v, %v", out.Code, err)
		}
		if errors.Is(err, context.Canceled) {
			t.Error("nobody cancelled it")
		}
		c.set(nil)
		if _, err := s.Receipt(t.Context(), resource, "op-2"); sdk.CodeOf(err) != sdk.NotFound {
			t.Fatal(err)
		}
	}
	apply(t, s, mutation(1, 2, "op-2"), sdk.Accepted)
}

// C57: a commit on a multiplexed session may be asked for twice; it is one.
func TestMultiplexedRetry(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	var held []*spannerpb.Mutation // by the server, which asks for the commit once more
	c.set(func(_ context.Context, method string, req, reply any, send func() error) error {
		if method != "Commit" {
			return send()
		}
		commit := req.(*spannerpb.CommitRequest)
		if held == nil {
			held = commit.Mutations
			reply.(*spannerpb.CommitResponse).MultiplexedSessionRetry = &spannerpb.CommitResponse_PrecommitToken{
				PrecommitToken: &spannerpb.MultiplexedSessionPrecommitToken{PrecommitToken: []byte("t"), SeqNum: 1}}
			return nil
		}
		if len(commit.Mutations) != 0 || string(commit.PrecommitToken.GetPrecommitToken()) != "t" {
			t.Errorf("sent again with %d mutations and token %q", len(commit.Mutations), commit.PrecommitToken.GetPrecommitToken())
		}
		commit.Mutations, commit.PrecommitToken = held, nil
		return send()
	})
	before := c.count("Commit")
	apply(t, s, mutation(1, 1, "op-1", sdk.Put("k", []byte("v"))), sdk.Accepted)
	if n := c.count("Commit") - before; n != 2 {
		t.Errorf("%d commits", n)
	}
	if v, err := s.Read(t.Context(), resource, "k"); err != nil || string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
}

func TestRoundTrips(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
	for i := 2; i < 10; i++ {
		before := c.all()
		apply(t, s, mutation(1, i, fmt.Sprint("op-", i), sdk.Put("k", []byte("v"))), sdk.Accepted)
		if n := c.all() - before; n != 2 {
			t.Errorf("segment %d took %d requests", i, n)
		}
	}
	before := c.all()
	apply(t, s, mutation(1, 20, "op-20"), sdk.SegmentSkipped)
	if n := c.all() - before; n > 2 {
		t.Errorf("a refusal took %d requests", n)
	}
}

// C58: cells are counted before anything is sent, with those of fence and
// receipt; what the server refuses as too much is final.
func TestCells(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	columns, values := make([]string, 100), make([]any, 100)
	for i := range columns {
		columns[i], values[i] = fmt.Sprintf("C%d", i), i
	}
	w, err := Write("insert", "Wide", columns, values)
	if err != nil {
		t.Fatal(err)
	}
	s.opts.Scope = func(sdk.ResourceID, sdk.Effect) error { return nil }
	before := c.all()
	effects := make([]sdk.Effect, 800)
	for i := range effects {
		effects[i] = w
	}
	apply(t, s, mutation(1, 1, "op-1", effects...), sdk.TooLarge)
	if c.all() != before {
		t.Error("something was sent")
	}
}

// C24: what is ACCEPTED on the emulator is there; and a transaction that its
// client left open is in nobody's way.
func TestAcceptedIsThere(t *testing.T) {
	e := start(t)
	s, _ := watched(t, e)
	left := e.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	inside := make(chan struct{})
	go left.ReadWriteTransaction(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		tx.ReadRow(ctx, recordTable, s.key(resource, kindFence, ""), fenceColumns)
		select {
		case inside <- struct{}{}:
			<-ctx.Done()
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	<-inside
	defer cancel()
	for i := 1; i <= 20; i++ {
		op := sdk.OperationID(fmt.Sprint("op-", i))
		apply(t, s, mutation(1, i, string(op)), sdk.Accepted)
		if r, err := s.Receipt(t.Context(), resource, op); err != nil || r.Segment != sdk.Segment(i) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}

func TestProbe(t *testing.T) {
	e := start(t)
	s := open(t, e)
	if err := s.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := e.client(t).Single().Read(t.Context(), probeTable, spanner.AllKeys(), []string{"Name"})
	if err := rows.Do(func(*spanner.Row) error { return errors.New("a row is left") }); err != nil {
		t.Error(err)
	}
	alter := func(statements ...string) {
		t.Helper()
		admin, err := database.NewDatabaseAdminClient(t.Context(), e.options()...)
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		op, err := admin.UpdateDatabaseDdl(t.Context(), &databasepb.UpdateDatabaseDdlRequest{Database: databaseOf, Statements: statements})
		if err == nil {
			err = op.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	alter("ALTER TABLE FencedstoreRecord ADD COLUMN Made TIMESTAMP", "ALTER TABLE FencedstoreRecord ADD ROW DELETION POLICY (OLDER_THAN(Made, INTERVAL 30 DAY))")
	if err := s.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("with a row deletion policy: %v", err)
	}
	alter("ALTER TABLE FencedstoreRecord DROP ROW DELETION POLICY", "DROP TABLE FencedstoreProbe")
	if err := s.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("without a table: %v", err)
	}
	alter("DROP TABLE FencedstoreMeta")
	if _, err := Open(t.Context(), e.dsn(), sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("without the store's record: %v", err)
	}
}

// The hook's transaction: it reads and writes what commits with the fence, and
// nothing of ours; it ends with the function.
func TestHook(t *testing.T) {
	e := start(t)
	s, _ := watched(t, e)
	hooked := func(segment int, f func(ctx context.Context, tx *Tx) error) *sdk.Mutation {
		m := mutation(1, segment, fmt.Sprint("op-", segment))
		m.Payload = sdk.InputDigest(m.Operation, nil)
		m.Hook = func(ctx context.Context, tx any) ([]byte, error) { return []byte("done"), f(ctx, tx.(*Tx)) }
		return m
	}
	var kept *Tx
	apply(t, s, hooked(1, func(ctx context.Context, tx *Tx) error {
		kept = tx
		if _, err := tx.Update(ctx, spanner.Statement{SQL: "INSERT INTO Ledger (Account, Balance) VALUES ('a', 5)"}); err != nil {
			return err
		}
		return tx.InsertOrUpdate("Ledger", []string{"Account", "Balance"}, []any{"b", 6})
	}), sdk.Accepted)
	if err := kept.Delete("Ledger", spanner.AllKeys()); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("after its function: %v", err)
	}
	apply(t, s, hooked(2, func(ctx context.Context, tx *Tx) error {
		sum := int64(0)
		err := tx.Query(ctx, spanner.Statement{SQL: "SELECT Balance FROM Ledger"}, func(r *spanner.Row) error {
			var n int64
			err := r.Columns(&n)
			sum += n
			return err
		})
		if err == nil && sum != 11 {
			err = fmt.Errorf("the sum is %d", sum)
		}
		row, rerr := tx.ReadRow(ctx, "Ledger", spanner.Key{"a"}, []string{"Balance"})
		if err == nil && (rerr != nil || row == nil) {
			err = rerr
		}
		return err
	}), sdk.Accepted)
	apply(t, s, hooked(3, func(ctx context.Context, tx *Tx) error {
		tx.Delete("Ledger", spanner.AllKeys())
		return errors.New("no")
	}), sdk.NotApplied)
	apply(t, s, hooked(3, func(context.Context, *Tx) error { panic("no") }), sdk.NotApplied)
	for _, own := range []func(context.Context, *Tx) error{
		func(ctx context.Context, tx *Tx) error {
			_, err := tx.Update(ctx, spanner.Statement{SQL: "/* x */ DELETE FROM `fencedstoreRecord` WHERE TRUE"})
			return err
		},
		func(_ context.Context, tx *Tx) error { return tx.Delete("FencedstoreRecord", spanner.AllKeys()) },
		func(_ context.Context, tx *Tx) error {
			return tx.UpdateRow("fencedstorevalue", []string{"A"}, []any{1})
		},
		func(_ context.Context, tx *Tx) error { return tx.Insert("a b", []string{"A"}, []any{1}) },
		func(ctx context.Context, tx *Tx) error {
			_, err := tx.Update(ctx, spanner.Statement{SQL: "SELECT 1"})
			return err
		},
	} {
		apply(t, s, hooked(3, func(ctx context.Context, tx *Tx) error {
			if err := own(ctx, tx); !errors.Is(err, sdk.ErrInvalid) {
				t.Errorf("%v, want INVALID", err)
			}
			return errors.New("no")
		}), sdk.NotApplied)
	}
}

// Every type comes back, and has one spelling.
func TestValues(t *testing.T) {
	for _, v := range []any{true, 7, int64(-1 << 63), 1.5, "é", []byte{0, 255}, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), civil.Date{Year: 2026, Month: 1, Day: 2},
		big.NewRat(1, 4), spanner.NullString{}, spanner.NullInt64{Int64: 3, Valid: true}, spanner.NullBool{}, spanner.NullFloat64{}, spanner.NullTime{}, spanner.NullDate{}, spanner.NullNumeric{}} {
		e, err := Write("insert", "T", []string{"A"}, []any{v})
		if err != nil {
			t.Errorf("%v: %v", v, err)
			continue
		}
		w, err := ParseWrite(e.Body)
		if err != nil || len(w.Values) != 1 {
			t.Errorf("%s: %v", e.Body, err)
		}
	}
	for _, bad := range []any{nil, 'x', uint64(1), struct{}{}, (*big.Rat)(nil)} {
		if _, err := Write("insert", "T", []string{"A"}, []any{bad}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%T: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "null", "{}", `{"op":"insert","table":"T","columns":["A"],"values":[{"type":"INT64","value":"01"}]}`, `{"op":"insert","table":"T","columns":["A"],"values":[{"type":"INT64","value":"9223372036854775808"}]}`,
		`{"op":"insert","table":"T","columns":["A"],"values":[{"type":"FLOAT64","value":"NaN"}]}`, `{"op":"insert","table":"T","columns":["A"],"values":[{"type":"BYTES","value":"AA"}]}`,
		`{"op":"insert","table":"T","columns":["A"],"values":[{"type":"JSON","value":"1"}]}`, `{"op":"insert","table":"T","columns":["A","B"],"values":[{"type":"INT64","value":"1"}]}`,
		`{"op":"upsert","table":"T","columns":["A"],"values":[{"type":"INT64","value":"1"}]}`, `{"op":"delete","table":"T","values":[]}`, `{"op":"insert","table":"T;","columns":["A"],"values":[{"type":"INT64","value":"1"}]}`,
		`{"op":"insert","table":"T","columns":["A b"],"values":[{"type":"INT64","value":"1"}]}`, `{"op":"insert","table":"T","columns":["A"],"values":[{"type":"NUMERIC","value":"1/3"}]}`, `{"op":"insert","x":1}`} {
		if _, err := ParseWrite([]byte(bad)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "{}", `{"sql":"SELECT 1"}`, `{"sql":"CREATE TABLE x (a INT64) PRIMARY KEY (a)"}`, `{"sql":"-- x\nDELETE FROM FENCEDSTORERECORD WHERE TRUE"}`, `{"sql":"UPDATE T SET A = @a WHERE TRUE","params":{"a":{"type":"?"}}}`} {
		if _, err := ParseDML([]byte(bad)); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzParseWrite(f *testing.F) {
	e, err := Write("insert", "T", []string{"A", "B"}, []any{"x", spanner.NullInt64{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Body)
	f.Add([]byte(`{"op":"delete","table":"T","values":[{"type":"DATE","value":"2026-01-02"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w, err := ParseWrite(body)
		if err == nil && ours(w.Table) {
			t.Errorf("%q is ours", w.Table)
		}
	})
}

func TestBadDSN(t *testing.T) {
	good := "spanner://projects/p/instances/i/databases/db"
	for _, d := range []string{"", "spanner:", "spanner://", "spanner://projects/p", good + "/x", "http://projects/p/instances/i/databases/db", "spanner://u:p@projects/p/instances/i/databases/db", good + "?x=1",
		good + "?endpoint=x", good + "?endpoint=", good + "?plaintext=true", good + "?plaintext=yes", good + "?environment=embedded", good + "?quarantine=0", good + "?quarantine=1&quarantine=2", good + "#x", strings.ToUpper(good)} {
		if _, err := Open(t.Context(), d, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		}
		if _, err := Schema(d); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Schema(%q): %v, want INVALID", d, err)
		}
	}
	parts, err := Schema(good)
	if err != nil || len(parts) != 3 {
		t.Errorf("%v, %v", parts, err)
	}
}

// A place keeps its namespace.
func TestPlace(t *testing.T) {
	e := start(t)
	open(t, e)
	if _, err := Open(t.Context(), e.dsn(), sdk.OpenOptions{Namespace: "other"}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("%v", err)
	}
	shadow, err := Open(t.Context(), e.dsn(), sdk.OpenOptions{Namespace: sdk.ShadowNamespace("")})
	if err != nil {
		t.Fatal(err)
	}
	shadow.Close()
}
