package spannerstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// O1: Google's client runs a transaction anew after some INTERNAL errors, those
// of its commit too. A commit that landed before the second run failed is not
// NOT_APPLIED.
func TestInternalAtCommit(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.set(once(func(_ context.Context, _ any, send func() error) error {
		if err := send(); err != nil {
			t.Error(err)
		}
		cancel() // the next request of this call will not be made
		return status.Error(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR")
	}))
	out, err := s.Apply(ctx, sdk.NewAdmission(seal.Cut(), mutation(1, 1, "op-1")))
	if out.Code != sdk.MutationUnknown {
		t.Errorf("%v, %v", out.Code, err)
	}
	if _, err := s.Receipt(t.Context(), resource, "op-1"); err != nil {
		t.Error(err)
	}
}

// O1: as above, with a function that fails when it runs for the second time.
func TestInternalAtCommitOfHook(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	c.set(once(func(_ context.Context, _ any, send func() error) error {
		return status.Error(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR")
	}))
	runs := 0
	m := mutation(1, 1, "op-1")
	m.Payload = sdk.InputDigest(m.Operation, nil)
	m.Hook = func(context.Context, any) ([]byte, error) {
		if runs++; runs > 1 {
			return nil, context.Canceled
		}
		return nil, nil
	}
	// It is not settled whether the first run lands.
	apply(t, s, m, sdk.MutationUnknown)
}

// C56, O1, O2: the client sends a commit again after UNAVAILABLE, which may have
// landed. Whatever the last answer is, the receipt decides.
func TestUnavailableAtCommit(t *testing.T) {
	e := start(t)
	for _, counted := range []bool{true, false} {
		t.Run(map[bool]string{true: "Open", false: "New"}[counted], func(t *testing.T) { testUnavailable(t, e, counted) })
	}
}

func testUnavailable(t *testing.T, e *emulator, counted bool) {
	for _, last := range []codes.Code{codes.OK, codes.Aborted, codes.FailedPrecondition, codes.AlreadyExists, codes.InvalidArgument, codes.NotFound, codes.OutOfRange, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented} {
		for _, landed := range []bool{true, false} {
			s, c := watched(t, e)
			s.counted = counted
			m := mutation(1, 1, last.String())
			m.Resource = sdk.ResourceID(fmt.Sprintf("again/%v-%v-%v", last, landed, counted))
			n := 0
			c.set(func(_ context.Context, method string, _, _ any, send func() error) error {
				if method != "Commit" {
					return send()
				}
				switch n++; {
				case n == 1:
					if landed {
						if err := send(); err != nil {
							t.Error(err)
						}
					}
					return status.Error(codes.Unavailable, "x")
				case n == 2 && last != codes.OK:
					return status.Error(last, "x")
				}
				return send()
			})
			out, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
			_, rerr := s.Receipt(t.Context(), m.Resource, m.Operation)
			there := rerr == nil
			t.Logf("%v, landed %v: %v, %v", last, landed, out.Code, err)
			if there && !out.Code.Ok() && out.Code != sdk.MutationUnknown {
				t.Errorf("%v, landed %v: %v, %v, and the receipt is there", last, landed, out.Code, err)
			}
			if landed && !out.Code.Ok() {
				t.Errorf("%v: its own echo was answered %v, %v", last, out.Code, err)
			}
			for _, a := range commitAnswers {
				if a.code == last && !a.judged && !landed && out.Code != sdk.MutationUnknown {
					t.Errorf("%v at the door, after a sending without an answer: %v", last, out.Code)
				}
			}
			if !there && out.Code.Ok() {
				t.Errorf("%v: %v without a receipt", last, out.Code)
			}
		}
	}
}

// O2: a commit that was perhaps sent twice landed, is answered ABORTED, and by the
// time that the transaction is run anew another owner has taken over. The receipt
// is this call's own echo, not a stale owner's.
func TestEchoBelowANewOwner(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	s.counted = false // as with New: the client may have sent it again by itself
	other, _ := watched(t, e)
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
	c.set(once(func(_ context.Context, _ any, send func() error) error {
		if err := send(); err != nil {
			t.Error(err)
		}
		apply(t, other, mutation(2, 1, "op-2"), sdk.Accepted)
		return status.Error(codes.Aborted, "x")
	}))
	out, _ := apply(t, s, mutation(1, 2, "op-3"), sdk.Replayed)
	if out.Receipt == nil || out.Receipt.Operation != "op-3" || out.Observed.Highest != 2 {
		t.Errorf("%+v", out)
	}
	c.set(nil)
	apply(t, s, mutation(1, 2, "op-3"), sdk.StaleOwner) // a new call
}
