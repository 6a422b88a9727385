// Package dirstore is an adapter small enough to read in one sitting: a
// directory with one JSON file per resource, for one process. It keeps every
// law (its test runs the conformance suite) and is meant to be read, not used:
// a resource's whole history is rewritten with every mutation.
//
// docs/writing-an-adapter.md goes through it.
package dirstore

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/sdk"
)

// Dir is a directory of resources. Handles that are to see the same data are
// opened from one Dir: the lock that makes Apply atomic lives in it.
type Dir struct {
	path string

	mu    sync.Mutex
	locks map[string]chan struct{} // by file; a full channel is a held lock
}

// New returns the directory at path, which is made when a store is opened.
func New(path string) *Dir { return &Dir{path: path, locks: map[string]chan struct{}{}} }

// Store is a handle on a Dir. It is an sdk.FencedStore.
type Store struct {
	dir    *Dir
	path   string // of this namespace's files
	desc   sdk.Description
	closed atomic.Bool
}

var _ sdk.FencedStore = (*Store)(nil)

// Open opens a handle; answers as sdk.OpenFunc.
func (d *Dir) Open(ctx context.Context, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	name, base, _, err := opts.ParseNamespace()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, beforeSending(err)
	}
	if err := d.claimNamespace(base); err != nil {
		return nil, err
	}
	s := &Store{dir: d, path: filepath.Join(d.path, name), desc: description()}
	if err := os.MkdirAll(s.path, 0o700); err != nil {
		return nil, beforeSending(err)
	}
	return s, nil
}

func description() sdk.Description {
	return sdk.Description{
		Name: "dirstore", Version: "1.0.0", Backend: "file system", Environment: sdk.Embedded,
		Kinds: sdk.PortableKinds(),
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable:       {Support: sdk.Supported},
			sdk.CapShared:        {Support: sdk.NotSupported, Reason: "its lock is held in the process that opened the directory"},
			sdk.CapApplyTx:       {Support: sdk.NotSupported, Reason: "a file has no transactions"},
			sdk.CapNativeEffects: {Support: sdk.NotSupported, Reason: "a file has no statements of its own"},
			sdk.CapParallel:      {Support: sdk.NotSupported, Reason: "it runs no caller's code"},
			sdk.CapDial:          {Support: sdk.NotSupported, Reason: "it is behind no network"},
		},
		Limits: sdk.Limits{Effects: 64, ValueBytes: 1 << 20, TotalBytes: 4 << 20, Quarantine: 16},
	}
}

// Describe returns what the store is.
func (s *Store) Describe() sdk.Description {
	d := s.desc
	d.Kinds, d.Capabilities = slices.Clone(d.Kinds), maps.Clone(d.Capabilities)
	return d
}

// Apply decides and commits in one atomic step: under the resource's lock it
// reads the file, asks the laws, and replaces the file by one rename.
func (s *Store) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	m, err := s.desc.Check(a) // INVALID, UNSUPPORTED, TOO_LARGE: nothing was sent
	if err == nil && s.closed.Load() {
		err = closed()
	}
	if err != nil {
		return sdk.Refusal(err), err
	}
	unlock, err := s.lock(ctx, m.Resource)
	if err != nil {
		return sdk.Refusal(err), err
	}
	defer unlock()
	rec, err := s.load(m.Resource)
	if err != nil {
		return sdk.Refusal(err), err
	}
	if !rec.State.Absent() {
		if err := s.mark(m.Resource); err != nil { // a crash may have been faster (F7)
			err = beforeSending(err)
			return sdk.Refusal(err), err
		}
	}
	d := sdk.Decide(rec.State, rec.receipt(m.Operation), a)
	switch d.Code {
	case sdk.Accepted:
		if err = rec.apply(m, &d); err == nil {
			err = s.save(ctx, m.Resource, rec)
		}
	case sdk.Quarantined:
		if rec.quarantine(m.Quarantine(), s.desc.Limits.Quarantine) {
			if err = s.save(ctx, m.Resource, rec); err != nil {
				err = beforeSending(err) // the verdict stands, its record may not (F5)
			}
		}
	}
	if err != nil {
		return sdk.Refusal(err), err
	}
	return d.Outcome()
}

// view calls f with the resource's record, under its lock: what was accepted
// before the call began is in it (F8).
func (s *Store) view(ctx context.Context, r sdk.ResourceID, f func(*record) error) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if s.closed.Load() {
		return closed()
	}
	unlock, err := s.lock(ctx, r)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := s.load(r)
	if err != nil {
		return err
	}
	return f(rec)
}

// Inspect returns the fence state.
func (s *Store) Inspect(ctx context.Context, r sdk.ResourceID) (state sdk.FenceState, err error) {
	err = s.view(ctx, r, func(rec *record) error {
		state = rec.State
		return nil
	})
	return state, err
}

// Receipt returns the operation's receipt.
func (s *Store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (receipt sdk.Receipt, err error) {
	if err := op.Validate(); err != nil {
		return receipt, err
	}
	err = s.view(ctx, r, func(rec *record) error {
		found := rec.receipt(op)
		if found == nil {
			return sdk.Errorf(sdk.NotFound, "operation", "%q has no receipt", op)
		}
		receipt = *found
		return nil
	})
	return receipt, err
}

// Read returns the value of a key.
func (s *Store) Read(ctx context.Context, r sdk.ResourceID, key string) (value []byte, err error) {
	if err := sdk.ValidateKey(key); err != nil {
		return nil, err
	}
	err = s.view(ctx, r, func(rec *record) error {
		v, ok := rec.Values[key]
		if !ok {
			return sdk.Errorf(sdk.NotFound, "key", "%q has no value", key)
		}
		value = append([]byte{}, v...)
		return nil
	})
	return value, err
}

// Quarantined returns the quarantine records.
func (s *Store) Quarantined(ctx context.Context, r sdk.ResourceID) (list []sdk.Quarantine, err error) {
	err = s.view(ctx, r, func(rec *record) error {
		list = slices.Clone(rec.Quarantined)
		slices.SortFunc(list, compareQuarantine)
		if rec.Dropped > 0 {
			list = append(list, sdk.Quarantine{Resource: r, Dropped: rec.Dropped})
		}
		return nil
	})
	return list, err
}

// Probe proves that a file can be replaced and read back.
func (s *Store) Probe(ctx context.Context) error {
	if s.closed.Load() {
		return closed()
	}
	if err := ctx.Err(); err != nil {
		return beforeSending(err)
	}
	return s.probe()
}

// Close closes the handle.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// lock waits for the resource's lock or for the end of ctx (O4).
func (s *Store) lock(ctx context.Context, r sdk.ResourceID) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, beforeSending(err)
	}
	file := s.file(r)
	s.dir.mu.Lock()
	c, ok := s.dir.locks[file]
	if !ok {
		c = make(chan struct{}, 1)
		s.dir.locks[file] = c
	}
	s.dir.mu.Unlock()
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, beforeSending(ctx.Err())
	}
}
