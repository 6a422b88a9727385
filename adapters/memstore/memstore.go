// Package memstore is the reference store: the laws over a map, safe for
// concurrent use, with nothing between them and the reader. It keeps nothing
// when the process ends, says so, and is therefore for tests only.
//
// Each resource has a lock of its own that Apply holds while it decides and
// commits (F6, F12); reads take the same lock (F8). Waiting for it ends with the
// context (O4).
package memstore

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/sdk"
)

// Limits of one mutation and of the quarantine of one resource.
const (
	MaxEffects    = 1000
	MaxValueBytes = 1 << 20
	MaxTotalBytes = 4 << 20
	MaxQuarantine = 1000
)

// Data is what one or more handles share, as the processes of a real store
// share its server.
type Data struct {
	mu         sync.Mutex
	base       string // the namespace that the data was created with
	namespaces map[string]map[sdk.ResourceID]*record
}

// record is one resource. The lock is a channel so that waiting for it can end
// with a context.
type record struct {
	lock       chan struct{}
	state      sdk.FenceState
	receipts   map[sdk.OperationID]*sdk.Receipt
	values     map[string][]byte
	quarantine map[sdk.QuarantineKey]*sdk.Quarantine
	dropped    uint64
}

// NewData returns empty data.
func NewData() *Data {
	return &Data{namespaces: map[string]map[sdk.ResourceID]*record{}}
}

// Store is a handle on Data. It implements sdk.FencedStore.
type Store struct {
	data      *Data
	namespace string
	desc      sdk.Description
	closed    atomic.Bool
}

// Open opens a handle. UNSUITABLE: the data was created with another namespace.
func (d *Data) Open(opts sdk.OpenOptions) (*Store, error) {
	name, base, _, err := opts.ParseNamespace()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.base == "" {
		d.base = base
	}
	if d.base != base {
		return nil, sdk.Errorf(sdk.Unsuitable, "namespace", "%q; this store was created with %q and a resource has one fence", base, d.base)
	}
	if d.namespaces[name] == nil {
		d.namespaces[name] = map[sdk.ResourceID]*record{}
	}
	return &Store{data: d, namespace: name, desc: describe()}, nil
}

// New returns a handle on new data.
func New() *Store {
	s, err := NewData().Open(sdk.OpenOptions{})
	if err != nil {
		panic(err) // the zero options are valid
	}
	return s
}

// Open opens the DSN "mem://", which is new data each time: see sdk.OpenFunc.
func Open(_ context.Context, dsn string, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	if dsn != "mem:" && dsn != "mem://" {
		return nil, sdk.Errorf(sdk.Invalid, "DSN", "%q is not \"mem://\"; a memory store has no name", dsn)
	}
	s, err := NewData().Open(opts)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func describe() sdk.Description {
	const memory = "it lives in this process's memory"
	return sdk.Description{
		Name: "mem", Version: "1", Backend: "Go map", Environment: sdk.Embedded,
		Kinds: sdk.PortableKinds(),
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable:       {Support: sdk.NotSupported, Reason: memory},
			sdk.CapShared:        {Support: sdk.NotSupported, Reason: memory},
			sdk.CapApplyTx:       {Support: sdk.Supported},
			sdk.CapNativeEffects: {Support: sdk.NotSupported, Reason: "a map has no statements of its own"},
			sdk.CapParallel:      {Support: sdk.Supported},
			sdk.CapDial:          {Support: sdk.NotSupported, Reason: "nothing goes over a wire"},
		},
		Limits: sdk.Limits{Effects: MaxEffects, ValueBytes: MaxValueBytes, TotalBytes: MaxTotalBytes, Quarantine: MaxQuarantine},
	}
}

// Describe implements sdk.FencedStore.
func (s *Store) Describe() sdk.Description {
	d := s.desc
	d.Kinds, d.Capabilities = slices.Clone(d.Kinds), maps.Clone(d.Capabilities)
	return d
}

// Close implements sdk.FencedStore. The data lives as long as something refers
// to it.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// Probe implements sdk.FencedStore: a map under a lock needs no proof.
func (s *Store) Probe(ctx context.Context) error { return s.ready(ctx) }

func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return sdk.Errorf(sdk.Closed, "store", "the handle was closed")
	}
	if err := ctx.Err(); err != nil {
		return sdk.Errorf(sdk.NotApplied, "", "nothing was done: %w", err)
	}
	return nil
}

// inHook is the key in the context of a hook that holds a resource's lock.
type inHook struct{ *record }

// acquire locks the record of r, which it makes if there is none.
func (s *Store) acquire(ctx context.Context, r sdk.ResourceID) (*record, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	s.data.mu.Lock()
	all := s.data.namespaces[s.namespace]
	rec := all[r]
	if rec == nil {
		rec = &record{lock: make(chan struct{}, 1), receipts: map[sdk.OperationID]*sdk.Receipt{},
			values: map[string][]byte{}, quarantine: map[sdk.QuarantineKey]*sdk.Quarantine{}}
		all[sdk.ResourceID(strings.Clone(string(r)))] = rec
	}
	s.data.mu.Unlock()
	if ctx.Value(inHook{rec}) != nil {
		return nil, sdk.Errorf(sdk.Invalid, "hook", "it calls the store for the resource that it works on, which would wait for itself; use its tx")
	}
	select {
	case rec.lock <- struct{}{}:
		return rec, nil
	case <-ctx.Done():
		return nil, sdk.Errorf(sdk.NotApplied, "", "nothing was done: %w", ctx.Err())
	}
}

