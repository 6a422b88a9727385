package spannerstore

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/grpc/codes"
)

// Apply implements sdk.FencedStore.
func (s *Store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	m, err := s.desc.Check(a)
	if err != nil {
		return sdk.Refusal(err), err
	}
	t := &try{s: s, a: a, m: m}
	if err := t.prepare(); err != nil {
		return sdk.Refusal(err), err
	}
	if err := s.enter(ctx); err != nil {
		return sdk.Refusal(err), err
	}
	defer s.running.Done()
	out, err := t.run(ctx)
	if err != nil && out.Code == 0 {
		out = sdk.Refusal(err)
	}
	return out, err
}

// try is one Apply.
type try struct {
	s *Store
	a sdk.Admission
	m *sdk.Mutation

	writes     []*spanner.Mutation
	statements []spanner.Statement
	resolves   []sdk.QuarantineKey
	cells      int // mutation cells of the commit, with those of fence and receipt

	// Of the last attempt.
	state    sdk.FenceState // what it read
	decision sdk.Decision

	// A commit of this call may have landed without an answer that says so.
	mayTwice bool
}

// errDecided ends a transaction that has nothing to commit.
var errDecided = errors.New("decided")

func (t *try) run(ctx context.Context) (sdk.Outcome, error) {
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		end := t.s.transaction(ctx, t.attempt)
		t.mayTwice = t.mayTwice || end.doubt
		switch {
		case end.err == nil:
			return t.decision.Outcome()
		case errors.Is(end.err, errDecided):
			return t.refuse(ctx)
		case !end.committing:
			return sdk.Outcome{}, t.unsent(ctx, end.err)
		}
		err := commitError(end.err, t.mayTwice)
		if proved := sdk.CodeOf(err) != sdk.MutationUnknown; proved && !t.mayTwice {
			return sdk.Outcome{}, err
		}
		t.mayTwice = true
		out, serr := t.settle(ctx, err)
		if out.Code == 0 && errors.Is(serr, errOvertaken) && wait < 200*time.Millisecond && pause(ctx, wait) {
			continue // judged anew
		}
		return out, serr
	}
}

// attempt is the transaction; all of it is done anew after ABORTED.
func (t *try) attempt(ctx context.Context, tx *spanner.ReadWriteTransaction, doubt *bool) error {
	var prior *sdk.Receipt
	var err error
	if t.state, prior, err = t.s.look(ctx, func() reader { return tx }, t.m.Resource, t.m.Operation); err != nil {
		return err
	}
	if (t.mayTwice || *doubt) && prior != nil && prior.Echoes(t.m) {
		t.decision = sdk.Decision{Code: sdk.Replayed, Next: t.state, Receipt: prior}
		return errDecided
	}
	*doubt = false
	t.decision = sdk.Decide(t.state, prior, t.a)
	if t.decision.Code != sdk.Accepted {
		return errDecided
	}
	t.decision.Receipt.Result = t.m.Result
	if t.m.Hook != nil {
		if err := t.runHook(ctx, tx); err != nil {
			return err
		}
	}
	for _, st := range t.statements {
		if _, err := tx.Update(ctx, st); err != nil {
			return effectError(err)
		}
	}
	if err := tx.BufferWrite(t.s.records(t.state, &t.decision)); err != nil {
		return err
	}
	if err := tx.BufferWrite(t.writes); err != nil {
		return err
	}
	return t.resolve(ctx, tx)
}

// effectError is the error of a statement before the commit. ABORTED stays as it
// is: the transaction is run anew.
func effectError(err error) error {
	switch code(err) {
	case codes.Aborted:
		return err
	case codes.InvalidArgument:
		return sdk.Errorf(sdk.Invalid, "effect", "the database does not take it, nothing was applied: %w", err)
	}
	return sdk.Errorf(sdk.NotApplied, "effect", "the database refused it, nothing was applied: %w", err)
}

// resolve settles quarantine records that are there and open.
func (t *try) resolve(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
	for _, k := range t.resolves {
		key := quarantineKey(t.s.namespace, t.m.Resource, k)
		row, err := tx.ReadRow(ctx, quarantineTable, key, []string{"ResolvedBy"})
		if isMissing(err) {
			continue
		}
		var by string
		if err == nil {
			err = row.Columns(&by)
		}
		if err != nil {
			return err
		}
		if by != "" {
			continue
		}
		columns := append(append([]string(nil), quarantineColumns[:6]...), "ResolvedBy")
		if err := tx.BufferWrite([]*spanner.Mutation{spanner.Update(quarantineTable, columns, append([]any(key), string(t.m.Operation)))}); err != nil {
			return err
		}
	}
	return nil
}

// unsent is the error of a transaction that came to no commit.
func (t *try) unsent(ctx context.Context, err error) error {
	err = t.s.asked(ctx, t.s.db(), err)
	if t.mayTwice {
		return sdk.Errorf(sdk.MutationUnknown, "Spanner", "an earlier attempt's answer was lost, and what became of it cannot be told: %w", err)
	}
	return err
}

