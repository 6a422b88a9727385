package fault_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/fault"
)

const resource sdk.ResourceID = "a/b"

func admit(segment int) sdk.Admission {
	op := sdk.OperationID("op-" + strconv.Itoa(segment))
	return sdk.NewAdmission(seal.Cut(), &sdk.Mutation{Resource: resource, Operation: op, Fence: 1, Segment: sdk.Segment(segment), Owner: "w",
		Root: sdk.SumDigest([]byte("r")), Grant: sdk.SumDigest([]byte("g")), Payload: sdk.SumDigest([]byte(op))})
}

// landed is how far the real store is.
func landed(t *testing.T, s sdk.FencedStore) sdk.Segment {
	t.Helper()
	state, err := s.Inspect(context.Background(), resource)
	if err != nil {
		t.Fatal(err)
	}
	return state.Segment
}

func TestFaults(t *testing.T) {
	plain := errors.New("boom")
	closed := make(chan struct{})
	close(closed)
	for _, tc := range []struct {
		fault  fault.Fault
		code   sdk.Code
		landed sdk.Segment
		text   string
	}{
		{fault.FailBefore(nil), sdk.NotApplied, 0, "mem: fail before: NOT_APPLIED: a fault before the call"},
		{fault.FailBefore(plain), sdk.NotApplied, 0, "mem: fail before: NOT_APPLIED: boom"},
		{fault.FailBefore(sdk.Errorf(sdk.Unsuitable, "x", "y")), sdk.Unsuitable, 0, "mem: fail before: UNSUITABLE: x: y"},
		{fault.FailAfter(plain), sdk.MutationUnknown, 1, "mem: fail after: MUTATION_UNKNOWN: boom"},
		{fault.DropAnswer(), sdk.MutationUnknown, 1, "mem: drop the answer"},
		{fault.Hold(closed), sdk.Accepted, 1, "mem: hold"},
		{fault.HoldAnswer(closed), sdk.Accepted, 1, "mem: hold the answer"},
		{fault.Do("nothing", func(context.Context, *fault.Call) error { return nil }), sdk.Accepted, 1, "mem: nothing"},
		{fault.Do("fail", func(context.Context, *fault.Call) error { return plain }), sdk.NotApplied, 0, "mem: fail"},
		{fault.On(fault.Apply, 2, fault.DropAnswer()), sdk.Accepted, 1, "mem: on apply 2: drop the answer"},
		{fault.On(fault.Inspect, 1, fault.FailBefore(plain)), sdk.Accepted, 1, "mem: on inspect 1: fail before: NOT_APPLIED: boom"},
		{fault.Every(fault.Apply, 1, fault.DropAnswer()), sdk.MutationUnknown, 1, "mem: every 1 of apply: drop the answer"},
		{fault.At("other", fault.FailBefore(plain)), sdk.Accepted, 1, "mem: at other: fail before: NOT_APPLIED: boom"},
		{fault.At(resource, fault.Of(fault.Apply, fault.FailBefore(plain))), sdk.NotApplied, 0, "mem: at a/b: of apply: fail before: NOT_APPLIED: boom"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			inner := memstore.New()
			s := fault.Wrap(inner, tc.fault)
			out, err := s.Apply(t.Context(), admit(1))
			if out.Code != tc.code || (err == nil) != tc.code.Ok() {
				t.Errorf("got %v, %v; want %v", out.Code, err, tc.code)
			}
			if n := landed(t, inner); n != tc.landed {
				t.Errorf("the store is at %d, want %d", n, tc.landed)
			}
			if s.String() != tc.text {
				t.Errorf("prints %q, want %q", s, tc.text)
			}
			if n := s.Calls(fault.Apply); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

func TestHoldEndsWithTheContext(t *testing.T) {
	never := make(chan struct{})
	for _, tc := range []struct {
		fault  fault.Fault
		code   sdk.Code
		landed sdk.Segment
	}{{fault.Hold(never), sdk.NotApplied, 0}, {fault.HoldAnswer(never), sdk.MutationUnknown, 1}} {
		inner := memstore.New()
		ctx, cancel := context.WithCancel(t.Context())
		// Cancelled by the store's own call, so that nothing depends on time.
		s := fault.Wrap(inner, tc.fault)
		if tc.landed == 0 {
			cancel()
		} else {
			s = fault.Wrap(fault.Wrap(inner, fault.Do("cancel after", func(context.Context, *fault.Call) error { go cancel(); return nil })), tc.fault)
		}
		out, err := s.Apply(ctx, admit(1))
		if out.Code != tc.code && !(tc.landed == 1 && out.Code == sdk.NotApplied) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, %v", s, out.Code, err)
		}
		cancel()
	}
}

func TestReadsFail(t *testing.T) {
	s := fault.Wrap(memstore.New(), fault.FailBefore(errors.New("boom")))
	ctx := t.Context()
	_, e1 := s.Inspect(ctx, resource)
	_, e2 := s.Receipt(ctx, resource, "op")
	_, e3 := s.Read(ctx, resource, "k")
	_, e4 := s.Quarantined(ctx, resource)
	for i, err := range []error{e1, e2, e3, e4, s.Probe(ctx)} {
		if sdk.CodeOf(err) != sdk.NotApplied {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestPanic(t *testing.T) {
	s := fault.Wrap(memstore.New(), fault.On(fault.Apply, 2, fault.Panic("adapter bug")))
	if _, err := s.Apply(t.Context(), admit(1)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != "adapter bug" {
			t.Errorf("recovered %v", p)
		}
	}()
	s.Apply(t.Context(), admit(2))
}

func ExampleWrap() {
	s := fault.Wrap(memstore.New(), fault.On(fault.Apply, 1, fault.DropAnswer()))
	out, _ := s.Apply(context.Background(), admit(1))
	fmt.Println(s)
	fmt.Println(out.Code)
	out, _ = s.Apply(context.Background(), admit(1))
	fmt.Println(out.Code)
	// Output:
	// mem: on apply 1: drop the answer
	// MUTATION_UNKNOWN
	// REPLAYED
}
