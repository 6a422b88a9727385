package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/sdk"
)

func atomicCases() []Case {
	return []Case{
		{ID: "atomic/all-effects", Law: sdk.F6, Run: atomicAll,
			Explain: "A mutation with many puts and deletes leaves all of its effects, its receipt and the fence."},
		{ID: "atomic/bad-effect-leaves-nothing", Law: sdk.F6, Run: atomicBadEffect,
			Explain: "One effect among good ones that is malformed, unknown, a duplicate of another's key or over a limit: nothing is applied, the fence does not move and the position is still free."},
		{ID: "atomic/readers-never-see-half", Law: sdk.F6, Run: atomicReaders,
			Explain: "While one handle writes two keys to the same value again and again, others read fence, receipt and values: whoever sees a segment also sees its receipt and its values, or later ones."},
		{ID: "atomic/refusal-leaves-nothing", Law: sdk.F6, Run: atomicRefusals,
			Explain: "A mutation with several effects that is refused, for each reason that there is, leaves no key, receipt or fence."},
		{ID: "atomic/hook-fails", Law: sdk.F6, Needs: []sdk.Capability{sdk.CapApplyTx}, Run: atomicHook, without: hookUnsupported,
			Explain: "Caller's code that fails, panics not, leaves nothing: NOT_APPLIED with its error as the cause, no fence, no receipt; run again it is ACCEPTED."},
		{ID: "atomic/native-fails", Law: sdk.F6, Needs: []sdk.Capability{sdk.CapNativeEffects}, Run: atomicNative, without: nativeUnsupported,
			Explain: "A native effect that the store refuses in the middle of a mutation takes the portable effects, the receipt and the fence with it."},
	}
}

func atomicAll(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	n := 20
	if l := c.Description().Limits.Effects; l > 0 {
		n = min(n, l)
	}
	var effects []sdk.Effect
	for i := range n {
		effects = append(effects, sdk.Put(fmt.Sprintf("k%02d", i), fmt.Appendf(nil, "first %d", i)))
	}
	m := o.mutation(1, "op-1", []byte("one"), effects...)
	c.accept(ctx, h, m)
	for i := range effects {
		if i%2 == 0 {
			effects[i] = sdk.Delete(fmt.Sprintf("k%02d", i))
		} else {
			effects[i] = sdk.Put(fmt.Sprintf("k%02d", i), fmt.Appendf(nil, "second %d", i))
		}
	}
	effects = slices.Clone(effects)
	m2 := o.mutation(2, "op-2", []byte("two"), effects...)
	c.accept(ctx, h, m2)
	other := c.handle(ctx, 1)
	for i := range n {
		var want []byte
		if i%2 == 1 {
			want = fmt.Appendf(nil, "second %d", i)
		}
		c.wantValue(ctx, other, r, fmt.Sprintf("k%02d", i), want)
	}
	c.wantReceipt(ctx, other, m)
	c.wantReceipt(ctx, other, m2)
	c.wantState(ctx, other, r, o.state(2))
	c.accept(ctx, h, o.mutation(3, "op-3", nil, sdk.Delete("never was"), sdk.Put("empty", nil)))
	c.wantValue(ctx, h, r, "empty", []byte{})
	c.wantValue(ctx, h, r, "never was", nil)
}

