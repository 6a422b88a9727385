package mongostore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Apply implements sdk.FencedStore.
func (s *txStore) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	out, err := s.apply(ctx, a)
	if err != nil && out.Code == 0 {
		out = sdk.Refusal(err)
	}
	return out, err
}

func (s *txStore) apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	m, err := s.desc.Check(a)
	if err != nil {
		return sdk.Outcome{}, err
	}
	t := &txTry{s: s, a: a, m: m, n: names{s.namespace, m.Resource}}
	if err := t.prepare(); err != nil {
		return sdk.Outcome{}, err
	}
	if err := s.enter(ctx); err != nil {
		return sdk.Outcome{}, err
	}
	defer s.running.Done()
	return t.run(ctx)
}

// txTry is one Apply.
type txTry struct {
	s *txStore
	a sdk.Admission
	m *sdk.Mutation
	n names

	puts, deletes, resolves bson.A  // statements on the store's own collection
	writes                  []Write // on the team's
}

// prepare turns the effects into statements, and refuses what the team's own
// writes may not touch. Nothing has been sent by then.
func (t *txTry) prepare() error {
	for _, e := range t.m.Effects {
		switch e.Kind { // the forms were checked by Mutation.Validate
		case sdk.KindPut:
			key, value, _ := sdk.ParsePut(e.Body)
			t.puts = append(t.puts, upsert(t.n.value(key), "$set", bson.D{{Key: "value", Value: binary(value)}}))
		case sdk.KindDelete:
			key, _ := sdk.ParseDelete(e.Body)
			t.deletes = append(t.deletes, bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: t.n.value(key)}}}, {Key: "limit", Value: 1}})
		case sdk.KindResolve:
			k, _ := sdk.ParseResolve(e.Body)
			open := bson.D{{Key: "_id", Value: t.n.quarantine(k)}, {Key: "resolvedBy", Value: bson.D{{Key: "$exists", Value: false}}}}
			t.resolves = append(t.resolves, statement(open, "$set", bson.D{{Key: "resolvedBy", Value: string(t.m.Operation)}}))
		case KindWrite:
			w, err := ParseWrite(e.Body)
			if err != nil {
				return err
			}
			if w.Database == "" {
				w.Database = t.s.db.Name()
			}
			if w.Database == t.s.db.Name() && w.Collection == t.s.name {
				return sdk.Errorf(sdk.Invalid, "effect", "%s names the fence's own collection", KindWrite)
			}
			if err := t.s.opts.CheckScope(t.m.Resource, e); err != nil {
				return err
			}
			t.writes = append(t.writes, w)
		}
	}
	return nil
}

func statement(q bson.D, operator string, fields bson.D) bson.D {
	return bson.D{{Key: "q", Value: q}, {Key: "u", Value: bson.D{{Key: operator, Value: fields}}}}
}

func upsert(id, operator string, fields bson.D) bson.D {
	return append(statement(bson.D{{Key: "_id", Value: id}}, operator, fields), bson.E{Key: "upsert", Value: true})
}

// outcome of one transaction.
type outcome uint8

const (
	committed outcome = iota
	raced             // a condition did not hold, or the server rolled back; not committed
	failed            // not committed, and not to be repeated
	lost              // the commit was sent and its answer does not tell
)

