package mutant

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/sdk"
)

// store is a handle.
type store struct {
	data      *data
	namespace string
	opts      sdk.OpenOptions
	desc      sdk.Description
	isClosed  atomic.Bool
	memo      sync.Map // what flaws keep in the handle
}

const (
	maxEffects, maxValue, maxTotal, maxQuarantine = 16, 4 << 10, 32 << 10, 20
)

func describe(native bool) sdk.Description {
	yes := sdk.Declared{Support: sdk.Supported}
	d := sdk.Description{Name: "mutant", Version: "1", Backend: "Go map", Environment: sdk.Embedded, Kinds: sdk.PortableKinds(),
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable: yes, sdk.CapShared: yes, sdk.CapApplyTx: yes, sdk.CapParallel: yes,
			sdk.CapNativeEffects: {Support: sdk.NotSupported, Reason: "a map has no statements"},
			sdk.CapDial:          {Support: sdk.NotSupported, Reason: "nothing goes over a wire"},
		},
		Limits: sdk.Limits{Effects: maxEffects, ValueBytes: maxValue, TotalBytes: maxTotal, Quarantine: maxQuarantine}}
	if native {
		d.Kinds = append(d.Kinds, kindNative)
		d.Capabilities[sdk.CapNativeEffects] = yes
	}
	return d
}

func (s *store) Describe() sdk.Description { return s.desc }

func (s *store) Close() error {
	if s.isClosed.Swap(true) {
		if s.data.flaws.shut != nil {
			return s.data.flaws.shut(s.data, s)
		}
		return nil
	}
	s.data.mu.Lock()
	s.data.handles--
	last := s.data.handles == 0
	s.data.mu.Unlock()
	if last {
		s.data.each(s.data.flaws.closed)
	}
	if s.data.flaws.shut != nil {
		return s.data.flaws.shut(s.data, nil)
	}
	return nil
}

func (s *store) Probe(ctx context.Context) error {
	if err := s.ready(ctx, false); err != nil {
		return err
	}
	if s.data.flaws.probe != nil {
		s.data.flaws.probe(s, ctx)
	}
	return nil
}

func (s *store) ready(ctx context.Context, write bool) error {
	f := &s.data.flaws
	if s.isClosed.Load() && !f.closedAnswers {
		return sdk.Errorf(sdk.Closed, "store", "the handle was closed")
	}
	if err := ctx.Err(); err != nil && !s.deaf(ctx, write) && !f.lateContext {
		return sdk.Errorf(sdk.NotApplied, "", "nothing was done: %w", err)
	}
	return nil
}

// deaf reports whether this call takes no notice of its context.
func (s *store) deaf(ctx context.Context, write bool) bool {
	f := &s.data.flaws
	_, deadline := ctx.Deadline()
	return f.noContext || f.readsNoCtx && !write || f.noDeadline && deadline
}

// acquire finds the record of r and its lock.
func (s *store) acquire(ctx context.Context, r sdk.ResourceID, write bool) (*record, func(), error) {
	if err := s.ready(ctx, write); err != nil {
		return nil, nil, err
	}
	f := &s.data.flaws
	done := ctx.Done()
	if s.deaf(ctx, write) {
		done = nil
	}
	locks := make([]chan struct{}, 0, 2)
	if f.extra != nil {
		if l := f.extra(s.data, r, write); l != nil {
			locks = append(locks, l)
		}
	}
	rec := s.data.record(s.namespace, r)
	locks = append(locks, rec.lock)
	for i, l := range locks {
		select {
		case l <- struct{}{}:
		case <-done:
			for _, held := range locks[:i] {
				<-held
			}
			return nil, nil, sdk.Errorf(sdk.NotApplied, "", "nothing was done: %w", ctx.Err())
		}
	}
	return rec, func() {
		for _, held := range locks {
			<-held
		}
	}, nil
}

// fence is the state of a record, or FENCE_REGRESSION where it is missing
// beside receipts.
func (s *store) fence(rec *record) (sdk.FenceState, error) {
	if rec.state.Absent() && len(rec.receipts) > 0 && !s.data.flaws.blindToDamage {
		e := sdk.Errorf(sdk.FenceRegression, "fence", "missing beside receipts; stop writers and raise the registry's floor")
		e.Alarm = true
		return sdk.FenceState{}, e
	}
	return rec.state, nil
}

func (s *store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	f := &s.data.flaws
	check := s.desc.Check
	if f.check != nil {
		check = func(a sdk.Admission) (*sdk.Mutation, error) { return f.check(&s.desc, a) }
	}
	m, err := check(a)
	if err == nil {
		err = s.checkNative(m)
	}
	if err != nil {
		return sdk.Refusal(err), err
	}
	if m == nil { // a flaw let the zero Admission through
		return sdk.Outcome{Code: sdk.Accepted, Receipt: &sdk.Receipt{}}, nil
	}
	if err := s.ready(ctx, true); err != nil {
		return sdk.Refusal(err), err
	}
	rec, unlock, err := s.acquire(ctx, m.Resource, true)
	if err != nil {
		if f.abandoned != nil && ctx.Err() != nil {
			err = f.abandoned(s, m, err)
		}
		return sdk.Refusal(err), err
	}
	out, err := s.locked(ctx, rec, m)
	unlock()
	if f.lateContext && ctx.Err() != nil {
		err := sdk.Errorf(sdk.NotApplied, "", "the context ended: %w", ctx.Err())
		return sdk.Refusal(err), err
	}
	if f.answer != nil {
		return f.answer(s, m, out, err)
	}
	return out, err
}

