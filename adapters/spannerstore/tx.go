package spannerstore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/grpc/codes"
)

// Tx is the transaction in which a function of gate.ApplyTx runs: reads are
// locked, writes commit with fence and receipt or not at all. It cannot commit
// or roll back, refuses the store's own tables, and ends with the function. The
// function runs again when Spanner aborts the transaction.
type Tx struct {
	tx *spanner.ReadWriteTransaction

	mu      sync.Mutex
	ended   bool
	aborted error
	cells   int // that the commit has so far
}

// runHook calls the team's function, on a goroutine of its own, which a
// runtime.Goexit in it may end.
func (t *try) runHook(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
	own := &Tx{tx: tx, cells: t.cells}
	var result []byte
	err := errors.New("the function ended its goroutine") // unless it returns
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the function panicked: %v\n%s", p, debug.Stack())
			}
		}()
		result, err = t.m.Hook(ctx, own)
	}()
	<-done
	own.end()
	switch aborted := own.wasAborted(); {
	case aborted != nil:
		return aborted // also where the function passed over it
	case err != nil:
		return sdk.Errorf(sdk.NotApplied, "hook", "it failed, nothing was applied: %w", err)
	case len(result) > sdk.MaxResultBytes:
		return sdk.Errorf(sdk.TooLarge, "result", "%d bytes; a receipt keeps up to %d", len(result), sdk.MaxResultBytes)
	}
	t.decision.Receipt.Result = append([]byte(nil), result...)
	return nil
}

func (t *Tx) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

func (t *Tx) wasAborted() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aborted
}

func (t *Tx) open() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return endedError()
	}
	return nil
}

func endedError() error {
	return sdk.Errorf(sdk.Closed, "transaction", "it ended with the function that it was given to")
}

// note keeps an ABORTED, which the function may not pass over.
func (t *Tx) note(err error) error {
	if err != nil && code(err) == codes.Aborted {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.aborted = err
	}
	return err
}

// ReadRow reads one row, locked. spanner.ErrRowNotFound as of the client.
func (t *Tx) ReadRow(ctx context.Context, table string, key spanner.Key, columns []string) (*spanner.Row, error) {
	if err := t.open(); err != nil {
		return nil, err
	}
	row, err := t.tx.ReadRow(ctx, table, key, columns)
	return row, t.note(err)
}

// Read reads rows by their keys, locked, and calls each for every one.
func (t *Tx) Read(ctx context.Context, table string, keys spanner.KeySet, columns []string, each func(*spanner.Row) error) error {
	if err := t.open(); err != nil {
		return err
	}
	return t.note(t.tx.Read(ctx, table, keys, columns).Do(each))
}

// Query runs a query, or a DML statement with THEN RETURN, and calls each for
// every row. INVALID: it is neither, or names the store's own tables; ReadRow and
// Read read those.
func (t *Tx) Query(ctx context.Context, statement spanner.Statement, each func(*spanner.Row) error) error {
	if err := t.open(); err != nil {
		return err
	}
	if err := checkQuery(statement.SQL); err != nil {
		return err
	}
	return t.note(t.tx.Query(ctx, statement).Do(each))
}

// Update runs one DML statement and returns how many rows it changed. INVALID:
// it is no DML, or names the store's own tables.
func (t *Tx) Update(ctx context.Context, statement spanner.Statement) (int64, error) {
	if err := t.open(); err != nil {
		return 0, err
	}
	if err := checkStatement(statement.SQL); err != nil {
		return 0, err
	}
	n, err := t.tx.Update(ctx, statement)
	return n, t.note(err)
}

// Insert buffers a row that must not be there; it is written at the commit.
func (t *Tx) Insert(table string, columns []string, values []any) error {
	return t.buffer(table, len(columns), spanner.Insert(table, columns, values))
}

// InsertOrUpdate buffers a row.
func (t *Tx) InsertOrUpdate(table string, columns []string, values []any) error {
	return t.buffer(table, len(columns), spanner.InsertOrUpdate(table, columns, values))
}

// UpdateRow buffers the change of a row that must be there.
func (t *Tx) UpdateRow(table string, columns []string, values []any) error {
	return t.buffer(table, len(columns), spanner.Update(table, columns, values))
}

// Delete buffers the deletion of rows.
func (t *Tx) Delete(table string, keys spanner.KeySet) error {
	return t.buffer(table, 1, spanner.Delete(table, keys))
}

// buffer keeps a write for the commit. TOO_LARGE: the commit would have too many
// mutation cells.
func (t *Tx) buffer(table string, cells int, m *spanner.Mutation) error {
	if err := checkTable(table); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return endedError()
	}
	if t.cells+cells > MaxCells {
		return tooManyCells(t.cells + cells)
	}
	t.cells += cells
	return t.tx.BufferWrite([]*spanner.Mutation{m})
}

func tooManyCells(n int) error {
	return sdk.Errorf(sdk.TooLarge, "effects", "%d mutation cells with those of fence and receipt; Spanner takes %d in a commit", n, MaxCells)
}