func (t *txTry) run(ctx context.Context) (sdk.Outcome, error) {
	state, guessed := t.s.guess(t.m.Resource)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		var prior *sdk.Receipt
		if !guessed {
			var err error
			if state, prior, err = t.s.look(ctx, t.m.Resource, t.m.Operation); err != nil {
				return sdk.Outcome{}, err
			}
		}
		d := sdk.Decide(state, prior, t.a)
		if d.Code != sdk.Accepted {
			if guessed {
				guessed = false
				continue
			}
			return t.refuse(ctx, d)
		}
		what, err := t.attempt(ctx, state, &d)
		switch what {
		case committed:
			t.s.remember(t.m.Resource, d.Next)
			return d.Outcome()
		case failed:
			return sdk.Outcome{}, err
		case lost:
			return t.settle(ctx, state, err)
		}
		if !guessed && !pause(ctx, wait) {
			return sdk.Outcome{}, sdk.Errorf(sdk.NotApplied, "MongoDB", "other writers were faster until the context ended; nothing was applied: %w", ctx.Err())
		}
		guessed = false
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refuse answers by a decision on a fresh read.
func (t *txTry) refuse(ctx context.Context, d sdk.Decision) (sdk.Outcome, error) {
	if d.Code == sdk.Quarantined {
		if err := t.s.quarantine(ctx, t.n, t.m.Quarantine()); err != nil {
			return sdk.Outcome{}, sdk.Errorf(sdk.NotApplied, "quarantine", "the conflict could not be put on record; nothing was applied: %w", err)
		}
	}
	return d.Outcome()
}

// settle finds out what became of a commit without an answer. The fence state
// that its transaction names never comes back: once it is another, the
// transaction has landed or never will.
func (t *txTry) settle(ctx context.Context, base sdk.FenceState, cause error) (sdk.Outcome, error) {
	t.s.forget(t.m.Resource)
	state, prior, err := t.s.look(ctx, t.m.Resource, t.m.Operation)
	switch {
	case err != nil:
		return sdk.Outcome{}, sdk.Errorf(sdk.MutationUnknown, "receipt", "the answer to the commit was lost (%v), and the receipt could not be read: %w", cause, err)
	case prior != nil && prior.Echoes(t.m):
		return sdk.Outcome{Code: sdk.Replayed, Receipt: prior, Observed: state}, nil
	case state == base: // it may yet land
		return sdk.Outcome{}, sdk.Errorf(sdk.MutationUnknown, "MongoDB", "the answer to the commit does not tell what became of it: %w", cause)
	}
	// It can never land. Judge afresh, as if it had not been sent.
	return t.run(ctx)
}

// batch is the store's own part of the transaction: one command. Each statement
// touches exactly one document, or a condition did not hold; the ones in fresh
// make theirs.
func (t *txTry) batch(state sdk.FenceState, d *sdk.Decision) (updates bson.A, fresh []int64) {
	if state.Absent() {
		updates = append(updates, upsert(t.n.fence(), "$setOnInsert", fenceFields(d.Next)),
			upsert(t.n.marker(), "$setOnInsert", bson.D{{Key: "marker", Value: true}}))
		fresh = append(fresh, 0, 1)
	} else {
		updates = append(updates, statement(fenceFilter(t.n.fence(), state), "$set", fenceFields(d.Next)))
	}
	fresh = append(fresh, int64(len(updates)))
	updates = append(updates, upsert(t.n.receipt(t.m.Operation), "$setOnInsert", receiptFields(d.Receipt)))
	return append(updates, t.puts...), fresh
}

// attempt carries out what was decided in one transaction. What fails before the
// commit is sent is proved not to be applied.
func (t *txTry) attempt(ctx context.Context, state sdk.FenceState, d *sdk.Decision) (outcome, error) {
	if err := ended(ctx); err != nil {
		return failed, err
	}
	tx, err := t.s.begin(ctx)
	if err != nil {
		return failed, err
	}
	what, err := t.body(tx, state, d)
	if what != committed {
		if what != lost {
			tx.abort(ctx)
		}
		return what, err
	}
	return tx.commit(ctx)
}

// body runs everything but the commit.
func (t *txTry) body(tx *transaction, state sdk.FenceState, d *sdk.Decision) (outcome, error) {
	d.Receipt.Result = t.m.Result
	updates, fresh := t.batch(state, d)
	if what, err := tx.update(t.s.collection, updates, fresh, true); what != committed {
		return what, err
	}
	if len(t.deletes) > 0 {
		if _, what, err := tx.run(t.s.collection, "remove", bson.D{{Key: "delete", Value: t.s.name}, {Key: "deletes", Value: t.deletes}}); what != committed {
			return what, err
		}
	}
	if len(t.resolves) > 0 {
		if what, err := tx.update(t.s.collection, t.resolves, nil, false); what != committed {
			return what, err
		}
	}
	for i := range t.writes {
		if what, err := tx.write(t.s, &t.writes[i]); what != committed {
			return what, err
		}
	}
	if t.m.Hook != nil {
		return t.hook(tx, d)
	}
	return committed, nil
}

// hook runs the team's function after the fence has moved and before the commit,
// so that a stale owner's never runs, and then makes sure that it left fence and
// receipt alone.
func (t *txTry) hook(tx *transaction, d *sdk.Decision) (outcome, error) {
	result, err := t.call(tx)
	if !tx.session.TransactionRunning() {
		return lost, sdk.Errorf(sdk.MutationUnknown, "hook", "it ended the transaction itself; leave that to the store")
	}
	if err != nil {
		if le := mongo.LabeledError(nil); errors.As(err, &le) && le.HasErrorLabel(transientTransaction) {
			return raced, nil
		}
		return failed, sdk.Errorf(sdk.NotApplied, "hook", "it failed, nothing was applied: %w", err)
	}
	if len(result) > sdk.MaxResultBytes {
		return failed, sdk.Errorf(sdk.TooLarge, "result", "%d bytes; a receipt keeps up to %d", len(result), sdk.MaxResultBytes)
	}
	d.Receipt.Result = append([]byte(nil), result...)
	updates := bson.A{statement(fenceFilter(t.n.fence(), d.Next), "$set", fenceFields(d.Next)),
		statement(bson.D{{Key: "_id", Value: t.n.receipt(t.m.Operation)}, {Key: "payload", Value: binary(t.m.Payload[:])}}, "$set", bson.D{{Key: "result", Value: binary(result)}})}
	what, err := tx.update(t.s.collection, updates, nil, true)
	if what == raced && err == nil {
		return failed, sdk.Errorf(sdk.Invalid, "hook", "it changed the fence's own documents; nothing was applied")
	}
	return what, err
}

func (t *txTry) call(tx *transaction) (result []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the function panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return t.m.Hook(tx.ctx, tx.session)
}

// quarantine puts a conflict on record, once by its key; beyond the limit it only
// counts.
func (s *txStore) quarantine(ctx context.Context, n names, q sdk.Quarantine) error {
	docs := &documents{s.collection}
	id := n.quarantine(q.QuarantineKey)
	known, err := s.find(ctx, bson.D{{Key: "_id", Value: id}}, 1)
	if err != nil || len(known) > 0 {
		return err
	}
	all, err := s.quarantines(ctx, n)
	if err != nil {
		return err
	}
	if len(all) >= s.desc.Limits.Quarantine {
		more := upsert(n.dropped(), "$inc", bson.D{{Key: "records", Value: int64(1)}})
		_, _, err := s.collection.write(ctx, "update", bson.D{{Key: "update", Value: s.name}, {Key: "updates", Value: bson.A{more}}})
		return err
	}
	_, err = docs.insert(ctx, append(bson.D{{Key: "_id", Value: id}}, quarantineFields(q)...)) // not made: the same attempt was faster
	return err
}
