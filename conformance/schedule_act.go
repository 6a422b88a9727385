package conformance

import (
	"context"
	"fmt"

	"github.com/fencedstore/fencedstore/sdk"
)

// action is one thing that a worker may do next.
type action struct {
	weight int
	able   func(s *schedule, w *worker) bool
	do     func(s *schedule, ctx context.Context, w *worker)
}

func granted(_ *schedule, w *worker) bool { return w.granted }
func hasSent(_ *schedule, w *worker) bool { return w.granted && len(w.sent) > 0 }

// actions are weighted so that most schedules see a takeover or two, a lost
// answer, something late and something wrong.
var actions = []action{
	{40, func(s *schedule, w *worker) bool { return s.free() }, (*schedule).acquire},
	{30, func(_ *schedule, w *worker) bool { return w.granted && w.pending == nil }, (*schedule).write},
	{25, func(_ *schedule, w *worker) bool { return w.pending != nil }, (*schedule).retry},
	{10, func(s *schedule, w *worker) bool { return s.holder == w }, (*schedule).pauseBeyondLease},
	{10, hasSent, (*schedule).duplicate},
	{8, granted, (*schedule).sendLate},
	{14, func(s *schedule, _ *worker) bool { return len(s.late) > 0 }, (*schedule).deliver},
	{8, func(s *schedule, w *worker) bool { return w.granted && len(s.ops) > 0 }, (*schedule).redo},
	{8, func(s *schedule, w *worker) bool { return w.granted && len(s.ops) > 0 }, (*schedule).look},
	{14, hasSent, (*schedule).misbehave},
	{4, granted, (*schedule).claim},
	{4, func(s *schedule, w *worker) bool { return s.holder == w }, (*schedule).handOver},
	{10, func(s *schedule, w *worker) bool { return w.granted && len(s.model.quarantine) > 0 }, (*schedule).resolve},
	{4, granted, (*schedule).changeHandle},
}

// act draws a worker and one of the things that it can do. Somebody always can:
// the holder, or whoever asks the registry.
func (s *schedule) act(ctx context.Context) {
	s.now++
	var w *worker
	total := 0
	for total == 0 {
		w = s.workers[s.rng.IntN(len(s.workers))]
		for i := range actions {
			if actions[i].able(s, w) {
				total += actions[i].weight
			}
		}
	}
	pick := s.rng.IntN(total)
	for i := range actions {
		if !actions[i].able(s, w) {
			continue
		}
		if pick -= actions[i].weight; pick < 0 {
			actions[i].do(s, ctx, w)
			return
		}
	}
}

func (s *schedule) free() bool { return s.holder == nil || s.now >= s.until }

// acquire asks the registry, which issues a higher token. The new owner claims,
// or begins with its first write.
func (s *schedule) acquire(ctx context.Context, w *worker) {
	steps := []sdk.Token{1, 1, 1, 1, 2, 10, 1 << 20, 1 << 53}
	s.token = min(s.token+steps[s.rng.IntN(len(steps))], sdk.MaxToken-1<<20)
	for s.token <= w.owner.fence || s.holder != nil && s.token <= s.holder.owner.fence {
		s.token++
	}
	w.owner = ownerOf(s.r, s.token, "")
	w.owner.name = w.name
	w.owner.generations = sdk.Generations{Policy: uint64(1 + s.rng.IntN(3)), Trust: uint64(1 + s.rng.IntN(3))}
	w.granted, w.seg, w.pending = true, 0, nil
	s.holder, s.until = w, s.now+leaseSeconds
	s.note(w, "is granted fence %s", s.token)
	if s.rng.IntN(2) == 0 {
		s.claim(ctx, w)
	}
}

func (s *schedule) claim(ctx context.Context, w *worker) {
	s.send(ctx, w, "claims", w.owner.claim(), false)
}

// next is a new mutation at the worker's next position.
func (s *schedule) next(w *worker) *sdk.Mutation {
	w.made++
	op := sdk.OperationID(fmt.Sprintf("%s-op-%d", w.name, w.made))
	effects := []sdk.Effect{s.put(op)}
	switch s.rng.IntN(6) {
	case 0:
		effects = append(effects, sdk.Delete("shared"))
	case 1, 2:
		effects = append(effects, sdk.Put("shared", []byte(op)))
	case 3:
		effects = nil
	}
	return w.owner.mutation(w.seg+1, op, []byte("result of "+op), effects...)
}

func (s *schedule) put(op sdk.OperationID) sdk.Effect {
	return sdk.Put(fmt.Sprintf("k%d", s.rng.IntN(3)), []byte(op))
}

// write is the owner's next step; one answer in four is lost. A worker whose
// lease is over does not know it: that is the write that must be refused.
func (s *schedule) write(ctx context.Context, w *worker) {
	m := s.next(w)
	lost := s.rng.IntN(4) == 0
	if lost {
		w.pending = m
	}
	s.send(ctx, w, "writes", m, lost)
}

// retry sends the identical mutation again until its answer is heard.
func (s *schedule) retry(ctx context.Context, w *worker) {
	m := w.pending
	lost := s.rng.IntN(4) == 0
	code := s.send(ctx, w, "retries", m, lost)
	switch {
	case lost:
	case code.Ok():
		w.heard(m)
	default:
		w.pending = nil
	}
}

// pauseBeyondLease lets the holder stand still until its lease is over.
func (s *schedule) pauseBeyondLease(_ context.Context, w *worker) {
	s.now = s.until + s.rng.IntN(120)
	s.note(w, "stands still until its lease is over")
}

