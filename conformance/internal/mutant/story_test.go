package mutant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// owner is a worker with a grant.
type owner struct {
	r           sdk.ResourceID
	fence       sdk.Token
	root, grant sdk.Digest
	generations sdk.Generations
}

func worker(r sdk.ResourceID, fence sdk.Token) owner {
	name := string(r) + " " + fence.String()
	return owner{r: r, fence: fence, root: sdk.SumDigest([]byte("job " + name)), grant: sdk.SumDigest([]byte("grant " + name)),
		generations: sdk.Generations{Policy: 1, Trust: 1}}
}

func (o owner) do(seg sdk.Segment, op sdk.OperationID, result string, effects ...sdk.Effect) *sdk.Mutation {
	return &sdk.Mutation{Resource: o.r, Operation: op, Fence: o.fence, Segment: seg, Root: o.root, Grant: o.grant, Owner: "w" + o.fence.String(),
		Payload: sdk.PayloadDigest(op, []byte(result), effects), Time: time.UnixMilli(1_700_000_000_123 + int64(seg)).UTC(),
		Effects: effects, Result: []byte(result), Generations: o.generations}
}

func (o owner) put(seg sdk.Segment, op sdk.OperationID, key, value string) *sdk.Mutation {
	return o.do(seg, op, "result of "+string(op), sdk.Put(key, []byte(value)))
}

func (o owner) claim() *sdk.Mutation { return o.do(1, sdk.ClaimID(o.grant), "") }

func (o owner) hooked(seg sdk.Segment, op sdk.OperationID, result string, err error) *sdk.Mutation {
	m := o.do(seg, op, "")
	m.Result, m.Payload = nil, sdk.InputDigest(op, nil)
	m.Hook = func(context.Context, any) ([]byte, error) { return []byte(result), err }
	return m
}

// teller plays the story and writes down all that a caller can see. With
// another telling to hold against it ends at the first difference.
type teller struct {
	ctx    context.Context
	target Target
	a, b   sdk.FencedStore
	lines  []string
	want   []string
}

// different ends a telling.
type different struct{}

// tell plays the story; want is another telling, or nil.
func tell(t *testing.T, target Target, want []string) (lines []string) {
	x := &teller{ctx: t.Context(), target: target, want: want}
	defer func() {
		if p := recover(); p != nil && p != (different{}) {
			panic(p)
		}
		lines = x.lines
	}()
	x.reopen()
	for _, chapter := range []func(*teller){ownership, takeover, numbers, effectsAndLimits, naming, conflict, onceForEver, code, native, seeds,
		lifetimes, contexts, crowd, damage} {
		chapter(x)
	}
	return x.lines
}

func (x *teller) say(format string, args ...any) {
	x.lines = append(x.lines, fmt.Sprintf(format, args...))
}

// safely writes a panic down.
func (x *teller) safely(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			x.say("%s: panic", what)
		}
	}()
	f()
}

func (x *teller) open(o sdk.OpenOptions) sdk.FencedStore {
	s, err := x.target.Open(x.ctx, o)
	x.say("open %q: %v", o.Namespace, sdk.CodeOf(err))
	return s
}

func (x *teller) reopen() {
	for _, s := range []sdk.FencedStore{x.a, x.b} {
		if s != nil {
			x.say("close: %v", sdk.CodeOf(s.Close()))
		}
	}
	x.a, x.b = x.open(sdk.OpenOptions{}), x.open(sdk.OpenOptions{})
	x.say("%+v", x.a.Describe())
	x.say("%+v", x.b.Describe())
}

// both applies m by one handle and again by the other.
func (x *teller) both(m *sdk.Mutation) {
	x.apply(x.a, m)
	x.apply(x.b, m)
}

func (x *teller) apply(s sdk.FencedStore, m *sdk.Mutation) { x.applyIn(x.ctx, s, m) }