func atomicBadEffect(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, h, o.put(1, "op-1", "k", "1"))
	good1, good2 := sdk.Put("a", []byte("bad")), sdk.Put("b", []byte("bad"))
	type bad struct {
		what    string
		effects []sdk.Effect
		want    []sdk.Code
	}
	all := []bad{
		{"an empty key", []sdk.Effect{good1, sdk.Put("", []byte("v")), good2}, []sdk.Code{sdk.Invalid}},
		{"a key with a control character", []sdk.Effect{good1, sdk.Put("k\x00", []byte("v")), good2}, []sdk.Code{sdk.Invalid}},
		{"a key that is too long", []sdk.Effect{good1, sdk.Delete(long("k", sdk.MaxKeyBytes+1)), good2}, []sdk.Code{sdk.Invalid}},
		{"a put without a body", []sdk.Effect{good1, {Kind: sdk.KindPut}, good2}, []sdk.Code{sdk.Invalid}},
		{"a put whose key length is a lie", []sdk.Effect{good1, {Kind: sdk.KindPut, Body: []byte("\xff\xff\xff\xff\xff\xff\xff\xffkey")}, good2}, []sdk.Code{sdk.Invalid}},
		{"a resolve that names nothing", []sdk.Effect{good1, {Kind: sdk.KindResolve, Body: make([]byte, 60)}, good2}, []sdk.Code{sdk.Invalid}},
		{"a kind that no store knows", []sdk.Effect{good1, {Kind: "conformance.unknown.v1", Body: []byte("x")}, good2}, []sdk.Code{sdk.Unsupported}},
		{"a malformed kind", []sdk.Effect{good1, {Kind: "KV.PUT", Body: []byte("x")}, good2}, []sdk.Code{sdk.Invalid}},
		{"two effects on one key", []sdk.Effect{good1, good2, sdk.Delete("a")}, []sdk.Code{sdk.Invalid}},
	}
	limits := c.Description().Limits
	if n := limits.Effects; n > 0 && n <= 5000 {
		var many []sdk.Effect
		for i := range n + 1 {
			many = append(many, sdk.Put(fmt.Sprintf("many-%d", i), nil))
		}
		all = append(all, bad{"one effect more than the limit", many, []sdk.Code{sdk.TooLarge}})
	}
	if n := limits.ValueBytes; n > 0 && n <= 64<<20 {
		all = append(all, bad{"a value over the limit", []sdk.Effect{good1, {Kind: sdk.KindPut, Body: putOf("big", n+1)}, good2}, []sdk.Code{sdk.TooLarge}})
	}
	keys := []string{"k", "a", "b", "many-0", "big"}
	before := c.view(ctx, h, r, []sdk.OperationID{"op-2"}, keys)
	for _, b := range all {
		m := o.mutation(2, "op-2", nil, b.effects...)
		out, err := h.apply(ctx, m)
		if !slices.Contains(b.want, out.Code) {
			c.errorf(b.want[0].String(), "%s: %s", b.what, describeAnswer(out, err))
		}
		c.unchanged(before, c.view(ctx, h, r, []sdk.OperationID{"op-2"}, keys), b.what)
	}
	c.accept(ctx, h, o.put(2, "op-2", "k", "2"))
}

// putOf is the body of a put of key, n bytes in all.
func putOf(key string, n int) []byte {
	return sdk.Put(key, make([]byte, max(0, n-8-len(key)))).Body
}

func long(s string, n int) string {
	b := make([]byte, 0, n+len(s))
	for len(b) < n {
		b = append(b, s...)
	}
	return string(b[:n])
}

func atomicReaders(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	r := c.resource()
	o := ownerOf(r, 7, "")
	n := c.rounds(40)
	var end atomic.Bool
	op := func(s sdk.Segment) sdk.OperationID { return sdk.OperationID("op-" + s.String()) }
	// Values count up, so that a reader tells which segment it saw.
	number := func(h *handle, key string) (int, bool) {
		v, err := h.read(ctx, r, key)
		if err != nil {
			return 0, sdk.CodeOf(err) == sdk.NotFound
		}
		var k int
		_, serr := fmt.Sscanf(string(v), "%d", &k)
		return k, serr == nil
	}
	// The writer waits for a reader's pass before each write, so that readers are
	// at work whatever the machine does.
	passed, left := make(chan struct{}, 1), make(chan struct{}, 3)
	c.parallel(4, func(i int) {
		if i == 0 {
			defer end.Store(true)
			for seg := sdk.Segment(1); seg <= sdk.Segment(n) && !c.failed(); seg++ {
				select {
				case <-passed:
				case <-left:
				case <-ctx.Done():
				}
				v := []byte(seg.String())
				c.accept(ctx, hs[0], o.mutation(seg, op(seg), nil, sdk.Put("x", v), sdk.Put("y", v), sdk.Put("z", v)))
			}
			return
		}
		defer func() { left <- struct{}{} }()
		for last := false; !last && ctx.Err() == nil && !c.failed(); {
			last = end.Load()
			c.readNoHalf(ctx, hs[i], r, op, number, i)
			select {
			case passed <- struct{}{}:
			default:
			}
		}
	})
	c.wantState(ctx, hs[1], r, o.state(sdk.Segment(n)))
}

