package conformance

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/fencedstore/fencedstore/sdk"
)

func contractCases() []Case {
	return []Case{
		{ID: "contract/zero-admission-invalid", Law: sdk.A7, Run: contractZero,
			Explain: "The zero Admission, which no gate made, is INVALID; so is one with a field missing. Nothing is left."},
		{ID: "contract/bad-names-invalid", Law: sdk.A2, Run: contractNames,
			Explain: "Every method refuses a resource that is not canonical, and an operation or a key that is out of range, with INVALID and without a trace. It is never repaired into another name."},
		{ID: "contract/large-values", Law: sdk.F6, Run: contractLarge,
			Explain: "Values, results and sums exactly at the declared limits are accepted and come back byte for byte; one more is TOO_LARGE and leaves nothing."},
		{ID: "contract/describe", Law: sdk.O1, Run: contractDescribe,
			Explain: "Describe is the same on every call and handle, names adapter, environment and the portable kinds, and gives a reason for what is not supported."},
		{ID: "contract/answers-are-copies", Law: sdk.F6, Run: contractCopies,
			Explain: "What a caller does to a receipt or value that it was given changes nothing in the store."},
		{ID: "contract/closed", Law: sdk.F9, Run: contractClosed,
			Explain: "After Close every method answers CLOSED, Describe as before, a second Close nil; nothing was written, and other handles go on."},
		{ID: "contract/probe", Law: sdk.F7, Run: contractProbe,
			Explain: "Probe on a suitable store answers nil, again and again and beside writers, and leaves no fence behind."},
		{ID: "wire/dial-undeclared", Law: sdk.O1, Run: wireUndeclared,
			Explain: "A store that does not declare dial as supported opens no connection through OpenOptions.Dial; one that does opens every one."},
	}
}

func contractZero(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	out, err := h.s.Apply(ctx, sdk.Admission{})
	c.touch()
	if sdk.CodeOf(err) != sdk.Invalid || out.Code != sdk.Invalid {
		c.errorf("INVALID", "the zero Admission: %s", describeAnswer(out, err))
	}
	r := c.resource()
	o := ownerOf(r, 7, "")
	for what, spoil := range map[string]func(*sdk.Mutation){
		"grant":     func(m *sdk.Mutation) { m.Grant = sdk.Digest{} },
		"root":      func(m *sdk.Mutation) { m.Root = sdk.Digest{} },
		"payload":   func(m *sdk.Mutation) { m.Payload = sdk.Digest{} },
		"owner":     func(m *sdk.Mutation) { m.Owner = "" },
		"operation": func(m *sdk.Mutation) { m.Operation = "" },
		"resource":  func(m *sdk.Mutation) { m.Resource = "" },
		"hook": func(m *sdk.Mutation) {
			m.Hook = func(context.Context, any) ([]byte, error) {
				c.errorf("INVALID before anything ran", "a hook beside effects ran")
				return nil, nil
			}
		},
	} {
		m := o.put(1, "op-1", "k", "1")
		spoil(m)
		if out, err := h.apply(ctx, m); out.Code != sdk.Invalid {
			c.errorf("INVALID", "without a valid %s: %s", what, describeAnswer(out, err))
		}
	}
	c.wantState(ctx, h, r, sdk.FenceState{})
	c.wantNoReceipt(ctx, h, r, "op-1")
	c.wantValue(ctx, h, r, "k", nil)
}

func contractNames(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	good := c.resource()
	o := ownerOf(good, 7, "")
	c.accept(ctx, h, o.put(1, "op-1", "k", "1"))
	before := c.view(ctx, h, good, []sdk.OperationID{"op-1"}, []string{"k"})
	g := string(good)
	for _, bad := range []string{"", "/" + g, g + "/", g + "//x", g + "/./x", g + "/../x", g + "/.", g + "\x00", g + "\n", g + "\x7f", g + "%2f", g + "\\x", g + "?", g + "#", g + ";v",
		g + "/e\u0301", g + "/\u212b", g + "/\u212a", g + "/\u0085", g + "\xff", long(g+"/", sdk.MaxResourceBytes) + "x"} {
		r := sdk.ResourceID(bad)
		what := fmt.Sprintf("%+q", clip(bad))
		if out, err := h.apply(ctx, ownerOf(r, 7, "").put(1, "op-1", "k", "1")); out.Code != sdk.Invalid {
			c.errorf("INVALID", "Apply at %s: %s", what, describeAnswer(out, err))
		}
		_, err := h.inspect(ctx, r)
		c.wantCode("Inspect at "+what, err, sdk.Invalid)
		_, err = h.receipt(ctx, r, "op-1")
		c.wantCode("Receipt at "+what, err, sdk.Invalid)
		_, err = h.read(ctx, r, "k")
		c.wantCode("Read at "+what, err, sdk.Invalid)
		_, err = h.quarantined(ctx, r)
		c.wantCode("Quarantined at "+what, err, sdk.Invalid)
	}
	for _, bad := range []string{"", "a\x00", "a\n", "\xff", "\u0085", long("k", sdk.MaxKeyBytes+1)} {
		_, err := h.read(ctx, good, bad)
		c.wantCode(fmt.Sprintf("Read of key %+q", clip(bad)), err, sdk.Invalid)
		op := sdk.OperationID(bad)
		_, err = h.receipt(ctx, good, op)
		c.wantCode(fmt.Sprintf("Receipt of operation %+q", clip(bad)), err, sdk.Invalid)
		if out, err := h.apply(ctx, o.put(2, op, "k", "2")); out.Code != sdk.Invalid {
			c.errorf("INVALID", "operation %+q: %s", clip(bad), describeAnswer(out, err))
		}
	}
	c.unchanged(before, c.view(ctx, h, good, []sdk.OperationID{"op-1"}, []string{"k"}), "bad names")
	c.accept(ctx, h, o.put(2, "op-2", "k", "2"))
}