func (rec *record) release() { <-rec.lock }

// fence returns the state, or FENCE_REGRESSION where it is missing beside
// receipts (F7).
func (rec *record) fence() (sdk.FenceState, error) {
	if rec.state.Absent() && len(rec.receipts) > 0 {
		return sdk.FenceState{}, sdk.Errorf(sdk.FenceRegression, "fence", "missing though there are %d receipts", len(rec.receipts))
	}
	return rec.state, nil
}

// Apply implements sdk.FencedStore.
func (s *Store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	m, err := s.desc.Check(a)
	if err != nil {
		return sdk.Refusal(err), err
	}
	rec, err := s.acquire(ctx, m.Resource)
	if err != nil {
		return sdk.Refusal(err), err
	}
	defer rec.release()
	state, err := rec.fence()
	if err != nil {
		return sdk.Refusal(err), err
	}
	d := sdk.Decide(state, rec.receipts[m.Operation], a)
	switch d.Code {
	case sdk.Accepted:
		if err := rec.commit(ctx, m, &d); err != nil {
			return sdk.Refusal(err), err
		}
	case sdk.Quarantined:
		rec.putQuarantine(m.Quarantine())
	}
	if d.Receipt != nil {
		c := copyReceipt(d.Receipt)
		d.Receipt = &c
	}
	return d.Outcome()
}

// commit carries an accepted decision out. Only the hook can fail, and it works
// on a copy of the values.
func (rec *record) commit(ctx context.Context, m *sdk.Mutation, d *sdk.Decision) error {
	if m.Hook != nil {
		tx := &Tx{values: maps.Clone(rec.values)}
		result, err := m.Hook(context.WithValue(ctx, inHook{rec}, true), tx)
		tx.done = true
		switch {
		case err != nil:
			return sdk.Errorf(sdk.NotApplied, "hook", "it failed, nothing was applied: %w", err)
		case len(result) > sdk.MaxResultBytes:
			return sdk.Errorf(sdk.TooLarge, "result", "%d bytes; a receipt keeps up to %d", len(result), sdk.MaxResultBytes)
		case ctx.Err() != nil:
			return sdk.Errorf(sdk.NotApplied, "", "nothing was applied: %w", ctx.Err())
		}
		d.Receipt.Result = result
		rec.values = tx.values
	}
	for _, e := range m.Effects {
		switch e.Kind {
		case sdk.KindPut:
			key, value, _ := sdk.ParsePut(e.Body) // checked by Mutation.Validate
			rec.values[key] = append([]byte{}, value...)
		case sdk.KindDelete:
			key, _ := sdk.ParseDelete(e.Body)
			delete(rec.values, key)
		case sdk.KindResolve:
			key, _ := sdk.ParseResolve(e.Body)
			if q := rec.quarantine[key]; q != nil && q.ResolvedBy == "" {
				q.ResolvedBy = m.Operation
			}
		}
	}
	kept := copyReceipt(d.Receipt)
	rec.receipts[m.Operation] = &kept
	rec.state = d.Next
	return nil
}

func (rec *record) putQuarantine(q sdk.Quarantine) {
	switch _, known := rec.quarantine[q.QuarantineKey]; {
	case known:
	case len(rec.quarantine) >= MaxQuarantine:
		rec.dropped++
	default:
		rec.quarantine[q.QuarantineKey] = &q
	}
}

func copyReceipt(r *sdk.Receipt) sdk.Receipt {
	c := *r
	c.Result = bytes.Clone(r.Result)
	return c
}

// Inspect implements sdk.FencedStore.
func (s *Store) Inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	rec, err := s.acquire(ctx, r)
	if err != nil {
		return sdk.FenceState{}, err
	}
	defer rec.release()
	return rec.fence()
}

// Receipt implements sdk.FencedStore.
func (s *Store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
	if err := op.Validate(); err != nil {
		return sdk.Receipt{}, err
	}
	rec, err := s.acquire(ctx, r)
	if err != nil {
		return sdk.Receipt{}, err
	}
	defer rec.release()
	got := rec.receipts[op]
	if got == nil {
		return sdk.Receipt{}, sdk.Errorf(sdk.NotFound, "operation", "%q has no receipt at %q", op, r)
	}
	return copyReceipt(got), nil
}

// Read implements sdk.FencedStore.
func (s *Store) Read(ctx context.Context, r sdk.ResourceID, key string) ([]byte, error) {
	if err := sdk.ValidateKey(key); err != nil {
		return nil, err
	}
	rec, err := s.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	defer rec.release()
	v, ok := rec.values[key]
	if !ok {
		return nil, sdk.Errorf(sdk.NotFound, "key", "%q is not set at %q", key, r)
	}
	return append([]byte{}, v...), nil
}

// Quarantined implements sdk.FencedStore.
func (s *Store) Quarantined(ctx context.Context, r sdk.ResourceID) ([]sdk.Quarantine, error) {
	rec, err := s.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	defer rec.release()
	var out []sdk.Quarantine
	for _, q := range rec.quarantine {
		out = append(out, *q)
	}
	slices.SortFunc(out, func(a, b sdk.Quarantine) int {
		return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Segment, b.Segment),
			cmp.Compare(a.Operation, b.Operation), bytes.Compare(a.Payload[:], b.Payload[:]))
	})
	if rec.dropped > 0 {
		out = append(out, sdk.Quarantine{Resource: r, Dropped: rec.dropped})
	}
	return out, nil
}
