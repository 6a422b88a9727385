package conformance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fencedstore/fencedstore/sdk"
)

// history records what was asked of one resource and answered, in the order of
// a clock that only counts. It is linearizable if the laws, taken one call at a
// time, explain every answer in an order that respects what came before what.
type history struct {
	clock atomic.Int64

	mu       sync.Mutex
	events   []porcupine.Operation
	unknowns int
}

// maxUnknowns bounds how many calls may end unknown in one history: each may
// take effect at any later time, and the check grows with their number.
const maxUnknowns = 8

// asked is the input of a call: a mutation, or what was read.
type asked struct {
	m   *sdk.Mutation
	op  sdk.OperationID // Receipt
	key string          // Read; with neither it is Inspect
}

// answered is the output of a call.
type answered struct {
	code     sdk.Code // of a write
	observed sdk.FenceState
	receipt  *sdk.Receipt
	value    []byte // nil: NOT_FOUND
	unknown  bool   // may have happened, and may not
}

func (h *history) add(client int, in asked, call int64, out answered) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if out.unknown {
		h.unknowns++
	}
	h.events = append(h.events, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: h.clock.Add(1)})
}

// apply sends m once and records it. An answer that proves that nothing was
// done is no event.
func (h *history) apply(ctx context.Context, st *handle, client int, m *sdk.Mutation) (sdk.Outcome, error) {
	call := h.clock.Add(1)
	out, err := st.apply(ctx, m)
	switch out.Code {
	case sdk.NotApplied, sdk.Invalid, sdk.TooLarge, sdk.Unsupported, sdk.Closed, sdk.Unsuitable:
	default:
		h.add(client, asked{m: m}, call, answered{code: out.Code, observed: out.Observed, receipt: out.Receipt, unknown: out.Code == sdk.MutationUnknown})
	}
	return out, err
}

func (h *history) inspect(ctx context.Context, st *handle, client int, r sdk.ResourceID) {
	call := h.clock.Add(1)
	if s, err := st.inspect(ctx, r); err == nil {
		h.add(client, asked{}, call, answered{observed: s})
	}
}

func (h *history) receipt(ctx context.Context, st *handle, client int, r sdk.ResourceID, op sdk.OperationID) {
	call := h.clock.Add(1)
	rec, err := st.receipt(ctx, r, op)
	switch {
	case err == nil:
		h.add(client, asked{op: op}, call, answered{receipt: &rec})
	case sdk.CodeOf(err) == sdk.NotFound:
		h.add(client, asked{op: op}, call, answered{})
	}
}

func (h *history) read(ctx context.Context, st *handle, client int, r sdk.ResourceID, key string) {
	call := h.clock.Add(1)
	v, err := st.read(ctx, r, key)
	switch {
	case err == nil:
		h.add(client, asked{key: key}, call, answered{value: v})
	case sdk.CodeOf(err) == sdk.NotFound:
		h.add(client, asked{key: key}, call, answered{})
	}
}

// check reports a history that the laws do not explain.
func (h *history) check(c *C) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unknowns > maxUnknowns {
		c.notProven("%d calls of one race ended unknown; the check takes up to %d", h.unknowns, maxUnknowns)
	}
	for i := range h.events {
		if h.events[i].Output.(answered).unknown {
			h.events[i].Return = h.clock.Load() + 1
		}
	}
	res := linearizable(h.events, min(20*time.Second, c.e.opts.Stall/2))
	c.touch()
	switch res {
	case porcupine.Illegal:
		events := shrink(h.events)
		c.touch()
		c.errorf("an order of these calls in which the laws explain each answer", "no such order exists:%s", showHistory(events))
	case porcupine.Unknown:
		c.notProven("the history of %d calls could not be checked in time", len(h.events))
	}
}

func linearizable(events []porcupine.Operation, d time.Duration) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(lawModel, events, max(d, time.Millisecond))
}