func contractLarge(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	limits := c.Description().Limits
	seg := sdk.Segment(0)
	accept := func(op sdk.OperationID, result []byte, effects ...sdk.Effect) {
		seg++
		m := o.mutation(seg, op, result, effects...)
		c.accept(ctx, h, m)
		c.wantReceipt(ctx, c.handle(ctx, 1), m)
		for _, e := range effects {
			k, v, _ := sdk.ParsePut(e.Body)
			c.wantValue(ctx, c.handle(ctx, 1), r, k, v)
		}
	}
	refuse := func(what string, result []byte, effects ...sdk.Effect) {
		out, err := h.apply(ctx, o.mutation(seg+1, "over", result, effects...))
		if out.Code != sdk.TooLarge {
			c.errorf("TOO_LARGE", "%s: %s", what, describeAnswer(out, err))
		}
		c.wantState(ctx, h, r, o.state(seg))
		c.wantNoReceipt(ctx, h, r, "over")
		c.wantValue(ctx, h, r, "over", nil)
	}
	fill := func(e sdk.Effect) sdk.Effect {
		for i := range e.Body[8:] {
			if e.Body[8+i] == 0 {
				e.Body[8+i] = byte(i * 7)
			}
		}
		return e
	}
	result := sdk.MaxResultBytes
	if n := limits.TotalBytes; n > 0 {
		result = int(min(int64(result), n-100))
	}
	accept("result", filled(result), sdk.Put("k", []byte("small")))
	refuse("a result over 64 KiB", filled(sdk.MaxResultBytes+1), sdk.Put("over", nil))
	const most = 64 << 20
	if n := limits.ValueBytes; n > 0 && n <= most {
		accept("value", nil, fill(sdk.Effect{Kind: sdk.KindPut, Body: putOf("value", n)}))
		refuse("a value over the limit", nil, sdk.Effect{Kind: sdk.KindPut, Body: putOf("over", n+1)})
	}
	if n := limits.TotalBytes; n > 0 && n <= most {
		each := int64(limits.ValueBytes)
		if each == 0 {
			each = n
		}
		sum := func(total int64) (effects []sdk.Effect) {
			for i := 0; total > 0; i++ {
				b := max(min(each, total), 20)
				effects = append(effects, sdk.Effect{Kind: sdk.KindPut, Body: putOf(fmt.Sprintf("t%d", i), int(b))})
				total -= b
			}
			return effects
		}
		if at := sum(n - 100); limits.Effects == 0 || len(at) <= limits.Effects {
			accept("total", filled(100), at...)
			refuse("effects and result over the limit together", filled(101), sum(n-100)...)
		}
	}
	if n := limits.Effects; n > 0 && n <= 5000 {
		var all []sdk.Effect
		for i := range n {
			all = append(all, sdk.Put(fmt.Sprintf("e%d", i), []byte("v")))
		}
		accept("effects", nil, all...)
		refuse("one effect more than the limit", nil, append(slices.Clone(all), sdk.Put("over", nil))...)
	}
	c.figure("bytes in one value", int64(limits.ValueBytes))
}

func filled(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31)
	}
	return b
}

