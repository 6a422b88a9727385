package spannerstore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
)

// Version is this adapter's.
const Version = "1.0.0"

// Layout is what the database's own record says.
const Layout = "tables.v1"

// Limits of one mutation and of the quarantine of one resource.
const (
	MaxEffects    = 1000
	MaxValueBytes = 8 << 20
	MaxTotalBytes = 32 << 20
	MaxQuarantine = 1000
	// MaxCells is Spanner's limit of mutations in a commit: rows times columns.
	MaxCells = 80_000
)

// Store is a handle on a database. It implements sdk.FencedStore.
type Store struct {
	namespace string
	opts      Options
	desc      sdk.Description
	counted   bool          // countCommits sees the client's requests
	one       chan struct{} // not nil: one transaction at a time

	// connect makes another client; nil where the client was given.
	connect func(context.Context) (*spanner.Client, error)

	mu      sync.Mutex
	client  *spanner.Client
	made    []*spanner.Client // by connect, to be closed
	closed  bool
	running sync.WaitGroup
}

func describe(o *Options) sdk.Description {
	d := sdk.Description{
		Name: "spanner", Version: Version, Backend: o.Backend, Environment: o.Environment, Layout: Layout,
		Kinds: append(sdk.PortableKinds(), KindWrite, KindDML),
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable:       {Support: sdk.Supported},
			sdk.CapShared:        {Support: sdk.Supported},
			sdk.CapApplyTx:       {Support: sdk.Supported},
			sdk.CapNativeEffects: {Support: sdk.Supported},
			sdk.CapParallel:      {Support: sdk.Supported},
			sdk.CapDial:          {Support: sdk.Supported},
		},
		Limits: sdk.Limits{Effects: MaxEffects, ValueBytes: MaxValueBytes, TotalBytes: MaxTotalBytes, Quarantine: MaxQuarantine},
	}
	if d.Backend == "" {
		d.Backend = "Spanner"
	}
	if n := o.Quarantine; n > 0 && n < MaxQuarantine {
		d.Limits.Quarantine = n
	}
	if d.Environment == "" {
		d.Environment = sdk.Live
	}
	if d.Environment == sdk.Emulator {
		d.Capabilities[sdk.CapParallel] = sdk.Declared{Support: sdk.NotSupported, Reason: "the emulator runs one transaction at a time"}
	}
	if !o.Dialled {
		d.Capabilities[sdk.CapDial] = sdk.Declared{Support: sdk.NotSupported, Reason: "the client was given; its transport is the team's"}
	}
	return d
}

// Describe implements sdk.FencedStore.
func (s *Store) Describe() sdk.Description {
	d := s.desc
	d.Kinds, d.Capabilities = slices.Clone(d.Kinds), maps.Clone(d.Capabilities)
	return d
}

// Close implements sdk.FencedStore; it waits for the calls under way.
func (s *Store) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	if !was {
		for _, c := range s.made {
			c.Close()
		}
	}
	return nil
}

func (s *Store) db() *spanner.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// renew replaces a client whose session is gone, which it would keep for days,
// and returns the one to use: the same if there is no other.
func (s *Store) renew(ctx context.Context, gone *spanner.Client) *spanner.Client {
	s.mu.Lock()
	now, closed := s.client, s.closed
	s.mu.Unlock()
	if now != gone || s.connect == nil || closed {
		return now
	}
	fresh, err := s.connect(ctx) // it may ask the server; others go on meanwhile
	if err != nil {
		return gone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != gone || s.closed {
		fresh.Close() // another call was faster
		return s.client
	}
	s.opts.Log().Warn("the session was gone; a new client was made", "database", fresh.DatabaseName())
	s.client, s.made = fresh, append(s.made, fresh)
	return fresh
}

func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return sdk.Errorf(sdk.NotApplied, "", "nothing was sent: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sdk.Errorf(sdk.Closed, "store", "the handle was closed")
	}
	s.running.Add(1)
	return nil
}

// reader is a transaction of either kind.
type reader interface {
	Read(ctx context.Context, table string, keys spanner.KeySet, columns []string) *spanner.RowIterator
	ReadWithOptions(ctx context.Context, table string, keys spanner.KeySet, columns []string, opts *spanner.ReadOptions) *spanner.RowIterator
}

