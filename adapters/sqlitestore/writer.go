package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// maxBatch bounds the mutations in one shared commit.
const maxBatch = 256

// triggerCount is how many triggers the schema has.
var triggerCount = strings.Count(strings.Join(migrations, ""), "CREATE TRIGGER")

// A job is one call that waits for the writer. Its state settles who answers:
// the writer, or the caller whose context ended.
type job struct {
	ctx       context.Context
	admission sdk.Admission
	mutation  *sdk.Mutation
	probe     bool // take the lock and write nothing

	state atomic.Int32
	reply chan answer
	// decision is the writer's, until the transaction is committed.
	decision sdk.Decision
	failure  error // refused before a decision: NOT_APPLIED and the like
}

const (
	waiting   = iota // in the queue, or in a transaction that is not being committed yet
	committed        // COMMIT begins or began: what becomes of it is the writer's to say
	taken            // the caller took it out
)

type answer struct {
	out sdk.Outcome
	err error
}

func refused(err error) answer { return answer{sdk.Refusal(err), err} }

// submit hands a job to the writer and waits for its answer or the context.
func (s *Store) submit(ctx context.Context, j *job) answer {
	j.ctx, j.reply = ctx, make(chan answer, 1)
	if ctx.Value(inHook{s.path}) != nil {
		return refused(sdk.Errorf(sdk.Invalid, "hook", "it calls the store whose transaction it runs in, which would wait for itself; write through its tx, and to other resources after it"))
	}
	if err := ctx.Err(); err != nil {
		return refused(classify(deciding, err))
	}
	select {
	case <-s.closing:
		return refused(closedError())
	default:
	}
	select {
	case s.queue <- j:
	case <-s.closing:
		return refused(closedError())
	case <-ctx.Done():
		return refused(classify(deciding, ctx.Err()))
	}
	select {
	case a := <-j.reply:
		return a
	case <-ctx.Done():
	}
	if j.state.CompareAndSwap(waiting, taken) {
		return refused(classify(deciding, ctx.Err()))
	}
	select {
	case a := <-j.reply:
		return a
	default:
		return refused(sdk.Errorf(sdk.MutationUnknown, "commit", "the call's context ended while it was being committed: %w", ctx.Err()))
	}
}

// write is the writer: it alone uses the connection that writes.
func (s *Store) write() {
	defer close(s.done)
	for {
		select {
		case j := <-s.queue:
			if j.mutation != nil && j.mutation.Hook != nil {
				s.alone(j)
				continue
			}
			batch, hook := s.gather(j)
			s.together(batch)
			if hook != nil {
				s.alone(hook)
			}
		case <-s.closing:
			return
		}
	}
}

