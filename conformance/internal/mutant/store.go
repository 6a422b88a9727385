package mutant

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// flaws bend single steps of the store. The zero value bends none.
type flaws struct {
	// verdict replaces sdk.Decide.
	verdict func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision
	// after changes the decision before it is carried out.
	after func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation)
	// answer changes what Apply answers, after it was carried out.
	answer func(s *store, m *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error)
	// priorOf finds the receipt of an operation.
	priorOf func(r *record, m *sdk.Mutation) *sdk.Receipt
	// apply carries the effects out in place of the store.
	apply func(r *record, m *sdk.Mutation) error
	// committed runs once an accepted mutation is in the record.
	committed func(r *record, m *sdk.Mutation, receipt *sdk.Receipt)
	// opened runs when a handle opens, closed when the last one closes.
	opened, closed func(d *data)
	// key is the name under which a resource is kept.
	key func(namespace, resource string) string
	// describe changes the description, and with it the limits.
	describe func(*sdk.Description)
	// check replaces the first step of Apply.
	check func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error)

	unlocked         bool // reads, decides and writes without holding the lock in between
	torn             bool // lets others in between the fence and the rest
	oneLock          bool // one lock for all resources, held while a hook runs
	noContext        bool // looks at no context
	lateContext      bool // looks at the context after it has committed
	cachedFence      bool // each handle judges by the fence that it saw last
	cachedInspect    bool // Inspect answers what this handle saw first
	cachedReceipt    bool // so does Receipt where there was none
	cachedRead       bool // so does Read
	anyResource      bool // takes names that are not canonical
	aliased          bool // keeps the caller's bytes
	quarantineMemory bool // keeps quarantine in the handle
	noQuarantine     bool
	noLimit          bool // keeps no count of dropped quarantine records
	openAfterClose   bool
	blindToDamage    bool // takes a missing fence for a fresh resource
	hookIgnored      bool
	probeWrites      bool
}

// data is what the handles share.
type data struct {
	flaws   flaws
	mu      sync.Mutex
	base    string
	handles int
	records map[string]*record
	global  chan struct{}
	once    sync.Once
}

type record struct {
	lock       chan struct{}
	state      sdk.FenceState
	receipts   map[sdk.OperationID]*sdk.Receipt
	order      []sdk.OperationID
	values     map[string][]byte
	quarantine map[sdk.QuarantineKey]*sdk.Quarantine
	dropped    uint64
}

func newRecord() *record {
	return &record{lock: make(chan struct{}, 1), receipts: map[sdk.OperationID]*sdk.Receipt{},
		values: map[string][]byte{}, quarantine: map[sdk.QuarantineKey]*sdk.Quarantine{}}
}

type store struct {
	data      *data
	namespace string
	opts      sdk.OpenOptions
	desc      sdk.Description
	isClosed  atomic.Bool

	mu       sync.Mutex
	fences   map[sdk.ResourceID]sdk.FenceState
	inspects map[sdk.ResourceID]sdk.FenceState
	missing  map[string]bool
	reads    map[string][]byte
	private  map[sdk.ResourceID]map[sdk.QuarantineKey]*sdk.Quarantine
}

const (
	maxEffects, maxValue, maxTotal, maxQuarantine = 16, 4 << 10, 32 << 10, 20
)

func (d *data) open(_ context.Context, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	name, base, _, err := opts.ParseNamespace()
	if err != nil {
		return nil, err
	}
	d.once.Do(func() { d.global = make(chan struct{}, 1) })
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.base == "" {
		d.base = base
	}
	if d.base != base {
		return nil, sdk.Errorf(sdk.Unsuitable, "namespace", "%q is not %q", base, d.base)
	}
	if d.flaws.opened != nil {
		d.flaws.opened(d)
	}
	d.handles++
	s := &store{data: d, namespace: name, opts: opts, desc: describe(),
		fences: map[sdk.ResourceID]sdk.FenceState{}, inspects: map[sdk.ResourceID]sdk.FenceState{}, missing: map[string]bool{},
		reads: map[string][]byte{}, private: map[sdk.ResourceID]map[sdk.QuarantineKey]*sdk.Quarantine{}}
	if d.flaws.describe != nil {
		d.flaws.describe(&s.desc)
	}
	return s, nil
}

