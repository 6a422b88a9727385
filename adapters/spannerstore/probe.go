package spannerstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
)

// Probe implements sdk.FencedStore: it looks for row deletion policies, and
// proves on rows of its own that numbers are exact, that a transaction which
// fails leaves nothing, and that the role may do what it must.
func (s *Store) Probe(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	if err := probeTables(ctx, s.db()); err != nil {
		return err
	}
	var nonce [8]byte
	rand.Read(nonce[:])
	name := "probe-" + hex.EncodeToString(nonce[:])
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := s.write(ctx, spanner.Delete(probeTable, spanner.Key{name})); err != nil {
			s.opts.Log().Warn("a row of a probe may be left", "table", probeTable, "name", name, "err", err)
		}
	}()
	return s.probeTransactions(ctx, name)
}

// probeTables says whether the tables are there, and none of them loses rows.
// UNSUITABLE, or NOT_APPLIED: the database could not be asked.
func probeTables(ctx context.Context, db *spanner.Client) error {
	found := map[string]bool{}
	err := db.Single().Query(ctx, spanner.Statement{SQL: "SELECT TABLE_NAME, ROW_DELETION_POLICY_EXPRESSION FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = '' AND STARTS_WITH(TABLE_NAME, @prefix)",
		Params: map[string]any{"prefix": tablePrefix}}).Do(func(r *spanner.Row) error {
		var name string
		var policy spanner.NullString
		if err := r.Columns(&name, &policy); err != nil {
			return damaged("%w", err)
		}
		found[name] = true
		if policy.Valid {
			return sdk.Errorf(sdk.Unsuitable, "row deletion policy", "%s has one (%s): fences and receipts must never expire; drop it", name, policy.StringVal)
		}
		return nil
	})
	if mayBeTables(err) {
		return sdk.Errorf(sdk.Unsuitable, "database", "it is not there, or not GoogleSQL: %w", err)
	}
	if err != nil {
		return readError(err)
	}
	for _, name := range tables {
		if !found[name] {
			return sdk.Errorf(sdk.Unsuitable, "table", "%s is not there; see `adaptercheck schema`", name)
		}
	}
	return nil
}

// probed is a number that no floating point holds.
const probed = 1<<53 + 1

func (s *Store) write(ctx context.Context, ms ...*spanner.Mutation) error {
	return s.transaction(ctx, func(_ context.Context, tx *spanner.ReadWriteTransaction, _ *bool) error { return tx.BufferWrite(ms) }).err
}

func (s *Store) probeTransactions(ctx context.Context, name string) error {
	own := spanner.Insert(probeTable, []string{"Name", "Number"}, []any{name, int64(probed)})
	lacks, err := s.missing(ctx, name, own)
	if err != nil {
		return probeError(err)
	}
	if len(lacks) > 0 {
		return sdk.Errorf(sdk.Unsuitable, "permission", "the role lacks %s; see `adaptercheck schema` for the grants", strings.Join(lacks, ", "))
	}
	// A row that is there may not be inserted, and takes a whole mutation along.
	m := &sdk.Mutation{Resource: sdk.ResourceID(name), Operation: "probe", Fence: 1, Segment: 1, Owner: "probe", Root: sdk.SumDigest(nil), Grant: sdk.SumDigest(nil), Payload: sdk.SumDigest(nil)}
	d := sdk.Decision{Next: sdk.FenceState{Highest: 1, Grant: m.Grant, Root: m.Root, Segment: 1}, Receipt: &sdk.Receipt{Resource: m.Resource, Operation: m.Operation,
		Fence: 1, Segment: 1, Root: m.Root, Grant: m.Grant, Payload: m.Payload, Owner: m.Owner}}
	err = s.write(ctx, append(s.records(sdk.FenceState{}, &d), spanner.Insert(valueTable, valueColumns, []any{s.namespace, name, "k", []byte("v")}), own)...)
	if err == nil {
		return sdk.Errorf(sdk.Unsuitable, "transaction", "one that inserts a row which is there was committed")
	}
	if !isAlreadyThere(err) {
		return probeError(err)
	}
	if state, prior, err := s.look(ctx, s.strong, m.Resource, m.Operation); err != nil || !state.Absent() || prior != nil {
		if err == nil || sdk.CodeOf(err) == sdk.FenceRegression {
			err = sdk.Errorf(sdk.Unsuitable, "transaction", "half of one was applied")
		}
		return probeError(err)
	}
	return s.probeRollback(ctx, name)
}

var errProbed = errors.New("probed")

// probeRollback proves that numbers are exact and that a transaction which is
// rolled back leaves nothing.
func (s *Store) probeRollback(ctx context.Context, name string) error {
	read := func(ctx context.Context, in interface {
		ReadRow(context.Context, string, spanner.Key, []string) (*spanner.Row, error)
	}) error {
		row, err := in.ReadRow(ctx, probeTable, spanner.Key{name}, []string{"Number"})
		var n int64
		if err == nil {
			err = row.Columns(&n)
		}
		if err == nil && n != probed {
			err = sdk.Errorf(sdk.Unsuitable, "numbers", "%d came back as %d", int64(probed), n)
		}
		return err
	}
	err := s.transaction(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction, _ *bool) error {
		if err := read(ctx, tx); err != nil {
			return err
		}
		if err := tx.BufferWrite([]*spanner.Mutation{spanner.Update(probeTable, []string{"Name", "Number"}, []any{name, int64(7)})}); err != nil {
			return err
		}
		return errProbed
	}).err
	if !errors.Is(err, errProbed) {
		return probeError(err)
	}
	return probeError(read(ctx, s.db().Single()))
}

// probeError is NOT_APPLIED where the database could not be asked.
func probeError(err error) error {
	if err = readError(err); sdk.CodeOf(err) == sdk.Unsuitable || err == nil {
		return err
	}
	return sdk.Errorf(sdk.NotApplied, "Spanner", "the probe could not be finished: %w", err)
}