// gather takes what waits beside the first job. A job with a hook ends the
// batch and is returned apart.
func (s *Store) gather(first *job) (batch []*job, hook *job) {
	batch = append(make([]*job, 0, 16), first)
	for len(batch) < maxBatch {
		select {
		case j := <-s.queue:
			if j.mutation != nil && j.mutation.Hook != nil {
				return batch, j
			}
			batch = append(batch, j)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// together runs a batch in one transaction. When a caller leaves before COMMIT,
// or the transaction ends with a mutation, it is rolled back and run again
// without that one.
func (s *Store) together(batch []*job) {
	for len(batch) > 0 {
		batch = live(batch)
		if len(batch) == 0 {
			return
		}
		if err := s.begin(batch); err != nil {
			fail(batch, err)
			return
		}
		if len(batch) == 1 {
			// The transaction itself is the savepoint of a mutation that is alone.
			if j := batch[0]; s.judgeOne(j) != nil {
				s.rollback()
				j.refuse()
				return
			}
		} else if i := slices.IndexFunc(batch, s.breaks); i >= 0 {
			s.rollback()
			batch[i].refuse()
			batch = slices.Delete(batch, i, i+1)
			continue
		}
		if again := seal(batch); len(again) < len(batch) {
			s.rollback()
			batch = again
			continue
		}
		s.commit(batch)
		return
	}
}

// live drops jobs whose callers have left.
func live(batch []*job) []*job {
	out := batch[:0]
	for _, j := range batch {
		if j.state.Load() != taken {
			out = append(out, j)
		}
	}
	return out
}

// seal marks every job as being committed. If a caller was faster all go back,
// and those that are left are returned.
func seal(batch []*job) []*job {
	for i, j := range batch {
		if j.ctx.Err() == nil && j.state.CompareAndSwap(waiting, committed) {
			continue
		}
		for _, back := range batch[:i] {
			back.state.Store(waiting)
		}
		rest := make([]*job, 0, len(batch))
		for _, k := range batch {
			if k.ctx.Err() != nil && k.state.CompareAndSwap(waiting, taken) {
				k.reply <- refused(classify(deciding, k.ctx.Err()))
			}
			if k.state.Load() != taken {
				rest = append(rest, k)
			}
		}
		return rest
	}
	return batch
}

func fail(batch []*job, err error) {
	for _, j := range batch {
		j.reply <- refused(err)
	}
}

// begin takes the file's write lock, however long another process holds it, as
// long as somebody waits for it.
func (s *Store) begin(batch []*job) error {
	if err := s.inPlace(); err != nil {
		return err
	}
	for {
		_, err := s.stmts.begin.Exec()
		if !busy(err) {
			s.guard.begun()
			return classify(deciding, err)
		}
		select {
		case <-s.closing:
			return closedError()
		default:
		}
		waits := false
		for _, j := range batch {
			waits = waits || j.state.Load() != taken && j.ctx.Err() == nil
		}
		if !waits {
			return classify(deciding, err)
		}
	}
}

func (s *Store) rollback() {
	if s.guard.lost.Load() {
		return // SQLite has done it
	}
	if _, err := s.stmts.rollback.Exec(); err != nil {
		s.opts.Log().Warn("rollback failed", "file", s.path, "err", err)
	}
}

// commit ends the transaction and answers every job in it.
func (s *Store) commit(batch []*job) {
	err := s.guard.commit(func() error {
		_, err := s.stmts.commit.Exec()
		for busy(err) { // a reader in another process may hold COMMIT up; it writes nothing then
			_, err = s.stmts.commit.Exec()
		}
		return err
	})
	if err != nil {
		s.rollback()
		s.opts.Log().Error("commit failed", "file", s.path, "mutations", len(batch), "err", err)
	}
	for _, j := range batch {
		j.reply <- j.answer(classify(committing, err))
	}
}

// answer says what became of a job once COMMIT was sent. Where COMMIT failed an
// accepted mutation is unknown; one that was refused has written nothing, but
// the reason may lie in what was not committed, so it is to be asked again.
func (j *job) answer(commit error) answer {
	switch {
	case j.failure != nil:
		return refused(j.failure)
	case j.probe:
		return answer{err: commit}
	case commit != nil && j.decision.Code == sdk.Accepted:
		return refused(commit)
	case commit != nil:
		return refused(sdk.Errorf(sdk.NotApplied, "commit", "it wrote nothing, and the transaction in which it was judged failed: %w", commit))
	}
	out, err := j.decision.Outcome()
	return answer{out, err}
}

// judgeOne judges and writes one mutation. An error undoes all of it.
func (s *Store) judgeOne(j *job) error {
	j.failure = nil
	if !j.probe {
		j.failure = s.decide(j)
	}
	return j.failure
}

// breaks judges and writes one mutation of several, under its own savepoint. It
// reports whether the transaction ended with it, or has to.
func (s *Store) breaks(j *job) bool {
	j.failure = nil
	_, err := s.stmts.save.Exec()
	if err == nil && s.judgeOne(j) != nil && !s.guard.lost.Load() {
		_, err = s.stmts.undo.Exec()
	}
	if err == nil && !s.guard.lost.Load() {
		_, err = s.stmts.free.Exec()
	}
	if j.failure == nil {
		j.failure = classify(deciding, err)
	}
	return err != nil || s.guard.lost.Load()
}

// refuse answers a job that has a failure, unless its caller has left.
func (j *job) refuse() {
	if j.state.CompareAndSwap(waiting, committed) {
		j.reply <- refused(j.failure)
	}
}

// alone runs a job with a hook in a transaction of its own.
func (s *Store) alone(j *job) {
	batch := live([]*job{j})
	if len(batch) == 0 {
		return
	}
	tx, err := s.beginTx(j)
	if err != nil {
		fail(batch, err)
		return
	}
	if j.failure = s.decideHook(j, tx); j.failure != nil || len(seal(batch)) == 0 {
		tx.Rollback()
		s.rollbackRest()
		j.refuse()
		return
	}
	err = s.guard.commit(tx.Commit)
	if err != nil {
		s.rollbackRest()
	}
	j.reply <- j.answer(classify(committing, err))
}

func (s *Store) beginTx(j *job) (*sql.Tx, error) {
	if err := s.inPlace(); err != nil {
		return nil, err
	}
	for {
		tx, err := s.conn.BeginTx(context.WithoutCancel(j.ctx), nil)
		if !busy(err) {
			s.guard.begun()
			return tx, classify(deciding, err)
		}
		select {
		case <-s.closing:
			return nil, closedError()
		case <-j.ctx.Done():
			return nil, classify(deciding, j.ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// rollbackRest ends a transaction that database/sql thinks has ended.
func (s *Store) rollbackRest() {
	s.guard.set(free)
	s.stmts.rollback.Exec() // an error says that there was none
}

// inHook is the key in the context of a hook that holds the file's write lock.
type inHook struct{ path string }

// runHook calls the team's function on a goroutine of its own: other mutations
// live from the writer's, which must outlast a panic and a runtime.Goexit.
func (s *Store) runHook(j *job, tx *sql.Tx) (result []byte, err error) {
	s.guard.set(hooked)
	defer s.guard.set(free)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = errors.New("the function ended its goroutine") // unless it returns
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the function panicked: %v\n%s", p, debug.Stack())
			}
		}()
		result, err = j.mutation.Hook(context.WithValue(j.ctx, inHook{s.path}, true), tx)
	}()
	<-done
	return result, err
}