func describe() sdk.Description {
	yes := sdk.Declared{Support: sdk.Supported}
	return sdk.Description{Name: "mutant", Version: "1", Backend: "Go map", Environment: sdk.Embedded, Kinds: sdk.PortableKinds(),
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable: yes, sdk.CapShared: yes, sdk.CapApplyTx: yes, sdk.CapParallel: yes,
			sdk.CapNativeEffects: {Support: sdk.NotSupported, Reason: "a map has no statements"},
			sdk.CapDial:          {Support: sdk.NotSupported, Reason: "nothing goes over a wire"},
		},
		Limits: sdk.Limits{Effects: maxEffects, ValueBytes: maxValue, TotalBytes: maxTotal, Quarantine: maxQuarantine}}
}

func (d *data) damage(_ context.Context, r sdk.ResourceID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rec := d.records[d.key(sdk.DefaultNamespace, r)]; rec != nil {
		rec.lock <- struct{}{}
		rec.state = sdk.FenceState{}
		<-rec.lock
	}
	return nil
}

func (d *data) key(namespace string, r sdk.ResourceID) string {
	if d.flaws.key != nil {
		return d.flaws.key(namespace, string(r))
	}
	return namespace + "\x00" + string(r)
}

func (s *store) Describe() sdk.Description { return s.desc }

func (s *store) Close() error {
	if s.isClosed.Swap(true) {
		return nil
	}
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	if s.data.handles--; s.data.handles == 0 && s.data.flaws.closed != nil {
		s.data.flaws.closed(s.data)
	}
	return nil
}

func (s *store) Probe(ctx context.Context) error {
	if s.data.flaws.probeWrites {
		if rec, unlock, err := s.acquire(ctx, "probe"); err == nil {
			rec.state = sdk.FenceState{Highest: 1, Segment: 1}
			unlock()
		}
	}
	return s.ready(ctx)
}

func (s *store) ready(ctx context.Context) error {
	if s.isClosed.Load() && !s.data.flaws.openAfterClose {
		return sdk.Errorf(sdk.Closed, "store", "closed")
	}
	if err := ctx.Err(); err != nil && !s.data.flaws.noContext && !s.data.flaws.lateContext {
		return sdk.Errorf(sdk.NotApplied, "", "nothing was done: %w", err)
	}
	return nil
}

func (s *store) acquire(ctx context.Context, r sdk.ResourceID) (*record, func(), error) {
	if err := s.ready(ctx); err != nil {
		return nil, nil, err
	}
	f := &s.data.flaws
	if err := r.Validate(); err != nil && !f.anyResource {
		return nil, nil, err
	}
	s.data.mu.Lock()
	key := s.data.key(s.namespace, r)
	rec := s.data.records[key]
	if rec == nil {
		rec = newRecord()
		s.data.records[key] = rec
	}
	s.data.mu.Unlock()
	lock := rec.lock
	if f.oneLock {
		lock = s.data.global
	}
	done := ctx.Done()
	if f.noContext {
		done = nil
	}
	select {
	case lock <- struct{}{}:
		return rec, func() { <-lock }, nil
	case <-done:
		return nil, nil, sdk.Errorf(sdk.NotApplied, "", "nothing was done: %w", ctx.Err())
	}
}

func (s *store) fence(r *record) (sdk.FenceState, error) {
	if r.state.Absent() && len(r.receipts) > 0 && !s.data.flaws.blindToDamage {
		e := sdk.Errorf(sdk.FenceRegression, "fence", "missing beside receipts")
		e.Alarm = true
		return sdk.FenceState{}, e
	}
	return r.state, nil
}

