package mongostore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/internal/lab/mongofake"
	"github.com/fencedstore/fencedstore/internal/lab/mongowire"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// hooked is a mutation whose effects are the function's.
func hooked(fence sdk.Token, segment int, op string, fn func(ctx context.Context, s *mongo.Session) ([]byte, error)) *sdk.Mutation {
	m := mutation(fence, segment, op)
	m.Payload = sdk.InputDigest(m.Operation, nil)
	m.Hook = func(ctx context.Context, tx any) ([]byte, error) { return fn(ctx, tx.(*mongo.Session)) }
	return m
}

func increment(ctx context.Context, s *mongo.Session) error {
	_, err := s.Client().Database("test").Collection("orders").UpdateOne(ctx, bson.D{{Key: "_id", Value: 1}},
		bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int64(1)}}}}, options.UpdateOne().SetUpsert(true))
	return err
}

func count(t testing.TB, s *server) int64 {
	t.Helper()
	var doc struct{ N int64 }
	err := client(t, s.Addr()).Database("test").Collection("orders").FindOne(t.Context(), bson.D{{Key: "_id", Value: 1}}).Decode(&doc)
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		t.Fatal(err)
	}
	return doc.N
}

// C10, C77: the commit is applied and its answer lost, or labelled as unknown and
// transient at once: the body runs once, nothing but the commit is sent again,
// with the majority's concern, and where that ends without an answer the receipt
// tells.
func TestCommitUnknown(t *testing.T) {
	t.Parallel()
	label := func(labels ...string) func(bool) (bson.Raw, error) {
		return func(bool) (bson.Raw, error) {
			return mongofake.Failure(91, "ShutdownInProgress", labels...), nil
		}
	}
	concern := func(bool) (bson.Raw, error) {
		return raw(t, bson.D{{Key: "ok", Value: 1.0}, {Key: "writeConcernError", Value: bson.D{{Key: "code", Value: int32(64)}, {Key: "errmsg", Value: "waiting for replication"}}}}), nil
	}
	cut := func(bool) (bson.Raw, error) { return nil, mongowire.ErrCut }
	for _, x := range []struct {
		name    string
		answer  func(bool) (bson.Raw, error)
		times   int64 // how many commits are answered so
		applied bool
		want    sdk.Code
		again   sdk.Code
	}{
		{"cut once, applied", cut, 1, true, sdk.Accepted, sdk.Replayed},
		{"cut once, not applied", cut, 1, false, sdk.Accepted, sdk.Replayed},
		{"both labels, applied", label(unknownCommit, transientTransaction), 3, true, sdk.Accepted, sdk.Replayed},
		{"both labels, not applied", label(unknownCommit, transientTransaction), 3, false, sdk.Accepted, sdk.Replayed},
		{"both labels for ever, applied", label(unknownCommit, transientTransaction), 1 << 20, true, sdk.Replayed, sdk.Replayed},
		{"both labels for ever, not applied", label(unknownCommit, transientTransaction), 1 << 20, false, sdk.MutationUnknown, sdk.Accepted},
		{"wtimeout, applied", concern, 2, true, sdk.Accepted, sdk.Replayed},
		{"wtimeout for ever, applied", concern, 1 << 20, true, sdk.Replayed, sdk.Replayed},
		{"no label, applied", label(), 1 << 20, true, sdk.Replayed, sdk.Replayed},
		{"no label, not applied", label(), 1 << 20, false, sdk.MutationUnknown, sdk.Accepted},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newFake(t)
			st := opened(t, s)
			apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
			var bodies, commits atomic.Int64
			s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
				if name != "commitTransaction" {
					return next(c)
				}
				n := commits.Add(1)
				if w, _ := c.Lookup("writeConcern", "w").StringValueOK(); w != "majority" {
					t.Errorf("commit %d with %v", n, c.Lookup("writeConcern"))
				}
				if n > x.times {
					return next(c)
				}
				if x.applied && n == 1 {
					if _, err := next(c); err != nil {
						return nil, err
					}
				}
				return x.answer(true)
			})
			m := hooked(1, 2, "op-2", func(ctx context.Context, tx *mongo.Session) ([]byte, error) {
				bodies.Add(1)
				return []byte("done"), increment(ctx, tx)
			})
			apply(t, st, m, x.want)
			if bodies.Load() != 1 {
				t.Errorf("the body ran %d times", bodies.Load())
			}
			if commits.Load() < 2 && x.name != "no label, applied" && x.name != "no label, not applied" {
				t.Errorf("%d commits", commits.Load())
			}
			s.Set(nil)
			// What may yet land holds its documents until the server lets go of it.
			apply(t, st, m, x.again)
			r, err := st.Receipt(t.Context(), resource, "op-2")
			if err != nil || string(r.Result) != "done" || count(t, s) != 1 {
				t.Errorf("receipt %+v, %v; applied %d times", r, err, count(t, s))
			}
		})
	}
}

