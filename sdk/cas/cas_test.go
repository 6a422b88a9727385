package cas_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/cas"
)

const resource sdk.ResourceID = "invoice/42"

func TestConformance(t *testing.T) {
	b := newBucket()
	conformance.Run(t, conformance.Harness{Name: "bucket",
		Open: func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
			s, err := b.open(ctx, o)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Damage: func(ctx context.Context, r sdk.ResourceID) error { return b.Remove(ctx, cas.HeadName("main", r)) },
	}, &conformance.Options{Profile: conformance.Quick, Schedules: 300})
}

func open(t testing.TB, b *bucket) *cas.Store {
	t.Helper()
	s, err := b.open(t.Context(), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mutation(fence sdk.Token, segment int, op string, effects ...sdk.Effect) *sdk.Mutation {
	id := sdk.OperationID(op)
	return &sdk.Mutation{Resource: resource, Operation: id, Fence: fence, Segment: sdk.Segment(segment), Owner: "w",
		Root: sdk.SumDigest([]byte("root")), Grant: sdk.SumDigest([]byte(fence.String())),
		Payload: sdk.PayloadDigest(id, nil, effects), Effects: effects}
}

func apply(t testing.TB, s sdk.FencedStore, m *sdk.Mutation, want sdk.Code) sdk.Outcome {
	t.Helper()
	out, err := s.Apply(t.Context(), sdk.NewAdmission(seal.Cut(), m))
	if out.Code != want || (err == nil) != want.Ok() {
		t.Fatalf("%s: %v, %v; want %v", m.Operation, out.Code, err, want)
	}
	return out
}

// Steady state: one PutIf and nothing else; with receipts in the archive too.
func TestRoundTrips(t *testing.T) {
	b := newBucket()
	s := open(t, b)
	const all = 2000
	extra := 0
	for i := 1; i <= all; i++ {
		before, puts := b.count("get", "putif", "putnew", "list"), b.count("putnew")
		apply(t, s, mutation(1, i, "op-"+strconv.Itoa(i), sdk.Put("k", []byte("v"))), sdk.Accepted)
		sealed := b.count("putnew") != puts
		if n := b.count("get", "putif", "putnew", "list") - before; n != 1 && i > 2 && !sealed {
			extra++
		}
	}
	// A new operation meets another's fingerprint once in a while, and a bucket is
	// read in vain.
	if extra > all/100 {
		t.Errorf("%d of %d writes took more than one round trip", extra, all)
	}
	if n := len(b.objects[cas.HeadName("main", resource)].body); n > 64<<10 {
		t.Errorf("after %d receipts the head has %d bytes", all, n)
	}
	// Another handle: head and directory, then as steady.
	other := open(t, b)
	before := b.count("get")
	apply(t, other, mutation(2, 1, "takeover"), sdk.Accepted)
	if n := b.count("get") - before; n > 3 {
		t.Errorf("the first write after a takeover took %d reads", n)
	}
	for _, i := range []int{1, 2, 17, 500, 1999, 2000} {
		op := "op-" + strconv.Itoa(i)
		if r, err := other.Receipt(t.Context(), resource, sdk.OperationID(op)); err != nil || r.Segment != sdk.Segment(i) {
			t.Errorf("%s: %+v, %v", op, r, err)
		}
		apply(t, other, mutation(2, 2, op, sdk.Put("k", []byte("v"))), sdk.AlreadyApplied)
	}
	if _, err := other.Receipt(t.Context(), resource, "never"); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("an operation that never was: %v", err)
	}
}

var errLost = errors.New("connection reset")

// The answer to the swap is lost. The kit finds out by the head what became of
// it, whatever that was.
func TestLostAnswers(t *testing.T) {
	for _, first := range []bool{true, false} {
		for name, tc := range map[string]struct {
			landed bool
			want   sdk.Code
		}{"landed": {true, sdk.Accepted}, "did not land": {false, sdk.MutationUnknown}} {
			t.Run(fmt.Sprintf("%s, first %v", name, first), func(t *testing.T) {
				b := newBucket()
				s := open(t, b)
				segment := 1
				if !first {
					apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
					segment = 2
				}
				lose := func(name string) error {
					if strings.Contains(name, "/head/") {
						return errLost
					}
					return nil
				}
				if tc.landed {
					b.after = lose
				} else {
					b.before = lose
				}
				m := mutation(1, segment, "op", sdk.Put("k", []byte("v")))
				apply(t, s, m, tc.want)
				b.before, b.after = nil, nil
				again := sdk.Replayed
				if !tc.landed {
					again = sdk.Accepted
				}
				apply(t, s, m, again)
			})
		}
	}
}

// The answer is lost and another writer goes on at once: the attempt landed
// below it, or can never land.
func TestLostAnswerThenAnotherWriter(t *testing.T) {
	for _, landed := range []bool{true, false} {
		b := newBucket()
		s, other := open(t, b), open(t, b)
		apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
		once := false
		lose := func(name string) error {
			if once || !strings.Contains(name, "/head/") {
				return nil
			}
			once = true
			b.mu.Unlock()
			defer b.mu.Lock()
			segment := 2
			if landed {
				segment = 3
			}
			apply(t, other, mutation(1, segment, "other"), sdk.Accepted)
			return errLost
		}
		want := sdk.Replayed
		if landed {
			b.after = lose
		} else {
			b.before = lose
			want = sdk.Quarantined // its segment went to the other
		}
		apply(t, s, mutation(1, 2, "op"), want)
	}
}

// C3: parts are never removed while an unknown outcome may still commit them.
func TestCleanUp(t *testing.T) {
	b := newBucket()
	s := open(t, b)
	big := func(c byte) sdk.Effect { return sdk.Put("big", bytes.Repeat([]byte{c}, 100_000)) }
	apply(t, s, mutation(1, 1, "op-1", big('a')), sdk.Accepted)
	apply(t, s, mutation(1, 2, "op-2", big('b')), sdk.Accepted)
	if n := len(b.names("/part/")); n != 2 {
		t.Fatalf("%d parts", n)
	}
	// A third attempt stages its part; its swap is on the way.
	var held func()
	b.before = func(name string) error {
		if !strings.Contains(name, "/head/") {
			return nil
		}
		b.before = nil
		b.mu.Unlock()
		held()
		b.mu.Lock()
		return nil
	}
	held = func() {
		n, err := s.CleanUp(t.Context(), resource, b)
		if err != nil || n != 1 {
			t.Errorf("removed %d, %v; want the part of op-1 alone", n, err)
		}
	}
	apply(t, s, mutation(1, 3, "op-3", big('c')), sdk.Accepted)
	if v, err := s.Read(t.Context(), resource, "big"); err != nil || v[0] != 'c' || len(v) != 100_000 {
		t.Errorf("%d bytes, %v", len(v), err)
	}
	if n, err := s.CleanUp(t.Context(), resource, b); err != nil || n != 1 {
		t.Errorf("removed %d, %v", n, err)
	}
	for i := 4; i < 200; i++ {
		apply(t, s, mutation(1, i, "op-"+strconv.Itoa(i)), sdk.Accepted)
	}
	if _, err := s.CleanUp(t.Context(), resource, b); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 200; i++ {
		if _, err := s.Receipt(t.Context(), resource, sdk.OperationID("op-"+strconv.Itoa(i))); err != nil {
			t.Fatalf("receipt %d after the clean-up: %v", i, err)
		}
	}
}

// A part that something else removed is an error, never 'there is none'.
func TestMissingPart(t *testing.T) {
	b := newBucket()
	s := open(t, b)
	for i := 1; i < 100; i++ {
		apply(t, s, mutation(1, i, "op-"+strconv.Itoa(i)), sdk.Accepted)
	}
	for _, name := range b.names("/part/") {
		b.Remove(t.Context(), name)
	}
	fresh := open(t, b)
	if _, err := fresh.Receipt(t.Context(), resource, "op-1"); sdk.CodeOf(err) != sdk.Unsuitable {
		t.Errorf("a receipt whose bucket is gone: %v", err)
	}
	if _, err := fresh.Receipt(t.Context(), resource, "op-99"); err != nil {
		t.Errorf("a receipt in the head: %v", err)
	}
	apply(t, fresh, mutation(2, 1, "new"), sdk.Unsuitable)
}

// Damaged objects are UNSUITABLE, never a fence of 0.
func TestDamagedHead(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"empty":     func(string) string { return "" },
		"null":      func(string) string { return "null" },
		"no fence":  func(h string) string { return strings.Replace(h, `"highest":"7"`, `"highest":""`, 1) },
		"fence 0":   func(h string) string { return strings.Replace(h, `"highest":"7"`, `"highest":"0"`, 1) },
		"fence 1.0": func(h string) string { return strings.Replace(h, `"highest":"7"`, `"highest":"1.0"`, 1) },
		"negative":  func(h string) string { return strings.Replace(h, `"highest":"7"`, `"highest":"-7"`, 1) },
		"too high": func(h string) string {
			return strings.Replace(h, `"highest":"7"`, `"highest":"9223372036854775808"`, 1)
		},
		"number":           func(h string) string { return strings.Replace(h, `"highest":"7"`, `"highest":7`, 1) },
		"twice":            func(h string) string { return strings.Replace(h, `"highest":"7"`, `"highest":"9","highest":"7"`, 1) },
		"another schema":   func(h string) string { return strings.Replace(h, "head.v1", "head.v2", 1) },
		"another resource": func(h string) string { return strings.Replace(h, "invoice/42", "invoice/43", 1) },
		"no nonce":         func(h string) string { return strings.Replace(h, `"nonce":"`, `"nonce":"x`, 1) },
	} {
		b := newBucket()
		apply(t, open(t, b), mutation(7, 1, "op"), sdk.Accepted)
		head := cas.HeadName("main", resource)
		o := b.objects[head]
		bad := change(string(o.body))
		if bad == string(o.body) {
			t.Fatalf("%s: nothing changed in %s", name, o.body)
		}
		b.objects[head] = object{[]byte(bad), "x"}
		s := open(t, b)
		if st, err := s.Inspect(t.Context(), resource); sdk.CodeOf(err) != sdk.Unsuitable {
			t.Errorf("%s: Inspect says %+v, %v", name, st, err)
		}
		apply(t, s, mutation(8, 1, "op-2"), sdk.Unsuitable)
	}
}

// The first head is answered for only once its marker is there; who finds a head
// without one writes it first.
func TestMarker(t *testing.T) {
	b := newBucket()
	s := open(t, b)
	b.before = func(name string) error {
		if strings.Contains(name, "/marker/") {
			return sdk.Errorf(sdk.NotApplied, "", "no permission")
		}
		return nil
	}
	apply(t, s, mutation(1, 1, "op-1"), sdk.MutationUnknown)
	apply(t, s, mutation(1, 2, "op-2"), sdk.NotApplied)
	b.before = nil
	apply(t, open(t, b), mutation(1, 2, "op-2"), sdk.Accepted)
	if n := len(b.names("/marker/")); n != 1 {
		t.Errorf("%d markers", n)
	}
	b.Remove(t.Context(), cas.HeadName("main", resource))
	apply(t, s, mutation(5, 1, "op-3"), sdk.FenceRegression)
}
