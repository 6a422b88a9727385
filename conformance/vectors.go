package conformance

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
)

// decideVectors is the verdict table, from an implementation of its own.
//
//go:embed testdata/decide.jsonl
var decideVectors []byte

// row is one line of the table: what is stored, what is sent, what comes of it.
type row struct {
	Name     string       `json:"name"`
	State    rowState     `json:"state"`
	Receipts []rowReceipt `json:"receipts"`
	Mutation rowReceipt   `json:"mutation"`
	Verdict  string       `json:"verdict"`
	Next     rowState     `json:"next"`
	Original *rowReceipt  `json:"receiptOfOperation"`
	Pure     bool         `json:"pure"` // for sdk.Decide alone: no store can be brought there
}

type rowState struct {
	Highest uint64     `json:"highest,string"`
	Grant   sdk.Digest `json:"grant"`
	Root    sdk.Digest `json:"root"`
	Segment uint64     `json:"segment,string"`
}

type rowReceipt struct {
	Operation string     `json:"operation"`
	Fence     uint64     `json:"fence,string"`
	Grant     sdk.Digest `json:"grant"`
	Root      sdk.Digest `json:"root"`
	Segment   uint64     `json:"segment,string"`
	Digest    sdk.Digest `json:"digest"`
}

func (s rowState) state() sdk.FenceState {
	return sdk.FenceState{Highest: sdk.Token(s.Highest), Grant: s.Grant, Root: s.Root, Segment: sdk.Segment(s.Segment)}
}

// mutation is x at r. A minted admission's payload digest is what the row says.
func (x *rowReceipt) mutation(r sdk.ResourceID) *sdk.Mutation {
	return &sdk.Mutation{Resource: r, Operation: sdk.OperationID(x.Operation), Fence: sdk.Token(x.Fence), Segment: sdk.Segment(x.Segment),
		Root: x.Root, Grant: x.Grant, Payload: x.Digest, Owner: "vectors", Time: epoch}
}

// rows reads the table once.
var rows = sync.OnceValues(func() ([]row, error) {
	var out []row
	for i, line := range bytes.Split(bytes.TrimSpace(decideVectors), []byte("\n")) {
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		var r row
		if err := dec.Decode(&r); err != nil {
			return nil, fmt.Errorf("testdata/decide.jsonl:%d: %w", i+1, err)
		}
		if dec.More() {
			return nil, fmt.Errorf("testdata/decide.jsonl:%d: more than one value", i+1)
		}
		if _, err := sdk.ParseCode(r.Verdict); err != nil {
			return nil, fmt.Errorf("testdata/decide.jsonl:%d: %w", i+1, err)
		}
		out = append(out, r)
	}
	return out, nil
})

// law is the one that a row's verdict rests on.
func (x *row) law() sdk.Law {
	above := x.Mutation.Fence > x.State.Highest
	switch {
	case x.Pure, x.Verdict == "INVALID", strings.HasPrefix(x.Name, "exact-"):
		return sdk.F11
	case x.Verdict == "STALE_OWNER":
		return sdk.F1
	case x.Verdict == "FENCE_REGRESSION":
		return sdk.F13
	case x.Verdict == "REPLAYED":
		return sdk.F4
	case x.Verdict == "QUARANTINED":
		return sdk.F5
	case x.Verdict == "ALREADY_APPLIED":
		return sdk.F10
	case above && (x.Verdict == "ACCEPTED" || x.Verdict == "SEGMENT_SKIPPED"):
		return sdk.F2
	}
	return sdk.F3
}

func vectorCases() []Case {
	one := func(id string, law sdk.Law, what string) Case {
		return Case{ID: "vectors/" + id, Law: law, Run: playVectors,
			Explain: "Every row of the verdict table " + what + ": a fresh resource is brought to the row's state by the row's receipts, the row's mutation is applied, and verdict, next state and the operation's receipt are compared. The table comes from an implementation of its own."}
	}
	return []Case{
		one("stale", sdk.F1, "that is STALE_OWNER"),
		one("takeover", sdk.F2, "with a fence above the highest"),
		one("order", sdk.F3, "at the highest fence, next or skipped segment and other roots"),
		one("replay", sdk.F4, "that is REPLAYED"),
		one("conflict", sdk.F5, "that is QUARANTINED"),
		one("once", sdk.F10, "that is ALREADY_APPLIED"),
		one("exact", sdk.F11, "at the edges of the number range; rows that no store can be brought to are put to sdk.Decide"),
		one("one-grant", sdk.F13, "that is FENCE_REGRESSION"),
	}
}