// C10: a transaction that the server rolled back is run again, body and all, as
// nothing of it is left; so is one whose commit says so.
func TestTransient(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"update", "commitTransaction"} {
		s := newFake(t)
		st := opened(t, s)
		apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
		var bodies, failures atomic.Int64
		s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
			if name == at && failures.Add(1) <= 2 {
				return mongofake.Failure(112, "WriteConflict", transientTransaction), nil
			}
			return next(c)
		})
		m := hooked(1, 2, "op-2", func(ctx context.Context, tx *mongo.Session) ([]byte, error) {
			bodies.Add(1)
			return nil, increment(ctx, tx)
		})
		apply(t, st, m, sdk.Accepted)
		if n := count(t, s); n != 1 {
			t.Errorf("%s: the body's work is there %d times", at, n)
		}
		if at == "commitTransaction" && bodies.Load() != 3 {
			t.Errorf("the body ran %d times", bodies.Load())
		}
	}
}

// C76: the transaction's options are pinned, whatever the client's are.
func TestTransactionOptions(t *testing.T) {
	s := newFake(t)
	weak := client(t, s.Addr()+"/?w=1&readConcernLevel=local&readPreference=nearest")
	st, err := New(t.Context(), weak, "test", "p", &Options{Layout: LayoutTransaction})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	begun := 0
	s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
		if start, _ := c.Lookup("startTransaction").BooleanOK(); start {
			begun++
			if level, _ := c.Lookup("readConcern", "level").StringValueOK(); level != "snapshot" {
				t.Errorf("%s begins with %v", name, c.Lookup("readConcern"))
			}
		}
		if name == "commitTransaction" {
			if w, _ := c.Lookup("writeConcern", "w").StringValueOK(); w != "majority" {
				t.Errorf("commit with %v", c.Lookup("writeConcern"))
			}
		}
		return next(c)
	})
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	if begun != 1 {
		t.Errorf("%d transactions", begun)
	}
}

// A commit that is not answered ends with the context, and a hook that fails, or
// ends the transaction, or touches the fence, or panics, leaves nothing.
func TestHooks(t *testing.T) {
	s := newFake(t)
	st := opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	cause := errors.New("the team's own")
	fail := func(fn func(ctx context.Context, tx *mongo.Session) error, want sdk.Code) error {
		t.Helper()
		m := hooked(1, 2, "op-2", func(ctx context.Context, tx *mongo.Session) ([]byte, error) {
			if err := increment(ctx, tx); err != nil {
				return nil, err
			}
			return nil, fn(ctx, tx)
		})
		return apply(t, st, m, want)
	}
	if err := fail(func(context.Context, *mongo.Session) error { return cause }, sdk.NotApplied); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	fail(func(context.Context, *mongo.Session) error { panic("x") }, sdk.NotApplied)
	fail(func(ctx context.Context, tx *mongo.Session) error {
		_, err := tx.Client().Database("test").Collection("p").DeleteOne(ctx, bson.D{{Key: "_id", Value: fenceName(resource)}})
		return err
	}, sdk.Invalid)
	fail(func(ctx context.Context, tx *mongo.Session) error { return tx.AbortTransaction(ctx) }, sdk.MutationUnknown)
	if n := count(t, s); n != 0 {
		t.Errorf("the hooks' work is there %d times", n)
	}
	// A stale owner's never runs.
	apply(t, st, mutation(5, 1, "op-5"), sdk.Accepted)
	ran := false
	apply(t, st, hooked(1, 2, "op-2", func(context.Context, *mongo.Session) ([]byte, error) { ran = true; return nil, nil }), sdk.StaleOwner)
	if ran {
		t.Error("a stale owner's function ran")
	}
	// Silence after the commit was sent.
	silent := make(chan struct{})
	s.Set(func(name string, c bson.Raw, next func(bson.Raw) (bson.Raw, error)) (bson.Raw, error) {
		if name == "commitTransaction" {
			<-silent
		}
		return next(c)
	})
	defer close(silent)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	out, err := st.Apply(ctx, sdk.NewAdmission(seal.Cut(), mutation(5, 2, "op-6")))
	if out.Code != sdk.MutationUnknown {
		t.Errorf("%v, %v", out.Code, err)
	}
}

// Two commands and a commit's worth: what a mutation costs in the steady state.
func TestTransactionRoundTrips(t *testing.T) {
	s := newFake(t)
	st := opened(t, s)
	apply(t, st, mutation(1, 1, "op-1"), sdk.Accepted)
	for i := 2; i < 12; i++ {
		before := s.Count("")
		apply(t, st, mutation(1, i, fmt.Sprint("op-", i), sdk.Put("k", []byte("v"))), sdk.Accepted)
		if n := s.Count("") - before; n != 2 {
			t.Errorf("segment %d took %d commands", i, n)
		}
	}
	before := s.Count("")
	apply(t, st, mutation(1, 40, "op-40"), sdk.SegmentSkipped)
	if n := s.Count("") - before; n != 1 {
		t.Errorf("a refusal took %d commands", n)
	}
}
