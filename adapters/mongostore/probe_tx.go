package mongostore

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// probeTransactions proves that a transaction is kept whole or not at all, that
// nobody sees it before its commit, and that two on one document do not both
// commit.
func (s *txStore) probeTransactions(ctx context.Context) error {
	id := "probe/" + newVersion()
	docs := &documents{s.collection}
	defer docs.tidy(ctx, id)
	put := func(tx *transaction, suffix string, value int64) (outcome, error) {
		return tx.update(s.collection, bson.A{upsert(id+suffix, "$set", bson.D{{Key: "n", Value: value}})}, nil, true)
	}
	count := func() (int, error) {
		found, err := s.find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{id + "-a", id + "-b"}}}}}, 2)
		return len(found), err
	}
	expect := func(what string, want int) error {
		n, err := count()
		if err == nil && n != want {
			err = sdk.Errorf(sdk.Unsuitable, "transaction", "%s, %d of its documents are seen, not %d", what, n, want)
		}
		return err
	}
	both := func() (*transaction, error) {
		tx, err := s.begin(ctx)
		if err != nil {
			return nil, err
		}
		for _, suffix := range []string{"-a", "-b"} {
			what, err := put(tx, suffix, 1)
			if what != committed {
				tx.abort(ctx)
				if err == nil {
					err = sdk.Errorf(sdk.NotApplied, "transaction", "the server rolled the probe's back")
				}
				return nil, err
			}
		}
		return tx, nil
	}
	tx, err := both()
	if err != nil {
		return err
	}
	err = expect("before its commit", 0)
	tx.abort(ctx)
	if err != nil {
		return err
	}
	if err := expect("after it was aborted", 0); err != nil {
		return err
	}
	if tx, err = both(); err != nil {
		return err
	}
	if what, err := tx.commit(ctx); what != committed {
		return probeFailed(err)
	}
	if err := expect("after its commit", 2); err != nil {
		return err
	}
	return s.probeConflict(ctx, put)
}

// probeConflict lets a transaction read, another one write what was read, and the
// first one write it too.
func (s *txStore) probeConflict(ctx context.Context, put func(*transaction, string, int64) (outcome, error)) error {
	first, err := s.begin(ctx)
	if err != nil {
		return err
	}
	if what, err := put(first, "-c", 1); what != committed { // takes its snapshot
		first.abort(ctx)
		return probeFailed(err)
	}
	second, err := s.begin(ctx)
	if err != nil {
		first.abort(ctx)
		return err
	}
	if what, err := put(second, "-b", 2); what != committed {
		first.abort(ctx)
		second.abort(ctx)
		return probeFailed(err)
	}
	if what, err := second.commit(ctx); what != committed {
		first.abort(ctx)
		return probeFailed(err)
	}
	what, err := put(first, "-b", 3)
	if what == committed {
		what, err = first.commit(ctx)
	} else {
		first.abort(ctx)
	}
	if what == committed {
		return sdk.Errorf(sdk.Unsuitable, "transaction", "two that overlap and write one document were both committed")
	}
	if what == failed {
		return err
	}
	return nil
}

func probeFailed(err error) error {
	if err == nil || sdk.CodeOf(err) == sdk.MutationUnknown {
		return sdk.Errorf(sdk.NotApplied, "transaction", "the probe's transaction was not committed: %v", err)
	}
	return err
}