func (x *teller) applyIn(ctx context.Context, s sdk.FencedStore, m *sdk.Mutation) {
	what := fmt.Sprintf("%s %s/%s %.40s", m.Resource, m.Fence, m.Segment, m.Operation)
	x.safely(what, func() {
		out, err := s.Apply(ctx, sealed(m))
		inError := sdk.Outcome{}
		if err != nil {
			inError = sdk.Refusal(err)
		}
		x.say("%s: %v %v %v, error %v %v %v %v", what, out.Code, out.Observed, receiptText(out.Receipt), sdk.CodeOf(err),
			inError.Observed, receiptText(inError.Receipt), errors.Is(err, sdk.ErrFenceRegression))
	})
}

func receiptText(r *sdk.Receipt) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *r)
}

// look reads all of a resource by both handles.
func (x *teller) look(r sdk.ResourceID, ops []sdk.OperationID, keys ...string) {
	for _, s := range []sdk.FencedStore{x.a, x.b} {
		x.lookBy(x.ctx, s, r, ops, keys...)
	}
}

func (x *teller) lookBy(ctx context.Context, s sdk.FencedStore, r sdk.ResourceID, ops []sdk.OperationID, keys ...string) {
	x.safely("look", func() {
		state, err := s.Inspect(ctx, r)
		x.say("%.30q: %v %v", r, state, sdk.CodeOf(err))
	})
	for _, op := range ops {
		x.safely("receipt", func() {
			got, err := s.Receipt(ctx, r, op)
			x.say("%.30q of %q: %+v %v", op, r, got, sdk.CodeOf(err))
		})
	}
	for _, k := range keys {
		x.safely("read", func() {
			v, err := s.Read(ctx, r, k)
			x.say("%.30q of %q: %q nil %v %v", k, r, v, v == nil, sdk.CodeOf(err))
			clear(v)
		})
	}
	x.safely("quarantined", func() {
		q, err := s.Quarantined(ctx, r)
		x.say("quarantine of %q: %+v %v", r, q, sdk.CodeOf(err))
	})
}

func ownership(x *teller) {
	r := sdk.ResourceID("s/1")
	o := worker(r, 7)
	ops := []sdk.OperationID{"op-1", "op-2", "op-3", "nothing", "never"}
	x.look(r, ops, "k", "never")
	x.apply(x.a, o.put(2, "early", "k", "0"))
	x.apply(x.a, o.put(1, "op-1", "k", "1"))
	x.look(r, ops, "k")
	x.apply(x.b, o.put(2, "op-2", "k", "2"))
	x.apply(x.b, o.put(2, "op-2", "k", "2"))
	x.look(r, ops, "k")
	x.apply(x.a, o.do(3, "nothing", ""))
	x.look(r, ops)
	x.apply(x.a, o.put(4, "op-3", "k", "3"))
	for _, m := range []*sdk.Mutation{o.put(1, "op-1", "k", "1"), o.put(4, "op-3", "k", "3")} {
		again := *m
		again.Time = m.Time.Add(time.Second)
		x.apply(x.b, &again)
	}
	x.look(r, ops, "k")
	x.both(o.put(7, "ahead", "k", "ahead"))
	x.look(r, []sdk.OperationID{"ahead"}, "k")
	other := o
	other.root = sdk.SumDigest([]byte("another job"))
	for _, seg := range []sdk.Segment{1, 4, 5, 9} {
		x.apply(x.a, other.put(seg, "other-job", "k", "other job"))
	}
	twin := o
	twin.grant = sdk.SumDigest([]byte("twin"))
	for _, seg := range []sdk.Segment{1, 4, 5} {
		x.apply(x.b, twin.put(seg, "twin", "k", "twin"))
	}
	x.apply(x.a, twin.claim())
	x.apply(x.a, o.claim())
	x.look(r, append(ops, "other-job", "twin"), "k")
	x.safely("zero admission", func() {
		out, err := x.a.Apply(x.ctx, sdk.Admission{})
		x.say("zero admission: %v %v", out.Code, sdk.CodeOf(err))
	})
}

