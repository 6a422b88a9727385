package spannerstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// once bends the first Commit and lets everything else through.
func once(f func(ctx context.Context, reply any, send func() error) error) bend {
	var mu sync.Mutex
	done := false
	return func(ctx context.Context, method string, _, reply any, send func() error) error {
		mu.Lock()
		first := method == "Commit" && !done
		done = done || first
		mu.Unlock()
		if first {
			return f(ctx, reply, send)
		}
		return send()
	}
}

// C11, C26: codes at the commit, with the transaction committed and not. What
// proves nothing is settled by the receipt: REPLAYED, or, as long as it may yet
// land, MUTATION_UNKNOWN, and accepted once when it is sent again.
func TestLostAnswer(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	segment := 0
	for _, lost := range []codes.Code{codes.Unknown, codes.DeadlineExceeded, codes.Internal, codes.Canceled, codes.DataLoss} {
		for _, committed := range []bool{true, false} {
			segment++
			m := mutation(1, segment, fmt.Sprint("op-", segment), sdk.Put("k", []byte("v")))
			c.set(once(func(_ context.Context, _ any, send func() error) error {
				if committed {
					if err := send(); err != nil {
						t.Error(err)
					}
				}
				return status.Error(lost, "Transaction outcome unknown")
			}))
			want := sdk.MutationUnknown
			if committed {
				want = sdk.Replayed
			}
			apply(t, s, m, want)
			c.set(nil)
			want = sdk.Accepted
			if committed {
				want = sdk.Replayed
			}
			apply(t, s, m, want)
		}
	}
}

// An answer that was lost while another writer moved on: this commit can never
// land any more, so the mutation is judged anew.
func TestLostAndOvertaken(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	other, _ := watched(t, e)
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
	c.set(once(func(_ context.Context, _ any, _ func() error) error {
		apply(t, other, mutation(2, 1, "op-2"), sdk.Accepted)
		return status.Error(codes.Unknown, "Transaction outcome unknown")
	}))
	// The transaction holds the emulator's turn; the other handle must not wait.
	s.one = make(chan struct{}, 1)
	apply(t, s, mutation(1, 2, "op-3"), sdk.StaleOwner)
}

// C26, C56, C58: every code on the list, and some that are not.
func TestCommitAnswers(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	want := map[codes.Code]sdk.Code{codes.Unknown: sdk.MutationUnknown, codes.DeadlineExceeded: sdk.MutationUnknown, codes.DataLoss: sdk.MutationUnknown, 99: sdk.MutationUnknown}
	for _, a := range commitAnswers {
		if a.code != codes.Aborted { // the client runs the transaction anew
			want[a.code] = a.means
		}
	}
	segment := 0
	for answer, means := range want {
		segment++
		m := mutation(1, segment, fmt.Sprint("op-", segment))
		c.set(once(func(context.Context, any, func() error) error { return status.Error(answer, "x") }))
		apply(t, s, m, means)
		c.set(nil)
		apply(t, s, m, sdk.Accepted)
	}
	for _, err := range []error{errors.New("x"), context.Canceled, status.Error(codes.Unavailable, "x")} {
		if got := sdk.CodeOf(commitError(err, false)); got != sdk.MutationUnknown {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// C59: ABORTED is run anew, with everything read again, a bounded number of
// times; and the handle is as good as before.
func TestAborted(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	aborted := 0
	c.set(func(_ context.Context, method string, _, _ any, send func() error) error {
		if method == "Commit" && aborted < 5 {
			aborted++
			return status.Error(codes.Aborted, "x")
		}
		return send()
	})
	apply(t, s, mutation(1, 1, "op-1", sdk.Put("k", []byte("v"))), sdk.Accepted)
	for range 3 {
		c.set(func(_ context.Context, method string, _, _ any, send func() error) error {
			if method == "Commit" {
				return status.Error(codes.Aborted, "x")
			}
			return send()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		out, err := s.Apply(ctx, sdk.NewAdmission(seal.Cut(), mutation(1, 2, "op-2")))
		cancel()
		if out.Code != sdk.NotApplied && out.Code != sdk.MutationUnknown {
			t.Fatalf("%v, %v", out.Code, err)
		}
		if errors.Is(err, context.Canceled) {
			t.Error("nobody cancelled it")
		}
		c.set(nil)
		if _, err := s.Receipt(t.Context(), resource, "op-2"); sdk.CodeOf(err) != sdk.NotFound {
			t.Fatal(err)
		}
	}
	apply(t, s, mutation(1, 2, "op-2"), sdk.Accepted)
}

// C57: a commit on a multiplexed session may be asked for twice; it is one.
func TestMultiplexedRetry(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	var held []*spannerpb.Mutation // by the server, which asks for the commit once more
	c.set(func(_ context.Context, method string, req, reply any, send func() error) error {
		if method != "Commit" {
			return send()
		}
		commit := req.(*spannerpb.CommitRequest)
		if held == nil {
			held = commit.Mutations
			reply.(*spannerpb.CommitResponse).MultiplexedSessionRetry = &spannerpb.CommitResponse_PrecommitToken{
				PrecommitToken: &spannerpb.MultiplexedSessionPrecommitToken{PrecommitToken: []byte("t"), SeqNum: 1}}
			return nil
		}
		if len(commit.Mutations) != 0 || string(commit.PrecommitToken.GetPrecommitToken()) != "t" {
			t.Errorf("sent again with %d mutations and token %q", len(commit.Mutations), commit.PrecommitToken.GetPrecommitToken())
		}
		commit.Mutations, commit.PrecommitToken = held, nil
		return send()
	})
	before := c.count("Commit")
	apply(t, s, mutation(1, 1, "op-1", sdk.Put("k", []byte("v"))), sdk.Accepted)
	if n := c.count("Commit") - before; n != 2 {
		t.Errorf("%d commits", n)
	}
	if v, err := s.Read(t.Context(), resource, "k"); err != nil || string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
}

func TestRoundTrips(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
	for i := 2; i < 10; i++ {
		before := c.all()
		apply(t, s, mutation(1, i, fmt.Sprint("op-", i), sdk.Put("k", []byte("v"))), sdk.Accepted)
		if n := c.all() - before; n != 2 {
			t.Errorf("segment %d took %d requests", i, n)
		}
	}
	before := c.all()
	apply(t, s, mutation(1, 20, "op-20"), sdk.SegmentSkipped)
	if n := c.all() - before; n > 2 {
		t.Errorf("a refusal took %d requests", n)
	}
}

// C24: what is ACCEPTED on the emulator is there; and a transaction that its
// client left open is in nobody's way.
func TestAcceptedIsThere(t *testing.T) {
	e := start(t)
	s, _ := watched(t, e)
	left := e.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	inside := make(chan struct{})
	go left.ReadWriteTransaction(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
		tx.ReadRow(ctx, recordTable, s.key(resource, kindFence, ""), fenceColumns)
		select {
		case inside <- struct{}{}:
			<-ctx.Done()
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	<-inside
	defer cancel()
	for i := 1; i <= 20; i++ {
		op := sdk.OperationID(fmt.Sprint("op-", i))
		apply(t, s, mutation(1, i, string(op)), sdk.Accepted)
		if r, err := s.Receipt(t.Context(), resource, op); err != nil || r.Segment != sdk.Segment(i) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}