func contractDescribe(ctx context.Context, c *C) {
	h := c.fresh(ctx, sdk.OpenOptions{})
	d := c.Description()
	for _, again := range []sdk.Description{h.s.Describe(), h.s.Describe(), c.handle(ctx, 0).s.Describe()} {
		if !reflect.DeepEqual(again, *d) {
			c.errorf(fmt.Sprintf("%+v", *d), "Describe: %+v", again)
		}
	}
	if d.Name == "" || d.Version == "" {
		c.errorf("the adapter's name and version", "name %q, version %q", d.Name, d.Version)
	}
	switch d.Environment {
	case sdk.Embedded, sdk.Emulator, sdk.Live:
	default:
		c.errorf("embedded, emulator or live", "environment %q", d.Environment)
	}
	for _, k := range sdk.PortableKinds() {
		if !slices.Contains(d.Kinds, k) {
			c.errorf("the portable kinds, which every store takes", "%q is not among %q", k, d.Kinds)
		}
	}
	for _, k := range sdk.Capabilities() {
		if s := d.Capabilities[k]; s.Support != sdk.Supported && s.Reason == "" {
			c.errorf("a reason for what is not supported", "%s is %s without one", k, s.Support)
		}
	}
	if l := d.Limits; l.Effects < 0 || l.ValueBytes < 0 || l.TotalBytes < 0 || l.Quarantine < 0 {
		c.errorf("limits of 0 (none stated) or more", "%+v", l)
	}
	before := h.s.Describe()
	if err := h.close(); err != nil {
		c.errorf("nil", "Close: %v", err)
	}
	if after := h.s.Describe(); !reflect.DeepEqual(before, after) {
		c.errorf("the same also after Close", "Describe: %+v", after)
	}
}

func contractCopies(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	m := o.put(1, "op-1", "k", "value")
	out := c.accept(ctx, h, m)
	spoil := func(b []byte) {
		for i := range b {
			b[i] = '!'
		}
	}
	if out.Receipt != nil && len(m.Result) > 0 && len(out.Receipt.Result) > 0 && &out.Receipt.Result[0] != &m.Result[0] {
		spoil(out.Receipt.Result)
	}
	if got, err := h.receipt(ctx, r, "op-1"); err == nil {
		spoil(got.Result)
	}
	if v, err := h.read(ctx, r, "k"); err == nil {
		spoil(v)
	}
	c.wantReceipt(ctx, h, m)
	c.wantValue(ctx, h, r, "k", []byte("value"))
	c.again(ctx, h, m)
}

func contractClosed(ctx context.Context, c *C) {
	h, stays := c.fresh(ctx, sdk.OpenOptions{}), c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, h, o.put(1, "op-1", "k", "1"))
	for range 2 {
		if err := h.close(); err != nil {
			c.errorf("nil, also the second time", "Close: %v", err)
		}
	}
	out, err := h.apply(ctx, o.put(2, "op-2", "k", "2"))
	if out.Code != sdk.Closed {
		c.errorf("CLOSED", "Apply: %s", describeAnswer(out, err))
	}
	_, err = h.inspect(ctx, r)
	c.wantCode("Inspect", err, sdk.Closed)
	_, err = h.receipt(ctx, r, "op-1")
	c.wantCode("Receipt", err, sdk.Closed)
	_, err = h.read(ctx, r, "k")
	c.wantCode("Read", err, sdk.Closed)
	_, err = h.quarantined(ctx, r)
	c.wantCode("Quarantined", err, sdk.Closed)
	c.wantCode("Probe", h.s.Probe(ctx), sdk.Closed)
	c.wantState(ctx, stays, r, o.state(1))
	c.accept(ctx, stays, o.put(2, "op-2", "k", "2"))
}

func contractProbe(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, h, o.claim())
	// Names that a probe might be tempted to use.
	tempting := []sdk.ResourceID{"probe", "Probe", "_probe", "fencedstore", "fencedstore/probe", "fencedstore.probe", "_fencedstore", "test", "canary"}
	before := make([][]string, len(tempting))
	for i, name := range tempting {
		before[i] = c.view(ctx, h, name, []sdk.OperationID{"probe"}, []string{"probe", "k"})
	}
	c.parallel(4, func(i int) {
		if i == 0 {
			for seg := sdk.Segment(2); seg <= 10; seg++ {
				c.accept(ctx, h, o.put(seg, sdk.OperationID("op-"+seg.String()), "k", "v"))
			}
			return
		}
		for range 3 {
			if err := c.handle(ctx, i).s.Probe(ctx); err != nil {
				c.errorf("nil", "Probe: %v", err)
			}
			c.touch()
		}
	})
	c.wantState(ctx, h, r, o.state(10))
	for i, name := range tempting {
		c.unchanged(before[i], c.view(ctx, h, name, []sdk.OperationID{"probe"}, []string{"probe", "k"}), "Probe, at "+string(name))
	}
}
