package conformance

import (
	"bytes"
	"context"
	"fmt"

	"github.com/fencedstore/fencedstore/sdk"
)

func keepCases() []Case {
	return []Case{
		{ID: "atomic/byte-for-byte", Law: sdk.F6, Run: keepBytes,
			Explain: "Values and results of every byte, and those that columns, encodings and client libraries change (spaces at the ends, zero bytes, line ends, what is not UTF-8, what looks like null or a number), come back byte for byte."},
		{ID: "atomic/takeover-keeps-the-rest", Law: sdk.F6, Run: keepAtTakeover,
			Explain: "A takeover, by a claim or by a write, changes the fence and what it names, and nothing else: the old owner's values, receipts and quarantine stay."},
		{ID: "monotonic/crowd-keeps-fence", Law: sdk.F7, Run: keepInCrowd,
			Explain: "After writes to many other resources one that was not used meanwhile still has its fence, receipt and value: nothing is evicted."},
		{ID: "apart/parallel", Law: sdk.F12, Needs: []sdk.Capability{sdk.CapApplyTx, sdk.CapParallel}, Run: apartParallel, without: apartSerial,
			Explain: "While caller's code stands still inside the transaction of one resource, forty others are written and read, each at once."},
		{ID: "fence/refused-seed-leaves-nothing", Law: sdk.P1, Run: seedRefused,
			Explain: "A seed is committed with the first accepted mutation. One that comes with a refusal leaves the resource without a fence, and the next mutation, with a seed of its own or none, is judged by that. An accepted one keeps the seed's generations."},
		{ID: "linearizable/quarantine-after-conflict", Law: sdk.F8, Run: keepQuarantineFresh,
			Explain: "Every handle reads the quarantine; then one conflicts and one resolves: each time every handle sees it."},
	}
}

// odd are byte strings that something on the way to a disk tends to change.
func odd() [][]byte {
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	out := [][]byte{all[:], bytes.Repeat([]byte{0}, 100), bytes.Repeat([]byte{0xff}, 100)}
	for _, s := range []string{"", " ", " v ", "v  ", "\tv\t", "v\n", "v\r\n", "\r", "v\x00", "\x00v", "v\x00w", "\ufeffv", "null", "NULL", "nil", "true", "0", "00", "1e3", "NaN", "9007199254740993",
		"\"", "\"v\"", "'", "\\", "\\x00", "\\u0000", "{}", "[]", "{\"$gt\":0}", "<v>&", "%00", "\xc3\x28", "\xed\xa0\x80", "e\u0301", "é", "\u2028", "dg==", "; DROP TABLE t --"} {
		out = append(out, []byte(s))
	}
	return out
}

func keepBytes(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	o := ownerOf(r, 7, "")
	var ms []*sdk.Mutation
	for i, v := range odd() {
		m := o.mutation(sdk.Segment(i+1), sdk.OperationID(fmt.Sprintf("op-%d", i)), v, sdk.Put(fmt.Sprintf("k%d", i), v), sdk.Put("same", v))
		c.accept(ctx, h, m)
		c.wantValue(ctx, other, r, "same", v)
		ms = append(ms, m)
	}
	for i, v := range odd() {
		c.wantValue(ctx, other, r, fmt.Sprintf("k%d", i), v)
		c.wantReceipt(ctx, other, ms[i])
		c.again(ctx, other, ms[i])
	}
}

func keepAtTakeover(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	a := ownerOf(r, 7, "")
	first := a.put(1, "op-1", "k", "1")
	c.accept(ctx, h, first)
	c.accept(ctx, h, a.put(2, "op-2", "l", "2"))
	c.expect(ctx, h, a.put(1, "op-1", "k", "clash"), sdk.Quarantined)
	ops, keys := []sdk.OperationID{"op-1", "op-2"}, []string{"k", "l"}
	before := c.view(ctx, other, r, ops, keys)[1:] // without the fence
	for i, by := range []string{"a claim", "a write", "a write of nothing", "ten claims"} {
		o := ownerOf(r, sdk.Token(1000*(i+1)), "")
		switch by {
		case "a claim":
			c.accept(ctx, h, o.claim())
		case "a write":
			c.accept(ctx, h, o.put(1, "op-write", "other", "v"))
		case "a write of nothing":
			c.accept(ctx, h, o.mutation(1, "op-nothing", nil))
		default:
			for range 10 {
				c.accept(ctx, h, o.claim())
				o = ownerOf(r, o.fence+1, "")
			}
			o = ownerOf(r, o.fence-1, "")
		}
		c.wantState(ctx, other, r, o.state(1))
		c.unchanged(before, c.view(ctx, other, r, ops, keys)[1:], "a takeover by "+by)
	}
	c.wantValue(ctx, other, r, "other", []byte("v"))
}

