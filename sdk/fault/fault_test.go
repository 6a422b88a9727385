package fault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		{fault.FailAfter(nil), sdk.MutationUnknown, 1, "mem: fail after: a fault after the call"},
		{fault.FailAfter(plain), sdk.MutationUnknown, 1, "mem: fail after: boom"},
		{fault.FailAfter(sdk.Errorf(sdk.NotApplied, "", "a lie")), sdk.NotApplied, 1, "mem: fail after: NOT_APPLIED: a lie"},
		{fault.DropAnswer(), sdk.MutationUnknown, 1, "mem: drop the answer"},
		{fault.Hold(closed), sdk.Accepted, 1, "mem: hold"},
		{fault.HoldAnswer(closed), sdk.Accepted, 1, "mem: hold the answer"},
		{fault.Do("nothing", func(context.Context, *fault.Call) error { return nil }), sdk.Accepted, 1, "mem: nothing"},
		{fault.Do("fail", func(context.Context, *fault.Call) error { return plain }), sdk.NotApplied, 0, "mem: fail"},
		{fault.On(fault.Apply, 2, fault.DropAnswer()), sdk.Accepted, 1, "mem: on apply 2: drop the answer"},
		{fault.On(fault.Inspect, 1, fault.FailBefore(plain)), sdk.Accepted, 1, "mem: on inspect 1: fail before: NOT_APPLIED: boom"},
		{fault.Every(fault.Apply, 1, fault.DropAnswer()), sdk.MutationUnknown, 1, "mem: every 1 of apply: drop the answer"},
		{fault.Every(fault.Apply, 0, fault.DropAnswer()), sdk.Accepted, 1, "mem: every 0 of apply: drop the answer"},
		{fault.First(fault.Apply, 1, fault.DropAnswer()), sdk.MutationUnknown, 1, "mem: first 1 of apply: drop the answer"},
		{fault.Fault{}, sdk.Accepted, 1, "mem: nothing"},
		{fault.At(resource, fault.Fault{}), sdk.Accepted, 1, "mem: at a/b: nothing"},
		{fault.When("operation op-1", func(c *fault.Call) bool { return c.Mutation.Operation == "op-1" }, fault.DropAnswer()), sdk.MutationUnknown, 1, "mem: operation op-1: drop the answer"},
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

// after calls f once an apply has returned.
type after struct {
	sdk.FencedStore
	f func()
}

func (a after) Apply(ctx context.Context, m sdk.Admission) (sdk.Outcome, error) {
	defer a.f()
	return a.FencedStore.Apply(ctx, m)
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
		if tc.landed == 0 {
			cancel()
		}
		s := fault.Wrap(after{inner, cancel}, tc.fault)
		out, err := s.Apply(ctx, admit(1))
		if out.Code != tc.code || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, %v", s, out.Code, err)
		}
		if n := landed(t, inner); n != tc.landed {
			t.Errorf("%s: the store is at %d, want %d", s, n, tc.landed)
		}
	}
}

func TestHoldLetsOneThroughForEachValue(t *testing.T) {
	gate := make(chan struct{})
	inner := memstore.New()
	s := fault.Wrap(inner, fault.Of(fault.Apply, fault.Hold(gate)))
	done := make(chan sdk.Code)
	for n := 1; n <= 2; n++ {
		go func() {
			out, _ := s.Apply(t.Context(), admit(n))
			done <- out.Code
		}()
		if got := landed(t, inner); got != sdk.Segment(n-1) {
			t.Errorf("the store is at %d while call %d is held", got, n)
		}
		gate <- struct{}{}
		if c := <-done; c != sdk.Accepted {
			t.Errorf("call %d: %v", n, c)
		}
	}
}

