package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

// schedule is one story of workers around one resource, in an order drawn from
// a seed. One schedule is sequential and depends on its seed and number alone,
// so that it can be played again; many run at the same time on resources of
// their own.
type schedule struct {
	c       *C
	number  int
	rng     *rand.Rand
	r       sdk.ResourceID
	handles []*handle
	reopen  func(ctx context.Context, old *handle) *handle // nil: workers change to another handle instead

	model   *model
	workers []*worker
	ops     map[sdk.OperationID]bool // every operation that was ever sent
	keys    map[string]bool
	late    []message // sent and not delivered yet

	// The model registry: tokens rise, one holder at a time, leases run out on
	// the model's clock.
	token  sdk.Token
	holder *worker
	now    int // seconds
	until  int // end of the holder's lease

	trace  func(format string, args ...any) // nil but for Replay
	steps  []step
	broken *breach
	counts Figures
}

// worker is one that asks for grants and writes. What it believes may be wrong:
// that is the point.
type worker struct {
	name    string
	handle  *handle
	owner   owner
	granted bool
	seg     sdk.Segment     // the last that it believes accepted
	pending *sdk.Mutation   // sent, and no answer was heard
	sent    []*sdk.Mutation // under this grant and earlier ones
	made    int             // operations so far
}

type message struct {
	from *worker
	m    *sdk.Mutation
}

// step is what happened, for a failure's excerpt.
type step struct {
	who, what string
	m         *sdk.Mutation
	want      sdk.Code
	out       sdk.Outcome
	err       error
	lost      bool // the answer was dropped
}

// breach is where the store and the model part.
type breach struct {
	law       sdk.Law
	got, want string
	where     string
}

const (
	leaseSeconds = 10
	minSteps     = 12
	maxSteps     = 20
)

func newSchedule(c *C, seed uint64, number int, handles []*handle) *schedule {
	s := &schedule{c: c, number: number, rng: rand.New(rand.NewPCG(seed, uint64(number))), r: c.resource(), handles: handles,
		model: newModel(), ops: map[sdk.OperationID]bool{}, keys: map[string]bool{}}
	s.token = []sdk.Token{0, 0, 8, 98, 1<<31 - 2, 1<<53 - 2, 1 << 53, 1<<62 - 1}[s.rng.IntN(8)]
	for i := range 2 + s.rng.IntN(3) {
		s.workers = append(s.workers, &worker{name: fmt.Sprintf("w%d", i+1), handle: handles[(number+i)%len(handles)]})
	}
	return s
}

// run plays the schedule and then compares everything that can be seen.
func (s *schedule) run(ctx context.Context) {
	n := minSteps + s.rng.IntN(maxSteps-minSteps+1)
	for range n {
		if s.broken != nil || ctx.Err() != nil {
			break
		}
		s.counts.Steps++
		s.act(ctx)
	}
	if ctx.Err() == nil {
		s.verify(ctx, s.handles[s.rng.IntN(len(s.handles))])
	}
	s.counts.Schedules++
}

// breach keeps the first thing that went otherwise.
func (s *schedule) breach(law sdk.Law, got, want string) {
	if s.broken == nil {
		s.broken = &breach{law: law, got: got, want: want, where: where()}
	}
	if s.trace != nil {
		s.trace("    otherwise than the laws have it: got %s, want %s", got, want)
	}
}

func (s *schedule) note(w *worker, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	s.steps = append(s.steps, step{who: w.name, what: what})
	if s.trace != nil {
		s.trace("%s", s.steps[len(s.steps)-1].String())
	}
}

// send delivers m and holds the answer against the model. Lost: the worker
// does not hear it.
func (s *schedule) send(ctx context.Context, w *worker, what string, m *sdk.Mutation, lost bool) sdk.Code {
	d := s.model.decide(m)
	s.ops[m.Operation] = true
	w.sent = append(w.sent, m)
	for _, e := range m.Effects {
		switch e.Kind {
		case sdk.KindPut:
			k, _, _ := sdk.ParsePut(e.Body)
			s.keys[k] = true
		case sdk.KindDelete:
			s.keys[string(e.Body)] = true
		}
	}
	out, err := w.handle.settle(ctx, m, d.Code)
	if ctx.Err() != nil {
		return out.Code
	}
	s.steps = append(s.steps, step{who: w.name, what: what, m: m, want: d.Code, out: out, err: err, lost: lost})
	if s.trace != nil {
		s.trace("%s", s.steps[len(s.steps)-1].String())
	}
	s.judge(m, &d, out, err)
	s.model.carryOut(m, &d)
	if d.Code == sdk.Accepted && !lost {
		w.heard(m)
	}
	return out.Code
}

// heard is a worker that learns that m is in the store.
func (w *worker) heard(m *sdk.Mutation) {
	if m.Fence == w.owner.fence {
		w.seg = max(w.seg, m.Segment)
	}
	if w.pending != nil && w.pending.Operation == m.Operation {
		w.pending = nil
	}
}

