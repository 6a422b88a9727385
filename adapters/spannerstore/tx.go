package spannerstore

import (
	"context"
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
}

func (t *Tx) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

func (t *Tx) open() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return sdk.Errorf(sdk.Closed, "transaction", "it ended with the function that it was given to")
	}
	return nil
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

// Query runs a query and calls each for every row.
func (t *Tx) Query(ctx context.Context, statement spanner.Statement, each func(*spanner.Row) error) error {
	if err := t.open(); err != nil {
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
	return t.buffer(table, spanner.Insert(table, columns, values))
}

// InsertOrUpdate buffers a row.
func (t *Tx) InsertOrUpdate(table string, columns []string, values []any) error {
	return t.buffer(table, spanner.InsertOrUpdate(table, columns, values))
}

// UpdateRow buffers the change of a row that must be there.
func (t *Tx) UpdateRow(table string, columns []string, values []any) error {
	return t.buffer(table, spanner.Update(table, columns, values))
}

// Delete buffers the deletion of rows.
func (t *Tx) Delete(table string, keys spanner.KeySet) error {
	return t.buffer(table, spanner.Delete(table, keys))
}

func (t *Tx) buffer(table string, m *spanner.Mutation) error {
	if err := t.open(); err != nil {
		return err
	}
	if err := checkTable(table); err != nil {
		return err
	}
	return t.tx.BufferWrite([]*spanner.Mutation{m})
}