// What the store answers comes through as it is, whatever the type of its
// error.
func TestAnswersPassThrough(t *testing.T) {
	s := fault.Wrap(memstore.New(), fault.On(fault.Apply, 9, fault.DropAnswer()), fault.Do("nothing", func(context.Context, *fault.Call) error { return nil }))
	if _, err := s.Apply(t.Context(), admit(1)); err != nil {
		t.Fatal(err)
	}
	out, err := s.Apply(t.Context(), admit(3))
	var e *sdk.Error
	if out.Code != sdk.SegmentSkipped || !errors.As(err, &e) || e != err || out.Observed.Segment != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	odd := fault.Wrap(odd{memstore.New()}, fault.Of(fault.Inspect, fault.DropAnswer()))
	if _, err := odd.Apply(t.Context(), admit(1)); !errors.As(err, &uncomparable{}) {
		t.Errorf("%v", err)
	}
	if d := s.Describe(); d.Name != "mem" {
		t.Errorf("%+v", d)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Apply(t.Context(), admit(2)); sdk.CodeOf(err) != sdk.Closed {
		t.Errorf("after Close: %v", err)
	}
}

type odd struct{ sdk.FencedStore }

type uncomparable []string

func (uncomparable) Error() string { return "odd" }

func (odd) Apply(context.Context, sdk.Admission) (sdk.Outcome, error) {
	return sdk.Outcome{}, uncomparable{"odd"}
}

func TestSelection(t *testing.T) {
	var seen []string
	note := func(c *fault.Call) bool {
		seen = append(seen, fmt.Sprintf("%s %d/%d", c.Method, c.N, c.OfResource))
		return false
	}
	s := fault.Wrap(memstore.New(), fault.When("note", note, fault.DropAnswer()))
	ctx := t.Context()
	s.Apply(ctx, admit(1))
	s.Apply(ctx, sdk.Admission{})
	s.Apply(ctx, admit(2))
	s.Inspect(ctx, resource)
	s.Inspect(ctx, "other")
	s.Inspect(ctx, resource)
	s.Probe(ctx)
	want := []string{"apply 1/1", "apply 2/0", "apply 3/2", "inspect 1/1", "inspect 2/1", "inspect 3/2", "probe 1/0"}
	if !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}

// The first fault is the outermost, and each that matches does its part.
func TestComposition(t *testing.T) {
	inner := memstore.New()
	s := fault.Wrap(fault.Wrap(inner, fault.DropAnswer()), fault.On(fault.Apply, 1, fault.FailBefore(nil)), fault.On(fault.Apply, 1, fault.Panic("never reached")))
	if out, _ := s.Apply(t.Context(), admit(1)); out.Code != sdk.NotApplied || landed(t, inner) != 0 {
		t.Errorf("first: %v", out.Code)
	}
	if out, _ := s.Apply(t.Context(), admit(1)); out.Code != sdk.MutationUnknown || landed(t, inner) != 1 {
		t.Errorf("second: %v", out.Code)
	}
	const want = "mem: drop the answer: on apply 1: fail before: NOT_APPLIED: a fault before the call; on apply 1: panic: never reached"
	if s.String() != want {
		t.Errorf("prints %q", s)
	}
	if got := fault.Wrap(inner).String(); got != "mem: no faults" {
		t.Errorf("prints %q", got)
	}
}

// A read that fails, before or after, is NOT_APPLIED: the store could not be
// asked. Its answer is zero.
func TestReadsFail(t *testing.T) {
	ctx := t.Context()
	for _, f := range []fault.Fault{fault.FailBefore(errors.New("boom")), fault.FailAfter(errors.New("boom")), fault.DropAnswer()} {
		inner := memstore.New()
		if _, err := inner.Apply(ctx, admit(1)); err != nil {
			t.Fatal(err)
		}
		s := fault.Wrap(inner, f)
		state, e1 := s.Inspect(ctx, resource)
		receipt, e2 := s.Receipt(ctx, resource, "op-1")
		_, e3 := s.Read(ctx, resource, "k")
		_, e4 := s.Quarantined(ctx, resource)
		for i, err := range []error{e1, e2, e3, e4, s.Probe(ctx)} {
			if sdk.CodeOf(err) != sdk.NotApplied {
				t.Errorf("%s: %d: %v", s, i, err)
			}
		}
		if !state.Absent() || receipt.Operation != "" {
			t.Errorf("%s: %v, %v beside an error", s, state, receipt)
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

func TestPanicAfter(t *testing.T) {
	inner := memstore.New()
	s := fault.Wrap(inner, fault.PanicAfter("died"))
	func() {
		defer func() {
			if p := recover(); p != "died" {
				t.Errorf("recovered %v", p)
			}
		}()
		s.Apply(t.Context(), admit(1))
	}()
	if n := landed(t, inner); n != 1 {
		t.Errorf("the store is at %d, want 1", n)
	}
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