// judge compares an answer with the model's.
func (s *schedule) judge(m *sdk.Mutation, d *sdk.Decision, out sdk.Outcome, err error) {
	if out.Code.Ok() && m.Fence < s.model.state.Highest {
		s.counts.StaleAccepted++
	}
	if out.Code != d.Code {
		s.breach(verdictLaw(m, d, s.model.state), describeAnswer(out, err), d.Code.String()+" at "+showState(s.model.state))
		return
	}
	if d.Code != sdk.Accepted && d.Code != sdk.Replayed && out.Observed != d.Next {
		s.breach(verdictLaw(m, d, s.model.state), d.Code.String()+" with observed "+showState(out.Observed), "observed "+showState(d.Next))
	}
	switch {
	case d.Receipt == nil && out.Receipt == nil:
	case d.Receipt == nil || out.Receipt == nil || !sameReceipt(out.Receipt, d.Receipt):
		s.counts.ReceiptMismatches++
		s.breach(verdictLaw(m, d, s.model.state), d.Code.String()+" with "+showReceipt(out.Receipt), showReceipt(d.Receipt))
	}
}

func sameReceipt(a, b *sdk.Receipt) bool {
	return a.Resource == b.Resource && a.Operation == b.Operation && a.Fence == b.Fence && a.Segment == b.Segment && a.Root == b.Root &&
		a.Grant == b.Grant && a.Payload == b.Payload && a.Owner == b.Owner && a.Time.Equal(b.Time) && string(a.Result) == string(b.Result)
}

// verdictLaw is the law that a verdict rests on.
func verdictLaw(m *sdk.Mutation, d *sdk.Decision, s sdk.FenceState) sdk.Law {
	switch d.Code {
	case sdk.StaleOwner:
		return sdk.F1
	case sdk.Replayed:
		return sdk.F4
	case sdk.Quarantined, sdk.NotApplied:
		return sdk.F5
	case sdk.AlreadyApplied:
		return sdk.F10
	case sdk.FenceRegression:
		return sdk.F13
	}
	if m.Fence > s.Highest {
		return sdk.F2
	}
	return sdk.F3
}

// verify compares all that can be seen of the resource with the model.
func (s *schedule) verify(ctx context.Context, h *handle) {
	if got, err := h.inspect(ctx, s.r); err != nil || got != s.model.state {
		s.breach(sdk.F7, fmt.Sprintf("at the end Inspect: %s, error %v", showState(got), err), showState(s.model.state))
	}
	for _, op := range sortedKeys(s.ops) {
		got, err := h.receipt(ctx, s.r, op)
		want, accepted := s.model.receipts[op]
		switch {
		case !accepted && sdk.CodeOf(err) != sdk.NotFound:
			s.counts.ReceiptMismatches++
			s.breach(sdk.F1, fmt.Sprintf("at the end %s, error %v", showReceipt(&got), err), "no receipt of "+string(op)+", which was never accepted")
		case accepted && err != nil:
			s.counts.LostAccepted++
			s.breach(sdk.F9, fmt.Sprintf("at the end Receipt: %v", err), showReceipt(&want))
		case accepted && !sameReceipt(&got, &want):
			s.counts.ReceiptMismatches++
			s.breach(sdk.F10, "at the end "+showReceipt(&got), showReceipt(&want))
		}
	}
	for _, k := range sortedKeys(s.keys) {
		got, err := h.read(ctx, s.r, k)
		want, there := s.model.values[k]
		switch {
		case !there && sdk.CodeOf(err) != sdk.NotFound:
			s.counts.ReceiptMismatches++
			s.breach(sdk.F6, fmt.Sprintf("at the end key %q: %s, error %v", k, showBytes(got), err), "no such key")
		case there && err != nil:
			s.counts.LostAccepted++
			s.breach(sdk.F6, fmt.Sprintf("at the end key %q: %v", k, err), showBytes(want))
		case there && string(got) != string(want):
			s.counts.ReceiptMismatches++
			s.breach(sdk.F6, fmt.Sprintf("at the end key %q: %s", k, showBytes(got)), showBytes(want))
		}
	}
	got, err := h.quarantined(ctx, s.r)
	if g, w := quarantineLines(got), quarantineLines(s.model.records()); err != nil || orNone(g) != orNone(w) {
		s.counts.ReceiptMismatches++
		s.breach(sdk.F5, fmt.Sprintf("at the end %s, error %v", orNone(g), err), orNone(w))
	}
}

// String is the step in a line. It names nothing that differs between runs.
func (st step) String() string {
	if st.m == nil {
		return fmt.Sprintf("%-3s %s", st.who, st.what)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-3s %s: fence %s segment %s %s", st.who, st.what, st.m.Fence, st.m.Segment, showOperation(st.m))
	fmt.Fprintf(&b, " → %s", st.out.Code)
	if st.out.Code != st.want {
		fmt.Fprintf(&b, " (want %s)", st.want)
	}
	if st.lost {
		b.WriteString(", answer lost")
	}
	return b.String()
}

func showOperation(m *sdk.Mutation) string {
	if m.IsClaim() {
		return "claim"
	}
	return string(m.Operation)
}