func (s *store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	f := &s.data.flaws
	check := s.desc.Check
	if f.check != nil {
		check = func(a sdk.Admission) (*sdk.Mutation, error) { return f.check(&s.desc, a) }
	}
	m, err := check(a)
	if err != nil {
		return sdk.Refusal(err), err
	}
	rec, unlock, err := s.acquire(ctx, m.Resource)
	if err != nil {
		return sdk.Refusal(err), err
	}
	out, err := s.locked(ctx, rec, m, &unlock)
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

// yield lets others run between two steps that belong together.
func yield(rec *record, unlock *func()) {
	(*unlock)()
	for range 20 {
		runtime.Gosched()
	}
	rec.lock <- struct{}{}
	*unlock = func() { <-rec.lock }
}

func (s *store) locked(ctx context.Context, rec *record, m *sdk.Mutation, unlock *func()) (sdk.Outcome, error) {
	f := &s.data.flaws
	state, err := s.fence(rec)
	if err != nil {
		return sdk.Refusal(err), err
	}
	if f.cachedFence {
		state = s.remember(m.Resource, state)
	}
	prior := rec.receipts[m.Operation]
	if f.priorOf != nil {
		prior = f.priorOf(rec, m)
	}
	if f.unlocked {
		yield(rec, unlock)
	}
	d := s.judge(state, prior, m)
	switch d.Code {
	case sdk.Accepted:
		if err := s.carryOut(ctx, rec, m, &d, unlock); err != nil {
			return sdk.Refusal(err), err
		}
		if f.cachedFence {
			s.mu.Lock()
			s.fences[m.Resource] = d.Next
			s.mu.Unlock()
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

func (s *store) remember(r sdk.ResourceID, now sdk.FenceState) sdk.FenceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.fences[r]; ok {
		return old
	}
	s.fences[r] = now
	return now
}

func (s *store) judge(state sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
	f := &s.data.flaws
	var d sdk.Decision
	if f.verdict != nil {
		d = f.verdict(state, prior, m)
	} else {
		d = sdk.Decide(state, prior, sdk.NewAdmission(seal.Cut(), m))
	}
	if f.after != nil {
		f.after(&d, state, prior, m)
	}
	return d
}

// carryOut writes an accepted mutation.
func (s *store) carryOut(ctx context.Context, rec *record, m *sdk.Mutation, d *sdk.Decision, unlock *func()) error {
	f := &s.data.flaws
	if d.Receipt == nil {
		d.Receipt = receiptOf(m)
	}
	if m.Hook != nil && !f.hookIgnored {
		values := map[string][]byte{}
		result, err := m.Hook(ctx, &Tx{values})
		if err != nil {
			return sdk.Errorf(sdk.NotApplied, "hook", "%w", err)
		}
		if len(result) > sdk.MaxResultBytes {
			return sdk.Errorf(sdk.TooLarge, "result", "%d bytes", len(result))
		}
		if err := ctx.Err(); err != nil && !f.noContext && !f.lateContext {
			return sdk.Errorf(sdk.NotApplied, "", "nothing was applied: %w", err)
		}
		d.Receipt.Result = result
	}
	if f.torn {
		rec.state = d.Next
		yield(rec, unlock)
	}
	apply := effects
	if f.apply != nil {
		apply = f.apply
	}
	if err := apply(rec, m); err != nil {
		return err
	}
	kept := *d.Receipt
	if !f.aliased {
		kept.Result = bytes.Clone(kept.Result)
	} else {
		for _, e := range m.Effects {
			if e.Kind == sdk.KindPut {
				key, value, _ := sdk.ParsePut(e.Body)
				rec.values[key] = value
			}
		}
	}
	rec.receipts[m.Operation] = &kept
	rec.order = append(rec.order, m.Operation)
	if !f.torn {
		rec.state = d.Next
	}
	if f.committed != nil {
		f.committed(rec, m, &kept)
	}
	return nil
}

// Tx is what a hook gets: it does nothing that lasts.
type Tx struct{ values map[string][]byte }

func receiptOf(m *sdk.Mutation) *sdk.Receipt {
	return &sdk.Receipt{Resource: m.Resource, Operation: m.Operation, Fence: m.Fence, Segment: m.Segment,
		Root: m.Root, Grant: m.Grant, Payload: m.Payload, Owner: m.Owner, Time: m.Time, Result: m.Result}
}

// effects carries out what a mutation asks for.
func effects(rec *record, m *sdk.Mutation) error {
	for _, e := range m.Effects {
		oneEffect(rec, m, e)
	}
	return nil
}

func oneEffect(rec *record, m *sdk.Mutation, e sdk.Effect) {
	switch e.Kind {
	case sdk.KindPut:
		key, value, err := sdk.ParsePut(e.Body)
		if err == nil {
			rec.values[key] = append([]byte{}, value...)
		}
	case sdk.KindDelete:
		delete(rec.values, string(e.Body))
	case sdk.KindResolve:
		if key, err := sdk.ParseResolve(e.Body); err == nil && rec.quarantine[key] != nil && rec.quarantine[key].ResolvedBy == "" {
			rec.quarantine[key].ResolvedBy = m.Operation
		}
	}
}
