package conformance

import (
	"context"
	"fmt"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

func apartCases() []Case {
	return []Case{
		{ID: "apart/many-resources", Law: sdk.F12, Run: apartMany,
			Explain: "Forty resources are written to at the same time, each under its own fence, from two handles; each has exactly its own fence, receipts and values."},
		{ID: "apart/awkward-names", Law: sdk.F12, Run: apartNames,
			Explain: "Names that differ in case, in one odd character, that are prefixes of each other, that look alike, or that are as long as can be: each is a resource of its own, with its own fence and keys."},
		{ID: "apart/awkward-keys-and-operations", Law: sdk.F12, Run: apartKeys,
			Explain: "Keys and operation IDs with every odd character, prefixes of each other, look-alikes and full length are kept apart inside one resource, and between two."},
		{ID: "apart/key-does-not-cross", Law: sdk.F12, Run: apartBoundary,
			Explain: "Resource a with key b/c and resource a/b with key c are two things."},
		{ID: "apart/shadow-namespace", Law: sdk.F12, Run: apartShadow,
			Explain: "What shadow mode writes, in the namespace beside the store's own, moves no fence, value or receipt of the store itself, and the other way round. Another namespace is UNSUITABLE: a resource has one fence."},
		{ID: "apart/one-blocks-no-other", Law: sdk.F12, Needs: []sdk.Capability{sdk.CapApplyTx}, Run: apartBlocked, without: hookUnsupported,
			Explain: "While caller's code stands still inside the transaction of one resource, another resource can be read, and written where the store locks by resource; a call that has to wait ends with its context."},
		{ID: "apart/native-scope", Law: sdk.F12, Needs: []sdk.Capability{sdk.CapNativeEffects}, Run: apartNative, without: nativeUnsupported,
			Explain: "Native effects are refused without a scope function and outside it, and applied once inside it, together with the receipt."},
		{ID: "monotonic/native-own-tables", Law: sdk.F7, Needs: []sdk.Capability{sdk.CapNativeEffects}, Run: nativeOwn, without: nativeUnsupported,
			Explain: "Native effects that name the adapter's own tables or keys, or control the transaction, are INVALID whatever the scope function says, and change nothing."},
	}
}

func apartMany(ctx context.Context, c *C) {
	const n = 40
	hs := []*handle{c.handle(ctx, 0), c.handle(ctx, 1)}
	rs := make([]sdk.ResourceID, n)
	for i := range rs {
		rs[i] = c.resource()
	}
	ownerAt := func(i int) owner { return ownerOf(rs[i], sdk.Token(1000-i), "") }
	c.spread(ctx, n, n, func(i int) {
		o := ownerAt(i)
		for seg := sdk.Segment(1); seg <= sdk.Segment(1+i%4); seg++ {
			c.accept(ctx, hs[i%2], o.put(seg, sdk.OperationID("op-"+seg.String()), "k", fmt.Sprintf("%d at %s", i, seg)))
		}
	})
	for i := range rs {
		o, last := ownerAt(i), sdk.Segment(1+i%4)
		h := hs[(i+1)%2]
		c.wantState(ctx, h, rs[i], o.state(last))
		c.wantValue(ctx, h, rs[i], "k", fmt.Appendf(nil, "%d at %s", i, last))
		c.wantReceipt(ctx, h, o.put(last, sdk.OperationID("op-"+last.String()), "k", fmt.Sprintf("%d at %s", i, last)))
		c.wantNoReceipt(ctx, h, rs[i], sdk.OperationID("op-"+(last+1).String()))
		c.wantQuarantine(ctx, h, rs[i])
	}
}

// awkward are texts that stores confuse: by case, by prefix, by separator, by
// collation, by wildcard, by look.
func awkward() []string {
	out := []string{
		"a", "A", "a ", " a", "aa", "a.", "a-", "a_", "a:", "a,", "a+", "a=", "a@", "a!", "a$", "a&", "a'", "a\"", "a*", "a|", "a~", "a^", "a`",
		"a(", "a)", "a[", "a]", "a{", "a}", "a<", "a>", "a/b", "a/B", "a/b/c", "ab", "ab/c", "a.b", "a:b", "a_b", "a-b", "a b", "a|b", "a+b", "a,b", "a~b", "a__b", "a--b", "a_b/c", "a/b_c", "a_b_c", "...", ". .", "0", "00", "0.0", "1e3", "1000",
		"null", "NULL", "nil", "true", "true ", "é", "e", "É", "è", "ß", "ss", "ı", "i", "I", "İ", "а" /* Cyrillic */, "ａ" /* full width */, "ﬀ", "ff",
		"日本", "日", "本", "😀", "😁", "a\u200b", "a\u00a0", "\u202ea", "ǆ", "ǅ", "x'; DROP TABLE t--", "x' OR '1'='1", "${a}", "{{a}}", "-a", "--a", "~", "fencedstore", "main",
	}
	return out
}

func apartNames(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	base := string(c.resource())
	var names []sdk.ResourceID
	for _, a := range awkward() {
		names = append(names, sdk.ResourceID(base+"/"+a))
	}
	full := base + "/" + long("é", sdk.MaxResourceBytes)
	full = strings.ToValidUTF8(full[:sdk.MaxResourceBytes-1], "")
	for _, end := range []string{"x", "y", "X"} {
		names = append(names, sdk.ResourceID(long(full, len(full))+end))
	}
	names = append(names, sdk.ResourceID(base), sdk.ResourceID(base+"/"+long("d/", 200)+"d"))
	var valid []sdk.ResourceID
	for _, r := range names {
		if r.Validate() == nil {
			valid = append(valid, r)
		}
	}
	value := func(i int) string { return fmt.Sprintf("value %d", i) }
	c.spread(ctx, len(valid), 16, func(i int) {
		o := ownerOf(valid[i], sdk.Token(i+1), "")
		c.accept(ctx, h, o.put(1, "op", "k", value(i)))
	})
	for i, r := range valid {
		o := ownerOf(r, sdk.Token(i+1), "")
		c.wantState(ctx, other, r, o.state(1))
		c.wantValue(ctx, other, r, "k", []byte(value(i)))
		c.wantReceipt(ctx, other, o.put(1, "op", "k", value(i)))
	}
	c.figure("names", int64(len(valid)))
}

func apartKeys(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	o := ownerOf(r, 7, "")
	texts := append(awkward(), "/", "//", "/a", "a/", ".", "..", "a%", "a\\", "a?", "a#", "a;", "a%00", "%", "_", "e\u0301", long("k", 255)+"x", long("k", 255)+"y")
	var ms []*sdk.Mutation
	for i, t := range texts {
		m := o.mutation(sdk.Segment(i+1), sdk.OperationID(t), []byte(t), sdk.Put(t, []byte(t)))
		c.accept(ctx, h, m)
		ms = append(ms, m)
	}
	for i, m := range ms {
		c.wantReceipt(ctx, other, m)
		c.wantValue(ctx, other, r, texts[i], []byte(texts[i]))
	}
	longest := []string{long("key", sdk.MaxKeyBytes-1) + "1", long("key", sdk.MaxKeyBytes-1) + "2"}
	seg := sdk.Segment(len(ms) + 1)
	c.accept(ctx, h, o.mutation(seg, "long keys", nil, sdk.Put(longest[0], []byte("1")), sdk.Put(longest[1], []byte("2"))))
	c.wantValue(ctx, other, r, longest[0], []byte("1"))
	c.wantValue(ctx, other, r, longest[1], []byte("2"))
	// Deleting one leaves its look-alikes.
	c.accept(ctx, h, o.mutation(seg+1, "delete", nil, sdk.Delete("a"), sdk.Delete("é")))
	for i, t := range texts {
		if t == "a" || t == "é" {
			c.wantValue(ctx, other, r, t, nil)
		} else if i%3 == 0 {
			c.wantValue(ctx, other, r, t, []byte(t))
		}
	}
}

func apartBoundary(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	base := c.resource()
	type at struct {
		r   sdk.ResourceID
		key string
	}
	all := []at{{base + "/a", "b/c"}, {base + "/a/b", "c"}, {base + "/a/b/c", "k"}, {base + "/a", "b"}, {base, "a/b/c"}, {base + "/a/b", "/c"}}
	next := map[sdk.ResourceID]sdk.Segment{}
	for i, x := range all {
		next[x.r]++
		c.accept(ctx, h, ownerOf(x.r, 7, "").put(next[x.r], sdk.OperationID(fmt.Sprintf("op-%d", i)), x.key, fmt.Sprint(i)))
	}
	for i, x := range all {
		c.wantValue(ctx, h, x.r, x.key, fmt.Appendf(nil, "%d", i))
		c.wantState(ctx, h, x.r, ownerOf(x.r, 7, "").state(next[x.r]))
	}
	c.wantNoReceipt(ctx, h, base+"/a", "op-1")
	c.wantNoReceipt(ctx, h, base, "op-0")
}

func apartShadow(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	shadow := c.fresh(ctx, sdk.OpenOptions{Namespace: sdk.ShadowNamespace("")})
	r := c.resource()
	a, b := ownerOf(r, 7, ""), ownerOf(r, 8, "")
	own, seen := a.put(1, "op-1", "k", "own"), b.put(1, "op-1", "k", "seen")
	c.accept(ctx, h, own)
	c.wantState(ctx, shadow, r, sdk.FenceState{})
	c.wantValue(ctx, shadow, r, "k", nil)
	c.accept(ctx, shadow, seen)
	c.accept(ctx, shadow, b.put(2, "op-2", "k", "seen too"))
	c.wantState(ctx, h, r, a.state(1))
	c.wantReceipt(ctx, h, own)
	c.wantNoReceipt(ctx, h, r, "op-2")
	c.wantValue(ctx, h, r, "k", []byte("own"))
	c.accept(ctx, h, a.put(2, "op-2", "k", "own"))
	c.wantState(ctx, shadow, r, b.state(2))
	for _, name := range []string{"another", "another.shadow"} {
		s, err := c.e.h.Open(ctx, sdk.OpenOptions{Namespace: name})
		c.touch()
		if err == nil {
			closeQuietly(s)
		}
		c.wantCode("opening with namespace "+name, err, sdk.Unsuitable)
	}
	for _, name := range []string{"Main", "a b", ".shadow", "main.shadow.shadow", long("n", 65)} {
		s, err := c.e.h.Open(ctx, sdk.OpenOptions{Namespace: name})
		c.touch()
		if err == nil {
			closeQuietly(s)
		}
		c.wantCode("opening with namespace "+clip(name), err, sdk.Invalid)
	}
}

func apartBlocked(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r, free := c.resource(), c.resource()
	o := ownerOf(free, 7, "")
	first := o.put(1, "op-1", "k", "1")
	c.accept(ctx, h, first)
	c.held(ctx, h, r, func() bool {
		c.prompt(ctx, "reading another resource", func(ctx context.Context) error {
			_, err := other.inspect(ctx, free)
			if err == nil {
				_, err = other.receipt(ctx, free, "op-1")
			}
			if err == nil {
				_, err = other.read(ctx, free, "k")
			}
			return err
		})
		// A store with one writer at a time makes others wait, and says so when
		// their contexts end; its verdict of another resource never changes.
		waiting, cancel := context.WithTimeout(ctx, c.patience()/40)
		defer cancel()
		out, err := other.apply(waiting, o.put(2, "op-2", "k", "2"))
		switch out.Code {
		case sdk.Accepted, sdk.NotApplied, sdk.MutationUnknown:
		default:
			c.errorf("ACCEPTED, or NOT_APPLIED or MUTATION_UNKNOWN when its context ended", "%s", describeAnswer(out, err))
		}
		if out.Code == sdk.Accepted {
			c.figure("another resource was written meanwhile", 1)
		}
		return false
	})
	out, err := other.settle(ctx, o.put(2, "op-2", "k", "2"), sdk.Accepted)
	if !out.Code.Ok() {
		c.errorf("ACCEPTED or REPLAYED once the first resource is free", "%s", describeAnswer(out, err))
	}
	c.wantState(ctx, h, free, o.state(2))
}

func apartNative(ctx context.Context, c *C) {
	r, n := c.native()
	h := c.handle(ctx, 0)
	scoped := c.fresh(ctx, sdk.OpenOptions{Scope: n.Scope})
	o := ownerOf(r, 7, "")
	count := c.counter(ctx, n)
	refused := func(st *handle, what string, e sdk.Effect) {
		before := count()
		out, err := st.apply(ctx, o.mutation(1, "op-1", nil, sdk.Put("k", []byte("1")), e))
		if out.Code != sdk.Invalid {
			c.errorf("INVALID", "%s: %s", what, describeAnswer(out, err))
		}
		if got := count(); got != before {
			c.errorf("nothing applied", "%s: applied %d times", what, got-before)
		}
		c.wantState(ctx, h, r, sdk.FenceState{})
		c.wantNoReceipt(ctx, h, r, "op-1")
		c.wantValue(ctx, h, r, "k", nil)
	}
	refused(h, "a native effect without a scope function", n.Inside)
	refused(scoped, "a native effect outside the scope", n.Outside)
	m := o.mutation(1, "op-1", nil, sdk.Put("k", []byte("1")), n.Inside)
	before := count()
	c.accept(ctx, scoped, m)
	c.again(ctx, scoped, m)
	c.refuse(ctx, scoped, o.mutation(2, "op-1", nil, m.Effects...), sdk.AlreadyApplied, o.state(1), ptr(receiptOf(m)))
	c.expect(ctx, scoped, o.mutation(1, "op-2", nil, n.Inside), sdk.Quarantined)
	c.expect(ctx, scoped, ownerOf(r, 6, "").mutation(1, "op-3", nil, n.Inside), sdk.StaleOwner)
	if got := count() - before; got != 1 {
		c.errorf("applied once", "applied %d times", got)
	}
	c.wantReceipt(ctx, h, m)
	c.wantValue(ctx, h, r, "k", []byte("1"))
}

func nativeOwn(ctx context.Context, c *C) {
	r, n := c.native()
	if len(n.Own) == 0 {
		c.notProven("the harness's Native names no effects on the adapter's own tables or keys")
	}
	anything := c.fresh(ctx, sdk.OpenOptions{Scope: func(sdk.ResourceID, sdk.Effect) error { return nil }})
	o := ownerOf(r, 7, "")
	c.accept(ctx, anything, o.put(1, "op-1", "k", "1"))
	before := c.view(ctx, anything, r, []sdk.OperationID{"op-1", "op-2"}, []string{"k"})
	for _, e := range n.Own {
		out, err := anything.apply(ctx, o.mutation(2, "op-2", nil, e))
		if out.Code != sdk.Invalid {
			c.errorf("INVALID", "%s for %s", describeAnswer(out, err), showBytes(e.Body))
		}
		c.unchanged(before, c.view(ctx, anything, r, []sdk.OperationID{"op-1", "op-2"}, []string{"k"}), showBytes(e.Body))
	}
	c.accept(ctx, anything, o.put(2, "op-2", "k", "2"))
	c.figure("effects", int64(len(n.Own)))
}

func atomicNative(ctx context.Context, c *C) {
	r, n := c.native()
	if n.Failing.Kind == "" {
		c.notProven("the harness's Native has no effect that the store refuses to carry out")
	}
	h := c.fresh(ctx, sdk.OpenOptions{Scope: n.Scope})
	o := ownerOf(r, 7, "")
	count := c.counter(ctx, n)
	before := count()
	out, err := h.apply(ctx, o.mutation(1, "op-1", nil, sdk.Put("k", []byte("1")), n.Inside, n.Failing, sdk.Put("l", []byte("1"))))
	if !out.Code.Refused() {
		c.errorf("INVALID or NOT_APPLIED", "%s", describeAnswer(out, err))
	}
	if got := count() - before; got != 0 {
		c.errorf("nothing applied", "the effect before the failing one was applied %d times", got)
	}
	c.wantState(ctx, h, r, sdk.FenceState{})
	c.wantNoReceipt(ctx, h, r, "op-1")
	c.wantValue(ctx, h, r, "k", nil)
	c.wantValue(ctx, h, r, "l", nil)
	c.accept(ctx, h, o.mutation(1, "op-1", nil, n.Inside))
	if got := count() - before; got != 1 {
		c.errorf("applied once", "applied %d times", got)
	}
}

// native asks the harness for effects at a fresh resource.
func (c *C) native() (sdk.ResourceID, Native) {
	if c.e.h.Native == nil {
		c.notProven("the harness has no Native: no native effect can be tried")
	}
	r := c.resource()
	return r, c.e.h.Native(r)
}

func (c *C) counter(ctx context.Context, n Native) func() int {
	return func() int {
		got, err := n.Count(ctx)
		c.touch()
		if err != nil {
			c.fatalf("a count", "the harness's Native.Count: %v", err)
		}
		return got
	}
}

// nativeUnsupported is the other side of native_effects.
func nativeUnsupported(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	anything := c.fresh(ctx, sdk.OpenOptions{Scope: func(sdk.ResourceID, sdk.Effect) error { return nil }})
	for _, st := range []*handle{h, anything} {
		for _, kind := range []string{"sql.exec.v1", "conformance.native.v1"} {
			m := ownerOf(r, 7, "").mutation(1, "op-1", nil, sdk.Put("k", []byte("1")), sdk.Effect{Kind: kind, Body: []byte("{}")})
			c.expect(ctx, st, m, sdk.Unsupported)
		}
	}
	for _, k := range c.Description().Kinds {
		if !portable(k) {
			c.errorf("no native kinds where native_effects is not supported", "Describe names %q", k)
		}
	}
	c.wantState(ctx, h, r, sdk.FenceState{})
	c.wantValue(ctx, h, r, "k", nil)
}

func portable(kind string) bool {
	for _, k := range sdk.PortableKinds() {
		if k == kind {
			return true
		}
	}
	return false
}