func takeover(x *teller) {
	r := sdk.ResourceID("s/2")
	a, b := worker(r, 7), worker(r, 8)
	ops := []sdk.OperationID{"op-1", "op-2", "op-3", "late", sdk.ClaimID(a.grant), sdk.ClaimID(b.grant)}
	x.apply(x.a, a.claim())
	x.apply(x.a, a.claim())
	x.apply(x.a, a.put(2, "op-2", "k", "2"))
	x.apply(x.a, a.put(2, "op-2", "k", "2"))
	x.apply(x.a, a.put(3, "op-3", "k", "3"))
	for _, seg := range []sdk.Segment{2, 4, 5} {
		x.apply(x.b, b.put(seg, "mid-job", "k", "mid-job"))
	}
	x.look(r, ops, "k")
	x.apply(x.b, b.put(1, "op-2", "k", "2"))
	x.apply(x.b, b.put(1, "op-2", "k", "another"))
	x.look(r, ops, "k")
	x.apply(x.b, b.claim())
	x.look(r, ops, "k")
	for _, m := range []*sdk.Mutation{a.put(2, "late", "k", "late"), a.put(1, "late", "k", "late"), a.put(9, "late", "k", "late"), a.claim(),
		a.put(3, "op-3", "k", "3"), a.put(3, "op-3", "k", "clash"), a.do(4, "late", "", sdk.Delete("k")), worker(r, 1).put(1, "late", "k", "late"),
		worker(r, 2).claim()} {
		x.apply(x.a, m)
		x.look(r, ops, "k")
	}
	same := a // the old owner, in the new one's job
	same.root = b.root
	x.apply(x.a, same.put(1, "late", "k", "late"))
	x.apply(x.b, b.put(2, "op-4", "k", "4"))
	x.apply(x.b, b.put(3, "op-5", "k", "5"))
	x.apply(x.b, b.put(4, "op-2", "k", "2"))
	x.apply(x.b, b.put(4, "op-2", "k", "another"))
	x.look(r, ops, "k")
	x.apply(x.b, b.put(4, "op-6", "k", "6"))
	x.apply(x.a, worker(r, 9).put(1, "op-7", "k", "7"))
	x.apply(x.a, worker(r, 9).put(2, "op-8", "k", "8"))
	x.apply(x.a, worker(r, 10).put(1, "op-8", "k", "8"))
	x.apply(x.a, worker(r, 11).put(1, "op-9", "k", "9"))
	x.look(r, append(ops, "op-7", "op-8", "op-9"), "k")
}

func numbers(x *teller) {
	for i, pair := range [][2]sdk.Token{{9, 10}, {99, 100}, {1<<31 - 1, 1 << 31}, {1<<32 - 1, 1 << 32}, {1 << 53, 1<<53 + 1},
		{9_999_999_999, 10_000_000_000}, {1556893286484340854, 1556893286484340855}, {1<<63 - 2, 1<<63 - 1}} {
		r := sdk.ResourceID(fmt.Sprintf("numbers/%d", i))
		low, high := worker(r, pair[0]), worker(r, pair[1])
		x.apply(x.a, low.put(1, "low", "k", "low"))
		x.apply(x.a, high.put(1, "high", "k", "high"))
		x.apply(x.b, low.put(2, "late", "k", "late"))
		x.apply(x.b, low.put(1, "late", "k", "late"))
		x.look(r, []sdk.OperationID{"low", "high", "late"}, "k")
	}
	for i, at := range []sdk.Segment{1 << 32, 1<<53 + 1, sdk.MaxSegment} {
		r := sdk.ResourceID(fmt.Sprintf("segments/%d", i))
		o := worker(r, 7)
		m := o.put(at, "op", "k", "v")
		m.Seed = sdk.FenceState{Highest: 7, Grant: o.grant, Root: o.root, Segment: at - 1, Generations: o.generations}
		x.apply(x.a, m)
		x.look(r, []sdk.OperationID{"op"})
	}
}

