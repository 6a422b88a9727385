package spannerstore

import (
	"context"
	"fmt"
	"testing"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/grpc/codes"
)

// Spellings under which the database knows the fence's table, and some under
// which it might.
var spellings = []string{
	"FencedstoreRecord", "fencedstorerecord", "`FencedstoreRecord`",
	"`\\x46encedstoreRecord`", "`\\u0046encedstoreRecord`", "`\\U00000046encedstoreRecord`", "`\\106encedstoreRecord`", "`F\\x65ncedstoreRecord`",
	"`Fenced\u017ftoreRecord`", "`Fenced\\u017ftoreRecord`", "``.FencedstoreRecord", "Fenced/**/storeRecord", "FENCEDSTORERECORD@{FORCE_INDEX=_BASE_TABLE}",
}

func TestSpellings(t *testing.T) {
	e := start(t)
	s, _ := watched(t, e)
	s.opts.Scope = func(sdk.ResourceID, sdk.Effect) error { return nil }
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
	client := e.client(t)
	for i, name := range spellings {
		sql := "DELETE FROM " + name + " WHERE Kind = 'fence' AND Resource = 'none'"
		_, err := client.ReadWriteTransaction(t.Context(), func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
			_, err := tx.Update(ctx, spanner.Statement{SQL: sql})
			return err
		})
		_, derr := DML(spanner.Statement{SQL: sql})
		t.Logf("%s: the database: %v; the adapter: %v", name, err, derr)
		if err == nil && derr == nil {
			t.Errorf("%s reaches the fence's table", name)
		}
		m := mutation(1, 2, fmt.Sprint("q-", i))
		m.Payload = sdk.InputDigest(m.Operation, nil)
		m.Hook = func(ctx context.Context, tx any) ([]byte, error) {
			err := tx.(*Tx).Query(ctx, spanner.Statement{SQL: sql + " THEN RETURN Fence"}, func(*spanner.Row) error { return nil })
			if err == nil {
				t.Errorf("Query: %s reaches the fence's table", name)
			}
			return nil, fmt.Errorf("no")
		}
		apply(t, s, m, sdk.NotApplied)
	}
}

// C8: a fence that was deleted is missed, by its marker, and by any receipt where
// the marker was deleted with it.
func TestRemovedFence(t *testing.T) {
	e := start(t)
	s, _ := watched(t, e)
	client := e.client(t)
	for i := 1; i <= 3; i++ {
		apply(t, s, mutation(12, i, fmt.Sprint("op-", i)), sdk.Accepted)
	}
	for _, kind := range []string{kindFence, kindMarker} {
		if _, err := client.Apply(t.Context(), []*spanner.Mutation{spanner.Delete(recordTable, s.key(resource, kind, ""))}); err != nil {
			t.Fatal(err)
		}
		apply(t, s, mutation(5, 1, "old"), sdk.FenceRegression)
		apply(t, s, mutation(12, 4, "op-4"), sdk.FenceRegression)
		if _, err := s.Inspect(t.Context(), resource); sdk.CodeOf(err) != sdk.FenceRegression {
			t.Errorf("without the %s: Inspect: %v", kind, err)
		}
		if _, err := s.Receipt(t.Context(), resource, "none"); sdk.CodeOf(err) != sdk.FenceRegression {
			t.Errorf("without the %s: Receipt: %v", kind, err)
		}
	}
}

// A fence of 0 or a row of another kind cannot be written past the store; where
// its constraints were dropped, a row that cannot be is UNSUITABLE when it is
// read: never a fence of 0, and never passed by.
func TestDamagedRows(t *testing.T) {
	e := start(t)
	s, _ := watched(t, e)
	client := e.client(t)
	for _, bad := range []*spanner.Mutation{
		spanner.Insert(recordTable, append(append([]string(nil), markerColumns...), "Fence", "Segment"), append([]any(s.key(resource, kindFence, "")), int64(0), int64(1))),
		spanner.Insert(recordTable, markerColumns, s.key(resource, "other", "")),
	} {
		if _, err := client.Apply(t.Context(), []*spanner.Mutation{bad}); code(err) != codes.OutOfRange {
			t.Errorf("a row that cannot be was answered %v", err)
		}
	}
	e.alter(t, "ALTER TABLE FencedstoreRecord DROP CONSTRAINT FencedstoreRecordRange")
	receipt := s.key(resource, kindReceipt, "op-1")
	fence := s.key(resource, kindFence, "")
	for _, d := range []struct {
		key    spanner.Key
		column string
		value  any
	}{
		{fence, "Fence", int64(0)}, {fence, "Fence", int64(-1)}, {fence, "Fence", spanner.NullInt64{}},
		{fence, "Segment", int64(0)}, {fence, "Segment", int64(1)<<62 + 1}, {fence, "Root", []byte("short")}, {fence, "Root", []byte(nil)},
		{fence, "GrantDigest", make([]byte, 32)}, {fence, "PolicyGeneration", int64(-1)}, {fence, "TrustGeneration", spanner.NullInt64{}},
		{receipt, "Fence", int64(0)}, {receipt, "Payload", []byte(nil)}, {receipt, "Segment", int64(-1)},
	} {
		write := func(ms ...*spanner.Mutation) {
			t.Helper()
			if _, err := client.Apply(t.Context(), ms); err != nil {
				t.Fatal(err)
			}
		}
		write(spanner.Delete(recordTable, spanner.AllKeys()))
		apply(t, s, mutation(7, 1, "op-1"), sdk.Accepted)
		write(spanner.Update(recordTable, append(append([]string(nil), markerColumns...), d.column), append([]any(d.key), d.value)))
		out, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), mutation(7, 1, "op-1")))
		if out.Code != sdk.Unsuitable {
			t.Errorf("%s %s %v: %v, %v", d.key[2], d.column, d.value, out.Code, err)
		}
	}
}