func keepInCrowd(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	o := ownerOf(r, 7, "")
	m := o.put(1, "op-1", "k", "1")
	c.accept(ctx, h, m)
	n := 300
	if c.e.h.Network {
		n = 60
	}
	rs := make([]sdk.ResourceID, n)
	for i := range rs {
		rs[i] = c.resource()
	}
	c.spread(ctx, n, 32, func(i int) { c.accept(ctx, []*handle{h, other}[i%2], ownerOf(rs[i], 3, "").put(1, "op-1", "k", "v")) })
	if c.failed() {
		return
	}
	c.wantState(ctx, other, r, o.state(1))
	c.refuse(ctx, other, ownerOf(r, 6, "").put(1, "late", "k", "late"), sdk.StaleOwner, o.state(1), nil)
	c.wantReceipt(ctx, other, m)
	c.wantValue(ctx, other, r, "k", []byte("1"))
	c.again(ctx, h, m)
	for _, at := range []int{0, n / 2, n - 1} {
		c.wantState(ctx, other, rs[at], ownerOf(rs[at], 3, "").state(1))
	}
}

func apartParallel(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	held := c.resource()
	const n = 40
	rs := make([]sdk.ResourceID, n)
	for i := range rs {
		rs[i] = c.resource()
	}
	c.held(ctx, h, held, func() bool {
		c.prompt(ctx, "writes to other resources", func(ctx context.Context) error {
			for i, r := range rs {
				m := ownerOf(r, 7, "").put(1, "op-1", "k", "1")
				c.accept(ctx, []*handle{h, other}[i%2], m)
				c.wantReceipt(ctx, other, m)
				c.wantValue(ctx, h, r, "k", []byte("1"))
			}
			return nil
		})
		return false
	})
}

// apartSerial is the other side of parallel: others may have to wait, and their
// verdicts are their own all the same.
func apartSerial(ctx context.Context, c *C) {
	if c.Description().Supports(sdk.CapApplyTx) == sdk.Supported {
		apartBlocked(ctx, c)
	} else {
		hookUnsupported(ctx, c)
	}
}

func seedRefused(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	seen := ownerOf(r, 7, "")
	seen.generations = sdk.Generations{Policy: 5, Trust: 6}
	seeded := func(m *sdk.Mutation) *sdk.Mutation {
		m.Seed = seen.state(3)
		return m
	}
	twin := ownerOf(r, 7, "twin")
	root := seen
	root.root = sdk.SumDigest([]byte("another job"))
	for _, x := range []struct {
		m    *sdk.Mutation
		want sdk.Code
	}{
		{ownerOf(r, 6, "").put(1, "late", "k", "late"), sdk.StaleOwner},
		{seen.put(5, "late", "k", "late"), sdk.SegmentSkipped},
		{ownerOf(r, 8, "").put(2, "late", "k", "late"), sdk.SegmentSkipped},
		{root.put(4, "late", "k", "late"), sdk.RootMismatch},
		{twin.put(4, "late", "k", "late"), sdk.FenceRegression},
	} {
		c.expect(ctx, h, seeded(x.m), x.want)
		c.wantState(ctx, other, r, sdk.FenceState{})
	}
	low := ownerOf(r, 2, "")
	c.accept(ctx, other, low.put(1, "op-1", "k", "1"))
	c.wantState(ctx, h, r, low.state(1))

	r = c.resource()
	seen = ownerOf(r, 7, "")
	seen.generations = sdk.Generations{Policy: 5, Trust: 6}
	next := ownerOf(r, 8, "") // of a gate whose generations are older than the seed's
	m := next.put(1, "op-1", "k", "1")
	m.Seed = seen.state(3)
	c.accept(ctx, h, m)
	want := next.state(1)
	want.Generations = seen.generations
	c.wantState(ctx, other, r, want)
}

func keepQuarantineFresh(ctx context.Context, c *C) {
	hs := c.racers(ctx)
	r := c.resource()
	o := ownerOf(r, 7, "")
	c.accept(ctx, hs[0], o.put(1, "op-1", "k", "1"))
	see := func(want ...sdk.Quarantine) {
		for _, h := range hs {
			c.wantQuarantine(ctx, h, r, want...)
		}
	}
	see()
	clash := o.put(1, "op-1", "k", "clash")
	c.expect(ctx, hs[1], clash, sdk.Quarantined)
	q := clash.Quarantine()
	see(q)
	c.accept(ctx, hs[2], o.mutation(2, "settle", nil, sdk.Resolve(q)))
	q.ResolvedBy = "settle"
	see(q)
}