func playVectors(ctx context.Context, c *C) {
	all, err := rows()
	if err != nil {
		c.fatalf("a readable table", "%v", err)
	}
	var mine []*row
	for i := range all {
		if all[i].law() == c.cs.Law {
			mine = append(mine, &all[i])
		}
	}
	if len(mine) == 0 {
		c.fatalf("rows for "+string(c.cs.Law), "none")
	}
	handles := []*handle{c.handle(ctx, 0), c.handle(ctx, 1)}
	c.spread(ctx, len(mine), 64, func(i int) {
		if mine[i].Pure {
			c.playPure(mine[i])
			return
		}
		c.playRow(ctx, handles[i%2], mine[i])
	})
	c.figure("rows", int64(len(mine)))
}

func (c *C) playRow(ctx context.Context, h *handle, x *row) {
	r := c.resource()
	name := "row " + strconv.Quote(x.Name) + ": "
	receipts := x.Receipts
	if x.State.Highest > 0 && len(receipts) == 0 {
		receipts = []rowReceipt{{Operation: "filler", Fence: x.State.Highest, Grant: x.State.Grant, Root: x.State.Root,
			Segment: x.State.Segment, Digest: sdk.SumDigest([]byte("filler"))}}
	}
	var prior *sdk.Receipt
	for i := range receipts {
		m := receipts[i].mutation(r)
		out, err := h.settle(ctx, m, sdk.Accepted)
		if out.Code != sdk.Accepted {
			c.errorf("ACCEPTED", "%son the way to its state: %s for %s", name, describeAnswer(out, err), showMutation(m))
			return
		}
		if receipts[i].Operation == x.Mutation.Operation {
			prior = ptr(receiptOf(m))
		}
	}
	m := x.Mutation.mutation(r)
	want, _ := sdk.ParseCode(x.Verdict)
	out, err := h.settle(ctx, m, want)
	if out.Code != want {
		c.errorf(x.Verdict, "%s%s for %s at %s", name, describeAnswer(out, err), showMutation(m), showState(x.State.state()))
		return
	}
	next := x.Next.state()
	if got, err := h.inspect(ctx, r); err != nil || got != next {
		c.errorf(showState(next), "%safter %s Inspect says %s, error %v", name, want, showState(got), err)
	}
	if want == sdk.Invalid {
		return
	}
	if want == sdk.Accepted {
		prior = ptr(receiptOf(m))
	}
	if got, err := h.receipt(ctx, r, m.Operation); prior == nil && sdk.CodeOf(err) != sdk.NotFound ||
		prior != nil && (err != nil || !sameReceipt(&got, prior)) {
		c.errorf(showReceipt(prior), "%safter %s Receipt says %s, error %v", name, want, showReceipt(&got), err)
	}
	if prior != nil && (out.Receipt == nil || !sameReceipt(out.Receipt, prior)) ||
		prior == nil && out.Receipt != nil {
		c.errorf(showReceipt(prior), "%sthe answer %s carries %s", name, want, showReceipt(out.Receipt))
	}
}

func (c *C) playPure(x *row) {
	var prior *sdk.Receipt
	for i := range x.Receipts {
		if x.Receipts[i].Operation == x.Mutation.Operation {
			prior = ptr(receiptOf(x.Receipts[i].mutation("r")))
		}
	}
	m := x.Mutation.mutation("r")
	d := sdk.Decide(x.State.state(), prior, admit(m))
	if d.Code.String() != x.Verdict || d.Next != x.Next.state() {
		c.errorf(x.Verdict+" and "+showState(x.Next.state()), "row %q: sdk.Decide says %s and %s", x.Name, d.Code, showState(d.Next))
	}
}
