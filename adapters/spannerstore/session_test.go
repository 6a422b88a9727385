package spannerstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/spanner"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

func detailed(t testing.TB, code codes.Code, detail protoadapt.MessageV1) error {
	t.Helper()
	s, err := status.New(code, "x").WithDetails(detail)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

// C59: a session that the server does not know any more, which the client would
// keep for days. Before the commit it proves that nothing was applied: a store
// that made its client makes another and goes on.
func TestSessionGone(t *testing.T) {
	e := start(t)
	gone := detailed(t, codes.NotFound, &errdetails.ResourceInfo{ResourceType: sessionType, ResourceName: "x"})
	for _, reconnects := range []bool{true, false} {
		t.Run(fmt.Sprint("reconnects ", reconnects), func(t *testing.T) {
			s, c := watched(t, e)
			fresh := &calls{counts: map[string]int{}}
			if reconnects {
				s.connect = func(context.Context) (*spanner.Client, error) { return fresh.client(t, e), nil }
			}
			c.refuse = func(string) error { return gone }
			c.set(func(_ context.Context, method string, _, _ any, send func() error) error {
				if method == "BeginTransaction" || method == "Commit" {
					return gone
				}
				return send()
			})
			m := mutation(1, 1, "op-1", sdk.Put("k", []byte("v")))
			m.Resource = sdk.ResourceID(fmt.Sprint("gone-", reconnects))
			if !reconnects {
				apply(t, s, m, sdk.NotApplied)
				return
			}
			apply(t, s, m, sdk.Accepted)
			if n := fresh.count("Commit"); n != 1 {
				t.Errorf("%d commits", n)
			}
			if v, err := s.Read(t.Context(), m.Resource, "k"); err != nil || string(v) != "v" {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
	// The reads find it out too, and the next one has another session.
	s, c := watched(t, e)
	made := 0
	s.connect = func(context.Context) (*spanner.Client, error) { made++; return e.client(t), nil }
	c.refuse = func(string) error { return gone }
	if _, err := s.Inspect(t.Context(), resource); sdk.CodeOf(err) != sdk.NotApplied {
		t.Errorf("%v", err)
	}
	for range 2 {
		if _, err := s.Inspect(t.Context(), resource); err != nil {
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("%d clients were made", made)
	}
}

// C59: a thousand attempts that are ABORTED leave the handle as it was: each call
// ends by itself, with a proof, and the next one goes through.
func TestThousandAborted(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	aborted := detailed(t, codes.Aborted, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Nanosecond)})
	c.set(func(_ context.Context, method string, _, _ any, send func() error) error {
		if method == "Commit" {
			return aborted
		}
		return send()
	})
	before := c.count("Commit")
	for i := range 10 {
		apply(t, s, mutation(1, 1, fmt.Sprint("op-", i)), sdk.NotApplied)
	}
	if n := c.count("Commit") - before; n != 10*maxAttempts {
		t.Errorf("%d commits", n)
	}
	c.set(nil)
	apply(t, s, mutation(1, 1, "op-last"), sdk.Accepted)
}

// ABORTED of another transaction, that a function met, is its own affair.
func TestForeignAborted(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	m := mutation(1, 1, "op-1")
	m.Payload = sdk.InputDigest(m.Operation, nil)
	runs := 0
	m.Hook = func(context.Context, any) ([]byte, error) { runs++; return nil, status.Error(codes.Aborted, "x") }
	apply(t, s, m, sdk.NotApplied)
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
	if n := c.count("Rollback"); n != 1 {
		t.Errorf("%d rollbacks", n)
	}
}

// A call whose context has ended does not wait for the rollback, and Close does.
func TestRollbackAfterCancel(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	c.set(func(_ context.Context, method string, _, _ any, send func() error) error {
		if method == "Rollback" {
			<-release
		}
		return send()
	})
	m := mutation(1, 1, "op-1")
	m.Payload = sdk.InputDigest(m.Operation, nil)
	m.Hook = func(context.Context, any) ([]byte, error) { cancel(); return nil, nil }
	out, err := s.Apply(ctx, sdk.NewAdmission(seal.Cut(), m))
	if out.Code != sdk.NotApplied {
		t.Errorf("%v, %v", out.Code, err)
	}
	close(release)
	s.Close()
	if n := c.count("Rollback"); n != 1 {
		t.Errorf("%d rollbacks", n)
	}
}

// A store outlives the context that it was opened with.
func TestOpenContextEnds(t *testing.T) {
	e := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Open(ctx, e.dsn(), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cancel()
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
}

// A store behind SPANNER_EMULATOR_HOST does not call itself live.
func TestEmulatorVariable(t *testing.T) {
	e := start(t)
	if got := open(t, e).Describe(); got.Environment != sdk.Emulator {
		t.Errorf("%+v", got)
	}
	t.Setenv("SPANNER_EMULATOR_HOST", e.endpoint)
	s, err := Open(t.Context(), Scheme+databaseOf, sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	given, err := New(t.Context(), e.client(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	for _, s := range []sdk.FencedStore{s, given} {
		if d := s.Describe(); d.Environment != sdk.Emulator || d.Supports(sdk.CapParallel) != sdk.NotSupported {
			t.Errorf("%+v", d)
		}
	}
}

// Permissions that the role lacks are named, all of them.
func TestPermissions(t *testing.T) {
	e := start(t)
	s, c := watched(t, e)
	denied := map[string]bool{"UPDATE " + recordTable: true, "DELETE " + valueTable: true, "INSERT " + quarantineTable: true}
	c.set(func(_ context.Context, method string, req, _ any, send func() error) error {
		commit, ok := req.(*spannerpb.CommitRequest)
		for _, m := range commit.GetMutations() {
			if !ok {
				break
			}
			if denied["UPDATE "+m.GetUpdate().GetTable()] || denied["DELETE "+m.GetDelete().GetTable()] || denied["INSERT "+m.GetInsert().GetTable()] {
				return status.Error(codes.PermissionDenied, "x")
			}
		}
		return send()
	})
	own := spanner.Insert(probeTable, []string{"Name", "Number"}, []any{"x", 1})
	got, err := s.missing(t.Context(), "x", own)
	want := []string{"UPDATE on " + recordTable, "DELETE on " + valueTable, "INSERT on " + quarantineTable}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if err := s.Probe(t.Context()); sdk.CodeOf(err) != sdk.Unsuitable {
		t.Errorf("Probe: %v", err)
	}
	denied = map[string]bool{"INSERT " + probeTable: true}
	if got, err := s.missing(t.Context(), "y", own); err != nil || !slices.Equal(got, []string{"INSERT on " + probeTable}) {
		t.Errorf("%q, %v", got, err)
	}
}
