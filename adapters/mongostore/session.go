package mongostore

import (
	"context"
	"errors"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const (
	transientTransaction = "TransientTransactionError"
	unknownCommit        = "UnknownTransactionCommitResult"

	// commitTimeout is for a context without a deadline: no commit is retried for
	// ever.
	commitTimeout = 30 * time.Second
	// commitTries is how often a commit is sent by us; the driver sends each once
	// more where the connection was lost.
	commitTries = 5
	// abortTimeout is how long an abort may take after its call has ended; the
	// server lets go by itself after a minute.
	abortTimeout = 5 * time.Second
)

// transaction is one that has begun on a session of its own.
type transaction struct {
	s       *txStore
	session *mongo.Session
	ctx     context.Context // with the session
}

func (s *txStore) begin(ctx context.Context) (*transaction, error) {
	session, err := s.client.StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "MongoDB", "no session: %w", err)
	}
	journal := true
	// Pinned here, whatever the client's defaults are (C76).
	err = session.StartTransaction(options.Transaction().SetReadConcern(readconcern.Snapshot()).
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}).SetReadPreference(readpref.Primary()))
	if err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "MongoDB", "no transaction: %w", err)
	}
	return &transaction{s: s, session: session, ctx: mongo.NewSessionContext(ctx, session)}, nil
}

// abort ends a transaction that was not committed. It is seen through after the
// call's context has ended, so that nobody waits for its locks; Close waits for
// it.
func (t *transaction) abort(ctx context.Context) {
	done := make(chan struct{})
	t.s.running.Go(func() {
		defer close(done)
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		t.session.EndSession(own)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// commit sends the commit, and nothing but the commit again while its outcome is
// unknown (C10): that label takes precedence over any other.
func (t *transaction) commit(ctx context.Context) (outcome, error) {
	ctx, cancel := deadline(ctx)
	defer cancel()
	unsure := false
	wait := 10 * time.Millisecond
	for n := 1; ; n++ {
		err := t.session.CommitTransaction(ctx)
		if err == nil {
			t.session.EndSession(ctx) // sends nothing
			return committed, nil
		}
		le := mongo.LabeledError(nil)
		labelled := errors.As(err, &le)
		switch {
		case labelled && le.HasErrorLabel(unknownCommit):
			unsure = true
			if n < commitTries && pause(ctx, wait) {
				wait *= 2
				continue
			}
		case labelled && le.HasErrorLabel(transientTransaction) && !unsure:
			t.session.EndSession(ctx) // the server has rolled back
			return raced, nil
		}
		// The session is left as it is: to end it could abort what is being
		// committed.
		return lost, sdk.Errorf(sdk.MutationUnknown, "commit", "%w", err)
	}
}

func deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, commitTimeout)
}

// run sends a command of the transaction. Its concerns are the transaction's.
func (t *transaction) run(c collection, action string, command bson.D) (bson.Raw, outcome, error) {
	reply, _, err := c.run(t.ctx, command)
	if err == nil {
		return reply, committed, nil
	}
	if le := mongo.LabeledError(nil); errors.As(err, &le) && le.HasErrorLabel(transientTransaction) && t.ctx.Err() == nil {
		return nil, raced, nil
	}
	switch means, advice := judge(err, true); means {
	case duplicate:
		return nil, raced, nil
	case unsuitable:
		return nil, failed, unfit(err, advice, action)
	case tooLarge:
		return nil, failed, sdk.Errorf(sdk.TooLarge, "MongoDB", "%s: %w", advice, err)
	}
	return nil, failed, sdk.Errorf(sdk.NotApplied, "MongoDB", "the commit was not sent: %w", err)
}

// update sends updates on the store's own collection. With exactly, raced says
// that one of them did not touch its document, or, for those in fresh, that the
// document was there.
func (t *transaction) update(c collection, updates bson.A, fresh []int64, exactly bool) (outcome, error) {
	reply, what, err := t.run(c, "update", bson.D{{Key: "update", Value: c.name}, {Key: "updates", Value: updates}})
	if what != committed {
		return what, err
	}
	var w written
	if err := bson.Unmarshal(reply, &w); err != nil {
		return failed, sdk.Errorf(sdk.NotApplied, "MongoDB", "an answer that is none; the commit was not sent: %w", err)
	}
	if exactly && w.N != int64(len(updates)) {
		return raced, nil
	}
	for _, i := range fresh {
		made := false
		for _, u := range w.Upserted {
			made = made || u.Index == i
		}
		if !made {
			return raced, nil
		}
	}
	return committed, nil
}