// yield lets others run between two steps that belong together, until one of
// them has written, or for as long as nobody comes.
func yield(rec *record) {
	before := rec.state
	for i := 0; i < 40 && rec.state == before; i++ {
		<-rec.lock
		runtime.Gosched()
		rec.lock <- struct{}{}
	}
}

// locked decides and carries out; rec's lock is held.
func (s *store) locked(ctx context.Context, rec *record, m *sdk.Mutation) (sdk.Outcome, error) {
	f := &s.data.flaws
	state, err := s.fence(rec)
	if err != nil {
		return sdk.Refusal(err), err
	}
	if f.seen != nil {
		state = f.seen(s, m, state)
	}
	prior := s.data.receiptOf(rec, m.Resource, m.Operation)
	if f.prior != nil {
		prior = f.prior(rec, m)
	}
	if f.before != nil {
		f.before(s, rec, m)
	}
	if f.unlocked != nil && f.unlocked(state, m) {
		yield(rec)
	}
	judge := honest
	if f.judge != nil {
		judge = f.judge
	}
	d := judge(state, prior, m)
	if f.bend != nil {
		f.bend(&d, state, prior, m)
	}
	switch d.Code {
	case sdk.Accepted:
		if err := s.carryOut(ctx, rec, m, &d); err != nil {
			return sdk.Refusal(err), err
		}
	case sdk.Quarantined:
		s.putQuarantine(rec, m)
	}
	if d.Receipt != nil && !f.aliased {
		c := *d.Receipt
		c.Result = bytes.Clone(c.Result)
		d.Receipt = &c
	}
	return d.Outcome()
}

// carryOut writes an accepted mutation.
func (s *store) carryOut(ctx context.Context, rec *record, m *sdk.Mutation, d *sdk.Decision) error {
	f := &s.data.flaws
	if d.Receipt == nil {
		d.Receipt = receiptOf(m)
	}
	if err := s.runHook(ctx, m, d); err != nil {
		return err
	}
	if err := s.nativeFails(m); err != nil {
		return err
	}
	before := rec.state
	if f.fenceFirst {
		rec.state = d.Next
		yield(rec)
	}
	apply := effects
	if f.apply != nil {
		apply = f.apply
	}
	if err := apply(s, rec, m); err != nil {
		return err
	}
	kept := *d.Receipt
	if !f.aliased {
		kept.Result = bytes.Clone(kept.Result)
	}
	s.data.putReceipt(rec, m, &kept)
	if f.fenceLast {
		yield(rec)
	}
	if !f.fenceFirst {
		rec.state = d.Next
	}
	rec.before, rec.writer = before, s
	if f.committed != nil {
		f.committed(s, rec, m, &kept)
	}
	return nil
}

// runHook runs the caller's code, whose result goes into the receipt.
func (s *store) runHook(ctx context.Context, m *sdk.Mutation, d *sdk.Decision) error {
	f := &s.data.flaws
	if m.Hook == nil || f.hookIgnored {
		return nil
	}
	result, err := m.Hook(ctx, nil)
	switch {
	case f.hookErrorKept:
	case err != nil:
		return sdk.Errorf(sdk.NotApplied, "hook", "%w", err)
	case len(result) > sdk.MaxResultBytes:
		return sdk.Errorf(sdk.TooLarge, "result", "%d bytes; a receipt keeps up to %d", len(result), sdk.MaxResultBytes)
	case ctx.Err() != nil && !s.deaf(ctx, true) && !f.lateContext:
		return sdk.Errorf(sdk.NotApplied, "", "nothing was applied: %w", ctx.Err())
	}
	if f.hookResult != nil {
		result = f.hookResult(result)
	}
	d.Receipt.Result = result
	return nil
}

func receiptOf(m *sdk.Mutation) *sdk.Receipt {
	return &sdk.Receipt{Resource: m.Resource, Operation: m.Operation, Fence: m.Fence, Segment: m.Segment,
		Root: m.Root, Grant: m.Grant, Payload: m.Payload, Owner: m.Owner, Time: m.Time, Result: m.Result}
}

// effects carries out what a mutation asks for.
func effects(s *store, rec *record, m *sdk.Mutation) error {
	for _, e := range m.Effects {
		s.effect(rec, m, e)
	}
	return nil
}

func (s *store) effect(rec *record, m *sdk.Mutation, e sdk.Effect) {
	switch e.Kind {
	case sdk.KindPut:
		if key, value, err := sdk.ParsePut(e.Body); err == nil {
			if !s.data.flaws.aliased {
				value = append([]byte{}, value...)
			}
			s.data.putValue(rec, m.Resource, key, value)
		}
	case sdk.KindDelete:
		s.data.putValue(rec, m.Resource, string(e.Body), nil)
	case sdk.KindResolve:
		if key, err := sdk.ParseResolve(e.Body); err == nil && rec.quarantine[key] != nil && rec.quarantine[key].ResolvedBy == "" {
			rec.quarantine[key].ResolvedBy = m.Operation
		}
	case kindNative:
		s.applyNative(rec, e)
	}
}