// readNoHalf reads twice in one order: what is read later is at or above what
// was read before, whichever of fence, receipt and values come first.
func (c *C) readNoHalf(ctx context.Context, h *handle, r sdk.ResourceID, op func(sdk.Segment) sdk.OperationID,
	number func(*handle, string) (int, bool), order int) {
	keys := [][]string{{"x", "y", "z"}, {"z", "y", "x"}, {"y", "x", "z"}}[order%3]
	floor := 0
	if order%2 == 0 {
		s, err := h.inspect(ctx, r)
		if err != nil {
			return
		}
		floor = int(s.Segment)
		if floor > 0 {
			if _, err := h.receipt(ctx, r, op(s.Segment)); sdk.CodeOf(err) == sdk.NotFound {
				c.fatalf("the receipt of segment "+s.Segment.String(), "Inspect saw the segment, and then its receipt was not there")
			}
		}
	}
	for _, k := range keys {
		n, ok := number(h, k)
		if !ok {
			return
		}
		if n < floor {
			c.fatalf(fmt.Sprintf("segment %d or later", floor), "key %q is at segment %d", k, n)
		}
		floor = n
	}
	if floor == 0 {
		return
	}
	if _, err := h.receipt(ctx, r, op(sdk.Segment(floor))); sdk.CodeOf(err) == sdk.NotFound {
		c.fatalf(fmt.Sprintf("the receipt of segment %d, whose values are there", floor), "NOT_FOUND")
	}
	if s, err := h.inspect(ctx, r); err == nil && int(s.Segment) < floor {
		c.fatalf(fmt.Sprintf("fence at segment %d, whose values are there", floor), "segment %s", s.Segment)
	}
}

func atomicRefusals(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	t := c.takeover(ctx, h)
	three := func(o owner, seg sdk.Segment, op sdk.OperationID) *sdk.Mutation {
		return o.mutation(seg, op, []byte("refused"), sdk.Put("p", []byte("refused")), sdk.Put("q", []byte("refused")), sdk.Delete("k"))
	}
	root := t.b
	root.root = sdk.SumDigest([]byte("another job"))
	keys := []string{"k", "p", "q"}
	ops := []sdk.OperationID{"op-a", "op-b", "late"}
	before := c.view(ctx, h, t.r, ops, keys)
	for _, x := range []struct {
		m    *sdk.Mutation
		want sdk.Code
	}{
		{three(t.a, 2, "late"), sdk.StaleOwner},
		{three(t.b, 3, "late"), sdk.SegmentSkipped},
		{three(ownerOf(t.r, 9, ""), 2, "late"), sdk.SegmentSkipped},
		{three(root, 2, "late"), sdk.RootMismatch},
		{three(ownerOf(t.r, 8, "twin"), 2, "late"), sdk.FenceRegression},
		{t.b.mutation(2, "op-a", t.ma.Result, t.ma.Effects...), sdk.AlreadyApplied},
	} {
		c.expect(ctx, h, x.m, x.want)
		c.unchanged(before, c.view(ctx, h, t.r, ops, keys), x.want.String())
	}
	c.expect(ctx, h, three(t.b, 1, "late"), sdk.Quarantined)
	c.expect(ctx, h, three(t.b, 2, "op-a"), sdk.Quarantined)
	after := c.view(ctx, h, t.r, ops, keys)
	c.unchanged(before, after[:len(before)], sdk.Quarantined.String())
}

func atomicHook(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	cause := errors.New("the caller's own failure")
	fail := o.hooked(1, "op-1", func(context.Context, any) ([]byte, error) { return nil, cause })
	out, err := h.apply(ctx, fail)
	if out.Code != sdk.NotApplied || !errors.Is(err, cause) {
		c.errorf("NOT_APPLIED with the code's error as its cause", "%s", describeAnswer(out, err))
	}
	c.wantState(ctx, h, r, sdk.FenceState{})
	c.wantNoReceipt(ctx, h, r, "op-1")
	big := o.hooked(1, "op-1", func(context.Context, any) ([]byte, error) { return make([]byte, sdk.MaxResultBytes+1), nil })
	if out, err := h.apply(ctx, big); out.Code != sdk.TooLarge && out.Code != sdk.NotApplied {
		c.errorf("TOO_LARGE: a receipt keeps up to 64 KiB", "%s", describeAnswer(out, err))
	}
	c.wantState(ctx, h, r, sdk.FenceState{})
	// What the code did until its context ended must not stay either.
	ended, cancel := context.WithCancel(ctx)
	out, _ = h.apply(ended, o.hooked(1, "op-1", func(ctx context.Context, _ any) ([]byte, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	cancel()
	if out.Code != sdk.NotApplied && out.Code != sdk.MutationUnknown {
		c.errorf("NOT_APPLIED or MUTATION_UNKNOWN", "%s", out.Code)
	}
	c.wantNoReceipt(ctx, h, r, "op-1")
	done := o.hooked(1, "op-1", func(context.Context, any) ([]byte, error) { return []byte("done"), nil })
	c.expect(ctx, h, done, sdk.Accepted)
	c.wantState(ctx, h, r, o.state(1))
	done.Result = []byte("done") // what the code returned
	c.wantReceipt(ctx, c.handle(ctx, 1), done)
}