func effectsAndLimits(x *teller) {
	r := sdk.ResourceID("s/3")
	o := worker(r, 7)
	var many []sdk.Effect
	var keys []string
	for i := range maxEffects {
		keys = append(keys, fmt.Sprintf("m%d", i))
		many = append(many, sdk.Put(keys[i], fmt.Appendf(nil, "%d", i)))
	}
	x.apply(x.a, o.do(1, "many", "", many...))
	x.apply(x.a, o.do(2, "odd", "\xff\x00 é", sdk.Put("empty", nil), sdk.Put("zero", []byte("a\x00b")), sdk.Put("bytes", []byte("\xff\xfe")), sdk.Put("spaces", []byte(" v  "))))
	x.look(r, []sdk.OperationID{"many", "odd"}, append(keys, "empty", "zero", "bytes", "spaces")...)
	x.apply(x.a, o.do(3, "long", strings.Repeat("long", 2000), sdk.Delete("m1"), sdk.Put("m2", []byte("new")), sdk.Delete("m")))
	x.look(r, []sdk.OperationID{"long"}, keys...)
	full := sdk.Put("full", bytes.Repeat([]byte("v"), maxValue-12))
	x.apply(x.a, o.do(4, "full", "", full))
	over := sdk.Put("over", bytes.Repeat([]byte("v"), maxValue-11))
	x.apply(x.a, o.do(5, "over", "", sdk.Put("good", nil), over, sdk.Put("good-2", nil)))
	x.apply(x.a, o.do(5, "foreign", "", sdk.Put("good", nil), sdk.Effect{Kind: "sql.exec.v1"}))
	x.apply(x.a, o.do(5, "unknown", "", sdk.Put("good", nil), sdk.Effect{Kind: "unknown.v1"}))
	x.look(r, []sdk.OperationID{"full", "over", "foreign", "unknown"}, "full", "over", "good", "good-2")
}

func naming(x *teller) {
	long := strings.Repeat("n", 300)
	names := []string{"a", "A", "a ", "a.", "a*", "a_", "a/b", "a_b", "ab", "é", "e", long + "1", long + "2", "a/b/c", "other/a"}
	for i, n := range names {
		r := sdk.ResourceID("names/x/" + n)
		if r.Validate() != nil {
			panic(n)
		}
		x.apply(x.a, worker(r, sdk.Token(i+1)).put(1, "op", "k", n))
	}
	for _, n := range names {
		x.look(sdk.ResourceID("names/x/"+n), []sdk.OperationID{"op"}, "k")
	}
	x.apply(x.a, worker("names/x", 3).put(1, "a/op", "a/k", "crossing"))
	x.look("names/x/a", []sdk.OperationID{"op"}, "k")
	r := sdk.ResourceID("names/inside")
	o := worker(r, 7)
	inside := []string{"k", "K", "/k", "k/", long + "1", long + "2"}
	for i, n := range inside {
		x.apply(x.a, o.do(sdk.Segment(i+1), sdk.OperationID(n[max(0, len(n)-200):]), n[:1], sdk.Put(n, []byte(n))))
	}
	x.look(r, []sdk.OperationID{"k", "K"}, inside...)
	for _, bad := range []string{"", "names//x", "names/x/", "names/./x", "names/x;", "names/\x00"} {
		x.lookBy(x.ctx, x.a, sdk.ResourceID(bad), []sdk.OperationID{"op", ""}, "k", "")
	}
	for _, ns := range []string{"main.shadow", "another", "Main"} {
		s := x.open(sdk.OpenOptions{Namespace: ns})
		if s == nil {
			continue
		}
		x.apply(s, worker(r, 9).put(1, "shadow", "k", "shadow"))
		x.lookBy(x.ctx, s, r, []sdk.OperationID{"k"}, "k")
		x.say("close: %v", sdk.CodeOf(s.Close()))
	}
	x.look(r, []sdk.OperationID{"shadow"}, "k")
}