// look reads the fence of r, and the receipt of op if it is not empty, in one
// request, of one moment; where there is no fence, another looks for what it left.
// FENCE_REGRESSION: there is no fence though its marker or a receipt is there.
func (s *Store) look(ctx context.Context, in func() reader, r sdk.ResourceID, op sdk.OperationID) (state sdk.FenceState, prior *sdk.Receipt, err error) {
	keys := []spanner.KeySet{s.key(r, kindFence, "")}
	if op != "" {
		keys = append(keys, s.key(r, kindReceipt, op))
	}
	err = in().Read(ctx, recordTable, spanner.KeySets(keys...), recordColumns).Do(func(row *spanner.Row) error {
		rec, err := parseRecord(row)
		if err != nil {
			return err
		}
		if rec.kind == kindFence {
			state, err = rec.fence()
		} else {
			prior, err = rec.receipt(r)
		}
		return err
	})
	if err != nil {
		return sdk.FenceState{}, nil, err
	}
	if !state.Absent() {
		return state, prior, nil
	}
	// The first row that the resource has: the fence, which may have come since
	// where this is no transaction, its marker, or a receipt.
	first := ""
	err = in().ReadWithOptions(ctx, recordTable, spanner.Key{s.namespace, string(r)}.AsPrefix(), fenceColumns[:4], &spanner.ReadOptions{Limit: 1}).Do(func(row *spanner.Row) error {
		if err := row.ColumnByName("Kind", &first); err != nil {
			return damaged("%w", err)
		}
		return nil
	})
	switch {
	case err != nil:
		return sdk.FenceState{}, nil, err
	case first == kindFence:
		return s.look(ctx, in, r, op)
	case first != "" || prior != nil:
		e := sdk.Errorf(sdk.FenceRegression, "fence", "missing though its marker or receipts are there: the row was deleted; stop writers and raise the registry's floor above every token issued")
		e.Alarm = true
		return sdk.FenceState{}, nil, e
	}
	return sdk.FenceState{}, nil, nil
}

// strong is a read of its own, as strong as reads are.
func (s *Store) strong() reader { return s.db().Single() }

// asked is readError, after a look at the tables where they may be the reason. If
// the session is gone the next call has another.
func (s *Store) asked(ctx context.Context, db *spanner.Client, err error) error {
	if isSessionGone(err) {
		s.renew(ctx, db)
	}
	if mayBeTables(err) {
		if terr := probeTables(ctx, db); terr != nil {
			return terr
		}
	}
	return readError(err)
}

func (s *Store) key(r sdk.ResourceID, kind string, op sdk.OperationID) spanner.Key {
	return spanner.Key{s.namespace, string(r), kind, string(op)}
}

// Inspect implements sdk.FencedStore.
func (s *Store) Inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	if err := r.Validate(); err != nil {
		return sdk.FenceState{}, err
	}
	if err := s.enter(ctx); err != nil {
		return sdk.FenceState{}, err
	}
	defer s.running.Done()
	db := s.db()
	state, _, err := s.look(ctx, func() reader { return db.Single() }, r, "")
	return state, s.asked(ctx, db, err)
}

// Receipt implements sdk.FencedStore.
func (s *Store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
	if err := r.Validate(); err != nil {
		return sdk.Receipt{}, err
	}
	if err := op.Validate(); err != nil {
		return sdk.Receipt{}, err
	}
	if err := s.enter(ctx); err != nil {
		return sdk.Receipt{}, err
	}
	defer s.running.Done()
	db := s.db()
	_, found, err := s.look(ctx, func() reader { return db.Single() }, r, op)
	if err != nil {
		return sdk.Receipt{}, s.asked(ctx, db, err)
	}
	if found == nil {
		return sdk.Receipt{}, sdk.Errorf(sdk.NotFound, "operation", "%q has no receipt at %q", op, r)
	}
	return *found, nil
}

// Read implements sdk.FencedStore.
func (s *Store) Read(ctx context.Context, r sdk.ResourceID, key string) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := sdk.ValidateKey(key); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.running.Done()
	db := s.db()
	row, err := db.Single().ReadRow(ctx, valueTable, spanner.Key{s.namespace, string(r), key}, []string{"Value"})
	if isMissing(err) {
		if _, _, err := s.look(ctx, func() reader { return db.Single() }, r, ""); err != nil {
			return nil, s.asked(ctx, db, err) // the fence was removed, and the value with it
		}
		return nil, sdk.Errorf(sdk.NotFound, "key", "%q is not set at %q", key, r)
	}
	var v []byte
	if err == nil {
		err = row.Columns(&v)
	}
	if err != nil {
		return nil, s.asked(ctx, db, err)
	}
	return notNil(v), nil
}

// Quarantined implements sdk.FencedStore. Primary keys are in its order.
func (s *Store) Quarantined(ctx context.Context, r sdk.ResourceID) ([]sdk.Quarantine, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.running.Done()
	db := s.db()
	var out []sdk.Quarantine
	err := db.Single().Read(ctx, quarantineTable, spanner.Key{s.namespace, string(r)}.AsPrefix(), quarantineColumns).Do(func(row *spanner.Row) error {
		q, err := parseQuarantine(row, r)
		out = append(out, q)
		return err
	})
	if err != nil {
		return nil, s.asked(ctx, db, err)
	}
	row, err := db.Single().ReadRow(ctx, droppedTable, spanner.Key{s.namespace, string(r)}, []string{"Records"})
	if isMissing(err) {
		return out, nil
	}
	var n int64
	if err == nil {
		err = row.Columns(&n)
	}
	if err != nil {
		return nil, s.asked(ctx, db, err)
	}
	return append(out, sdk.Quarantine{Resource: r, Dropped: uint64(n)}), nil
}