// duplicate is the network that delivers something once more.
func (s *schedule) duplicate(ctx context.Context, w *worker) {
	s.send(ctx, w, "is duplicated", w.sent[s.rng.IntN(len(w.sent))], true)
}

// sendLate puts a write on its way; it arrives later, out of order, or never.
func (s *schedule) sendLate(_ context.Context, w *worker) {
	m := s.next(w)
	if w.pending == nil {
		w.pending = m
	}
	s.late = append(s.late, message{w, m})
	s.note(w, "sends what is delayed: fence %s segment %s %s", m.Fence, m.Segment, m.Operation)
}

func (s *schedule) deliver(ctx context.Context, _ *worker) {
	i := s.rng.IntN(len(s.late))
	msg := s.late[i]
	if s.rng.IntN(4) > 0 { // otherwise it will arrive again
		s.late = append(s.late[:i], s.late[i+1:]...)
	}
	s.send(ctx, msg.from, "arrives late", msg.m, true)
}

// redo is a new owner that does what somebody may have done, under the same
// operation ID, as recovery does.
func (s *schedule) redo(ctx context.Context, w *worker) {
	var all []*sdk.Mutation
	for _, o := range s.workers {
		all = append(all, o.sent...)
	}
	if len(all) == 0 {
		s.look(ctx, w)
		return
	}
	m := all[s.rng.IntN(len(all))]
	if m.IsClaim() {
		s.claim(ctx, w)
		return
	}
	s.send(ctx, w, "redoes", w.owner.mutation(w.seg+1, m.Operation, m.Result, m.Effects...), false)
}

// look compares what one handle reads now.
func (s *schedule) look(ctx context.Context, w *worker) {
	s.note(w, "looks")
	if got, err := w.handle.inspect(ctx, s.r); err != nil || got != s.model.state {
		s.breach(sdk.F8, fmt.Sprintf("Inspect: %s, error %v", showState(got), err), showState(s.model.state))
	}
	ops := sortedKeys(s.ops)
	op := ops[s.rng.IntN(len(ops))]
	got, err := w.handle.receipt(ctx, s.r, op)
	if want, ok := s.model.receipts[op]; ok && (err != nil || !sameReceipt(&got, &want)) {
		s.breach(sdk.F8, fmt.Sprintf("Receipt: %s, error %v", showReceipt(&got), err), showReceipt(&want))
	} else if !ok && sdk.CodeOf(err) != sdk.NotFound {
		s.breach(sdk.F8, fmt.Sprintf("Receipt: %s, error %v", showReceipt(&got), err), "NOT_FOUND")
	}
	v, err := w.handle.read(ctx, s.r, "k0")
	if want, ok := s.model.values["k0"]; ok && (err != nil || string(v) != string(want)) {
		s.breach(sdk.F8, fmt.Sprintf("Read of \"k0\": %s, error %v", showBytes(v), err), showBytes(want))
	} else if !ok && sdk.CodeOf(err) != sdk.NotFound {
		s.breach(sdk.F8, fmt.Sprintf("Read of \"k0\": %s, error %v", showBytes(v), err), "NOT_FOUND")
	}
}

// misbehave is a worker that forgot what it had done, or a registry that issued
// a token twice.
func (s *schedule) misbehave(ctx context.Context, w *worker) {
	old := w.sent[s.rng.IntN(len(w.sent))]
	other := sdk.Put("k0", []byte("something else"))
	switch s.rng.IntN(6) {
	case 0:
		s.send(ctx, w, "sends another payload at an old position", w.owner.mutation(max(old.Segment, 1), old.Operation, nil, other), true)
	case 1:
		w.made++
		op := sdk.OperationID(fmt.Sprintf("%s-op-%d", w.name, w.made))
		s.send(ctx, w, "sends another operation at an old position", w.owner.mutation(max(w.seg, 1), op, nil, other), true)
	case 2:
		s.send(ctx, w, "sends an old operation with another payload", w.owner.mutation(w.seg+1, old.Operation, nil, other), true)
	case 3:
		m := s.next(w)
		m.Segment += sdk.Segment(1 + s.rng.IntN(3))
		s.send(ctx, w, "skips ahead", m, true)
	case 4:
		m := s.next(w)
		m.Root = sdk.SumDigest([]byte("another job"))
		s.send(ctx, w, "writes for another job", m, true)
	case 5:
		twin := ownerOf(s.r, w.owner.fence, "twin")
		s.send(ctx, w, "writes under a twin grant", twin.mutation(w.seg+1, old.Operation, old.Result, old.Effects...), true)
	}
}

func (s *schedule) handOver(_ context.Context, w *worker) {
	s.holder = nil
	s.note(w, "hands over")
}

// resolve settles a quarantine record.
func (s *schedule) resolve(ctx context.Context, w *worker) {
	records := s.model.records()
	q := records[s.rng.IntN(len(records))]
	w.made++
	op := sdk.OperationID(fmt.Sprintf("%s-op-%d", w.name, w.made))
	s.send(ctx, w, "settles a quarantine record", w.owner.mutation(w.seg+1, op, nil, sdk.Resolve(q), s.put(op)), false)
}

// changeHandle goes on through another handle, as after a restart.
func (s *schedule) changeHandle(ctx context.Context, w *worker) {
	i := s.rng.IntN(len(s.handles))
	if s.reopen != nil {
		w.handle = s.reopen(ctx, w.handle)
	} else {
		w.handle = s.handles[i]
	}
	s.note(w, "restarts")
}
