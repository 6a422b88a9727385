package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"

	"github.com/fencedstore/fencedstore/sdk"
	lib "modernc.org/sqlite/lib"
)

// Apply implements sdk.FencedStore.
func (s *Store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	m, err := s.desc.Check(a)
	if err != nil {
		return sdk.Refusal(err), err
	}
	for i := range m.Effects {
		if err := s.checkEffect(m.Resource, m.Effects[i]); err != nil {
			return sdk.Refusal(err), err
		}
	}
	// The writer may still be at it when a call has left with its context, so it
	// works on bytes of its own.
	own := *m
	own.Effects, own.Result = make([]sdk.Effect, len(m.Effects)), bytes.Clone(m.Result)
	for i, e := range m.Effects {
		own.Effects[i] = sdk.Effect{Kind: e.Kind, Body: bytes.Clone(e.Body)}
	}
	ans := s.submit(ctx, &job{admission: a, mutation: &own})
	return ans.out, ans.err
}

func busy(err error) bool { return err != nil && primary(err) == lib.SQLITE_BUSY }

// scope is where statements run: the writer's connection, or a transaction on
// it.
type scope func(*sql.Stmt) *sql.Stmt

func plain(st *sql.Stmt) *sql.Stmt { return st }

// decide judges a mutation by what the transaction sees and writes what follows
// from it. An error undoes all of it.
func (s *Store) decide(j *job) error {
	if err := s.judge(j, plain); err != nil {
		return err
	}
	switch j.decision.Code {
	case sdk.Accepted:
		native := false
		for _, e := range j.mutation.Effects {
			native = native || e.Kind == KindExec
			if err := s.effect(j.ctx, j.mutation, e); err != nil {
				return err
			}
		}
		if native {
			if err := s.constraints(); err != nil {
				return classify(effecting, err)
			}
		}
		return s.record(j, plain)
	case sdk.Quarantined:
		return classify(deciding, s.quarantine(j.mutation, plain))
	}
	return nil
}

// decideHook is decide for a mutation whose effects are the team's function.
func (s *Store) decideHook(j *job, tx *sql.Tx) error {
	in := func(st *sql.Stmt) *sql.Stmt { return tx.Stmt(st) }
	if err := s.judge(j, in); err != nil {
		return err
	}
	switch j.decision.Code {
	case sdk.Accepted:
		result, err := s.runHook(j, tx)
		if err != nil {
			return sdk.Errorf(sdk.NotApplied, "hook", "it failed, nothing was applied: %w", err)
		}
		if s.guard.lost.Load() {
			return sdk.Errorf(sdk.NotApplied, "hook", "the transaction ended in it, by a statement of its own or an error that it passed over; nothing was applied")
		}
		if err := s.constraints(); err != nil {
			return sdk.Errorf(sdk.NotApplied, "hook", "nothing was applied: %w", err)
		}
		if len(result) > sdk.MaxResultBytes {
			return sdk.Errorf(sdk.TooLarge, "result", "%d bytes; a receipt keeps up to %d", len(result), sdk.MaxResultBytes)
		}
		j.decision.Receipt.Result = append([]byte(nil), result...)
		return s.record(j, in)
	case sdk.Quarantined:
		return classify(deciding, s.quarantine(j.mutation, in))
	}
	return nil
}

// judge reads fence and receipt and decides.
func (s *Store) judge(j *job, in scope) error {
	m := j.mutation
	state, prior, err := scanBoth(in(s.stmts.both).QueryRow(s.namespace, string(m.Resource), string(m.Operation)), m.Resource, m.Operation)
	if err != nil {
		return classify(deciding, err)
	}
	if state.Absent() && prior == nil {
		var left bool
		if err := in(s.stmts.anyReceipt).QueryRow(s.namespace, string(m.Resource)).Scan(&left); err != nil {
			return classify(deciding, err)
		}
		if left {
			return missingFence()
		}
	}
	j.decision = sdk.Decide(state, prior, j.admission)
	if j.decision.Code == sdk.Accepted {
		j.decision.Receipt.Result = m.Result
	}
	return nil
}

// record writes the fence and the receipt of an accepted mutation.
func (s *Store) record(j *job, in scope) error {
	n, r := j.decision.Next, j.decision.Receipt
	args := []any{int64(n.Highest), n.Grant[:], n.Root[:], int64(n.Segment), int64(n.Generations.Policy), int64(n.Generations.Trust), s.namespace, string(r.Resource)}
	res, err := in(s.stmts.moveFence).Exec(args...)
	if err != nil {
		return classify(deciding, err)
	}
	if moved, err := res.RowsAffected(); err != nil {
		return classify(deciding, err)
	} else if moved == 0 {
		if _, err := in(s.stmts.addFence).Exec(args...); err != nil {
			return classify(deciding, err)
		}
	}
	_, err = in(s.stmts.addReceipt).Exec(s.namespace, string(r.Resource), string(r.Operation), int64(r.Fence), int64(r.Segment),
		r.Root[:], r.Grant[:], r.Payload[:], r.Owner, r.Time.UnixMilli(), notNil(r.Result))
	return classify(deciding, err)
}

// notNil keeps an empty value apart from NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// quarantine keeps the record of a refused mutation, once, or counts it beyond
// the limit.
func (s *Store) quarantine(m *sdk.Mutation, in scope) error {
	key := []any{s.namespace, string(m.Resource), int64(m.Fence), int64(m.Segment), string(m.Operation), m.Payload[:]}
	var known, count int
	if err := in(s.stmts.knownQ).QueryRow(key...).Scan(&known); err != nil || known > 0 {
		return err
	}
	if err := in(s.stmts.countQuarantine).QueryRow(s.namespace, string(m.Resource)).Scan(&count); err != nil {
		return err
	}
	if count >= MaxQuarantine {
		_, err := in(s.stmts.addDropped).Exec(s.namespace, string(m.Resource))
		return err
	}
	_, err := in(s.stmts.addQuarantine).Exec(append(key, m.Grant[:], m.Owner, m.Time.UnixMilli())...)
	return err
}

// effect applies one effect on the writer's connection.
func (s *Store) effect(ctx context.Context, m *sdk.Mutation, e sdk.Effect) error {
	r := string(m.Resource)
	var err error
	switch e.Kind { // the forms were checked by Mutation.Validate
	case sdk.KindPut:
		key, value, _ := sdk.ParsePut(e.Body)
		_, err = s.stmts.put.Exec(s.namespace, r, key, notNil(value))
	case sdk.KindDelete:
		key, _ := sdk.ParseDelete(e.Body)
		_, err = s.stmts.del.Exec(s.namespace, r, key)
	case sdk.KindResolve:
		k, _ := sdk.ParseResolve(e.Body)
		_, err = s.stmts.resolve.Exec(string(m.Operation), s.namespace, r, int64(k.Fence), int64(k.Segment), string(k.Operation), k.Payload[:])
	case KindExec:
		return s.exec(ctx, e)
	}
	return classify(deciding, err)
}