// shrink looks for a small part that is still not linearizable: what follows
// the first contradiction goes, then reads, then writes that were refused, one
// at a time. Nothing that changed the resource is taken out.
func shrink(events []porcupine.Operation) []porcupine.Operation {
	deadline := time.Now().Add(2 * time.Second) // a larger excerpt is no less true
	illegal := func(e []porcupine.Operation) bool {
		d := time.Until(deadline)
		return d > 0 && linearizable(e, d) == porcupine.Illegal
	}
	events = slices.Clone(events)
	slices.SortFunc(events, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	for n := 1; n < len(events); n++ {
		if calls := callsBefore(events, n); illegal(calls) {
			events = calls
			break
		}
	}
	for i := len(events) - 1; i >= 0; i-- {
		out := events[i].Output.(answered)
		if in := events[i].Input.(asked); in.m != nil && (out.code == sdk.Accepted || out.unknown) {
			continue
		}
		if less := slices.Delete(slices.Clone(events), i, i+1); illegal(less) {
			events = less
		}
	}
	return events
}

// callsBefore are the first n calls to return and those under way by then,
// which may not be left out: they may have taken effect.
func callsBefore(events []porcupine.Operation, n int) []porcupine.Operation {
	out := slices.Clone(events[:n])
	end := events[n-1].Return
	for _, e := range events[n:] {
		if e.Call < end && e.Input.(asked).m != nil {
			out = append(out, e)
		}
	}
	return out
}

func showHistory(events []porcupine.Operation) string {
	slices.SortFunc(events, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	const most = 24
	var b strings.Builder
	for i, e := range events {
		if i == most {
			fmt.Fprintf(&b, "\n  … and %d more", len(events)-most)
			break
		}
		fmt.Fprintf(&b, "\n  [%d–%d] handle %d %s", e.Call, e.Return, e.ClientId+1, showCall(e.Input.(asked), e.Output.(answered)))
	}
	return b.String()
}

func showCall(in asked, out answered) string {
	switch {
	case in.m != nil:
		return fmt.Sprintf("Apply %s → %s, observed %s", showMutation(in.m), out.code, showState(out.observed))
	case in.op != "":
		return fmt.Sprintf("Receipt of %q → %s", in.op, showReceipt(out.receipt))
	case in.key != "" && out.value == nil:
		return fmt.Sprintf("Read of %q → NOT_FOUND", in.key)
	case in.key != "":
		return fmt.Sprintf("Read of %q → %s", in.key, showBytes(out.value))
	}
	return "Inspect → " + showState(out.observed)
}

// lawModel is one resource under the laws, for the checker.
var lawModel = func() porcupine.Model {
	nm := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{newModel()} },
		Step:  func(state, in, out any) []any { return lawStep(state.(*model), in.(asked), out.(answered)) },
		Equal: func(a, b any) bool { return a.(*model).equal(b.(*model)) },
		Hash: func(s any) uint64 {
			m := s.(*model)
			return uint64(m.state.Highest)*1_000_003 + uint64(m.state.Segment)*31 + uint64(len(m.receipts))
		},
	}
	return nm.ToModel()
}()

// lawStep returns the states that can follow when in is answered out.
func lawStep(s *model, in asked, out answered) []any {
	switch {
	case in.m != nil:
		return applyStep(s, in.m, out)
	case in.op != "":
		want, ok := s.receipts[in.op]
		if ok != (out.receipt != nil) || ok && !sameReceipt(out.receipt, &want) {
			return nil
		}
	case in.key != "":
		want, ok := s.values[in.key]
		if ok != (out.value != nil) || ok && !bytes.Equal(out.value, want) {
			return nil
		}
	case out.observed != s.state:
		return nil
	}
	return []any{s}
}

func applyStep(s *model, m *sdk.Mutation, out answered) []any {
	d := s.decide(m)
	after := s
	if d.Code == sdk.Accepted || d.Code == sdk.Quarantined {
		after = s.clone()
		after.carryOut(m, &d)
	}
	if out.unknown {
		return []any{s, after}
	}
	// An own echo: the call was carried out by an earlier attempt of itself.
	if out.code != d.Code && !(out.code == sdk.Replayed && d.Code == sdk.Accepted) {
		return nil
	}
	if !d.Code.Ok() && out.observed != d.Next {
		return nil
	}
	if d.Receipt != nil && (out.receipt == nil || !sameReceipt(out.receipt, d.Receipt)) {
		return nil
	}
	return []any{after}
}
