package spannerstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
)

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

	// A function's writes count too.
	m := mutation(1, 1, "op-2")
	m.Payload = sdk.InputDigest(m.Operation, nil)
	m.Hook = func(_ context.Context, tx any) ([]byte, error) {
		for i := range 1000 {
			if err := tx.(*Tx).Insert("Wide", columns, values); err != nil {
				if !errors.Is(err, sdk.ErrTooLarge) || i < 790 {
					t.Errorf("write %d: %v", i, err)
				}
				return nil, err
			}
		}
		return nil, nil
	}
	commits := c.count("Commit")
	apply(t, s, m, sdk.NotApplied)
	if c.count("Commit") != commits {
		t.Error("it was sent to commit")
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