// refuse answers what was decided, with the conflict on record.
func (t *try) refuse(ctx context.Context) (sdk.Outcome, error) {
	if t.decision.Code == sdk.Quarantined {
		if err := t.s.quarantine(ctx, t.m); err != nil {
			return sdk.Outcome{}, sdk.Errorf(sdk.NotApplied, "quarantine", "the conflict could not be put on record; nothing was applied: %w", err)
		}
	}
	return t.decision.Outcome()
}

// errOvertaken: the fence that a lost commit had read and locked is not the one
// that is there now. To land, the commit would have to break serializability.
var errOvertaken = errors.New("another transaction has moved the fence that this one had read")

// settle finds out what became of a commit whose answer, in err, was lost or is
// the answer to the last of several sendings.
//
//   - REPLAYED: its receipt is there.
//   - errOvertaken with a zero Outcome: it can never land.
//   - err itself where it is a proof that the server has judged the transaction.
//   - MUTATION_UNKNOWN: it may yet land.
func (t *try) settle(ctx context.Context, err error) (sdk.Outcome, error) {
	unknown := func(why error) (sdk.Outcome, error) {
		return sdk.Outcome{}, sdk.Errorf(sdk.MutationUnknown, "Spanner", "the answer was lost (%v), and what became of it cannot be told: %w", err, why)
	}
	if err := ctx.Err(); err != nil {
		return unknown(err)
	}
	state, prior, rerr := t.s.look(ctx, t.s.strong, t.m.Resource, t.m.Operation)
	switch {
	case rerr != nil:
		return unknown(rerr)
	case prior != nil && prior.Echoes(t.m):
		return sdk.Outcome{Code: sdk.Replayed, Receipt: prior, Observed: state}, nil
	case state != t.state:
		return sdk.Outcome{}, sdk.Errorf(sdk.NotApplied, "Spanner", "nothing was applied (%v): %w", err, errOvertaken)
	}
	return sdk.Outcome{}, err
}

// prepare turns the effects into mutations and statements, and refuses what the
// team's own writes may not touch and what has too many cells.
func (t *try) prepare() error {
	t.cells = ownCells
	r := string(t.m.Resource)
	for _, e := range t.m.Effects {
		switch e.Kind { // the forms were checked by Mutation.Validate
		case sdk.KindPut:
			key, value, _ := sdk.ParsePut(e.Body)
			t.writes = append(t.writes, spanner.InsertOrUpdate(valueTable, valueColumns, []any{t.s.namespace, r, key, notNil(value)}))
			t.cells += len(valueColumns)
		case sdk.KindDelete:
			key, _ := sdk.ParseDelete(e.Body)
			t.writes = append(t.writes, spanner.Delete(valueTable, spanner.Key{t.s.namespace, r, key}))
			t.cells++
		case sdk.KindResolve:
			k, _ := sdk.ParseResolve(e.Body)
			t.resolves = append(t.resolves, k)
			t.cells += 7
		case KindWrite, KindDML:
			if err := t.s.opts.CheckScope(t.m.Resource, e); err != nil {
				return err
			}
			if e.Kind == KindDML {
				st, err := ParseDML(e.Body)
				if err != nil {
					return err
				}
				t.statements = append(t.statements, *st)
				continue
			}
			w, err := ParseWrite(e.Body)
			if err != nil {
				return err
			}
			m, err := w.mutation()
			if err != nil {
				return err
			}
			t.writes = append(t.writes, m)
			t.cells += max(1, len(w.Columns))
		}
	}
	if t.cells > MaxCells {
		return tooManyCells(t.cells)
	}
	return nil
}

// quarantine puts a conflict on record, once by its key; beyond the limit it only
// counts.
func (s *Store) quarantine(ctx context.Context, m *sdk.Mutation) error {
	return s.transaction(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction, _ *bool) error {
		q := m.Quarantine()
		key := quarantineKey(s.namespace, m.Resource, m.Key())
		if _, err := tx.ReadRow(ctx, quarantineTable, key, []string{"Fence"}); err == nil || !isMissing(err) {
			return err
		}
		var count int64
		err := tx.Query(ctx, spanner.Statement{SQL: "SELECT COUNT(*) FROM FencedstoreQuarantine WHERE Namespace = @n AND Resource = @r",
			Params: map[string]any{"n": s.namespace, "r": string(m.Resource)}}).Do(func(row *spanner.Row) error { return row.Columns(&count) })
		if err != nil {
			return err
		}
		if count < int64(s.desc.Limits.Quarantine) {
			return tx.BufferWrite([]*spanner.Mutation{spanner.Insert(quarantineTable, quarantineColumns,
				append([]any(key), q.Grant[:], q.Owner, q.Time.UnixMilli(), ""))})
		}
		var dropped int64
		row, err := tx.ReadRow(ctx, droppedTable, spanner.Key{s.namespace, string(m.Resource)}, []string{"Records"})
		if err == nil {
			err = row.Columns(&dropped)
		}
		if err != nil && !isMissing(err) {
			return err
		}
		return tx.BufferWrite([]*spanner.Mutation{spanner.InsertOrUpdate(droppedTable, []string{"Namespace", "Resource", "Records"},
			[]any{s.namespace, string(m.Resource), dropped + 1})})
	}).err
}
