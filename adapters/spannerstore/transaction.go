package spannerstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"sync/atomic"
	"time"

	"cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// maxAttempts bounds how often an ABORTED transaction is run anew.
const maxAttempts = 100

// What a client's own defaults say otherwise does not hold here: reads are
// locked, and what was read is what the commit builds on. The transaction begins
// with its first request, so that it takes no round trip of its own.
var transactionOptions = spanner.TransactionOptions{
	BeginTransactionOption: spanner.InlinedBeginTransaction,
	IsolationLevel:         spannerpb.TransactionOptions_SERIALIZABLE,
	ReadLockMode:           spannerpb.TransactionOptions_ReadWrite_PESSIMISTIC,
}

// ended is how a transaction ended.
type ended struct {
	err        error // nil: it is committed
	committing bool  // err is the answer to a commit, not to what came before it
	doubt      bool  // the last commit was sent perhaps more than once, and its answer is to the last time only
}

// transaction runs f in a read-write transaction and commits what f has
// buffered; an error of f rolls it back. It is run anew when it was ABORTED, and
// only then: the client's own loop also does so after other answers to a commit,
// which may have landed. *doubt tells f that the commit before may have landed
// though its last answer was ABORTED; f clears it when it has seen that it has not.
func (s *Store) transaction(ctx context.Context, f func(ctx context.Context, tx *spanner.ReadWriteTransaction, doubt *bool) error) (end ended) {
	if s.one != nil {
		select {
		case s.one <- struct{}{}:
			defer func() { <-s.one }()
		case <-ctx.Done():
			return ended{err: ctx.Err()}
		}
	}
	client := s.db()
	renewed := false
	var tx *spanner.ReadWriteStmtBasedTransaction
	for attempt := 1; ; attempt++ {
		end.err, end.committing = nil, false
		tx, end.err = begin(ctx, client, tx)
		if end.err == nil {
			if end.err = f(ctx, &tx.ReadWriteTransaction, &end.doubt); end.err == nil {
				end.err = ctx.Err()
			}
			if end.err != nil && !isAborted(end.err) {
				s.rollback(ctx, tx)
			}
		}
		if end.err == nil {
			end.committing = true
			var once bool
			if once, end.err = s.commit(ctx, tx); end.err == nil {
				return end
			}
			end.doubt = !once
		}
		if !isAborted(end.err) {
			if !isSessionGone(end.err) {
				return end
			}
			next := s.renew(ctx, client)
			if end.committing || renewed || next == client {
				return end
			}
			client, tx, renewed = next, nil, true
			continue
		}
		if attempt == maxAttempts {
			end.err = sdk.Errorf(sdk.NotApplied, "Spanner", "ABORTED %d times: other transactions were faster; nothing was applied: %w", maxAttempts, end.err)
			end.committing = false
			return end
		}
		if !pause(ctx, backoff(attempt, end.err)) {
			end.err = sdk.Errorf(sdk.NotApplied, "Spanner", "ABORTED until the context ended; nothing was applied: %w", errors.Join(ctx.Err(), end.err))
			end.committing = false
			return end
		}
	}
}

// begin makes a transaction, of a higher priority where an earlier one was
// ABORTED. Nothing is sent but then.
func begin(ctx context.Context, client *spanner.Client, aborted *spanner.ReadWriteStmtBasedTransaction) (*spanner.ReadWriteStmtBasedTransaction, error) {
	if aborted != nil {
		tx, err := aborted.ResetForRetry(ctx)
		if err == nil || code(err) != codes.Unknown {
			return tx, err
		}
		// It was not the server that said ABORTED, or its answer was lost.
		aborted.Rollback(ctx)
	}
	return spanner.NewReadWriteStmtBasedTransactionWithOptions(ctx, client, transactionOptions)
}

// commit also says whether it is known that the commit was sent once only.
func (s *Store) commit(ctx context.Context, tx *spanner.ReadWriteStmtBasedTransaction) (once bool, err error) {
	var sent commits
	_, err = tx.Commit(context.WithValue(ctx, commitsKey{}, &sent))
	return s.counted && sent.n.Load() <= 1, err
}

// rollback gives the locks back. A call whose context has ended does not wait
// for it.
func (s *Store) rollback(ctx context.Context, tx *spanner.ReadWriteStmtBasedTransaction) {
	const limit = 5 * time.Second // Spanner itself gives the locks of an idle one up after ten
	back := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		tx.Rollback(ctx)
	}
	if ctx.Err() != nil {
		s.running.Go(back) // within the caller's own count, or before the store is open
		return
	}
	tx.Rollback(ctx)
}

// backoff is what the server asks for, or doubles from 10 ms to about a second.
func backoff(attempt int, err error) time.Duration {
	if d, ok := spanner.ExtractRetryDelay(err); ok && d > 0 {
		return d
	}
	d := 10 * time.Millisecond << min(attempt-1, 6)
	return d/2 + rand.N(d)
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

// commits counts how often the commits of a context were sent: below the
// client, which sends one again after UNAVAILABLE.
type commits struct{ n atomic.Int32 }

type commitsKey struct{}

func countCommits(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if sent, ok := ctx.Value(commitsKey{}).(*commits); ok && path.Base(method) == "Commit" {
		sent.n.Add(1)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}
