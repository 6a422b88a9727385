package mongostore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Limits of one mutation, and of the quarantine of one resource, in
// LayoutTransaction. MongoDB takes 16 MiB in a document and in an entry of its
// log, and advises at most 1,000 documents in a transaction.
const (
	MaxEffects    = 500
	MaxValueBytes = 8 << 20
	MaxTotalBytes = 12 << 20
	MaxQuarantine = 1000
)

// txStore is LayoutTransaction.
type txStore struct {
	collection
	client    *mongo.Client
	namespace string
	opts      sdk.OpenOptions
	desc      sdk.Description
	close     func() error

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	guesses map[sdk.ResourceID]sdk.FenceState // what this handle saw last; a guess to send on, no basis for a refusal
}

const maxGuesses = 4096

func openTransaction(ctx context.Context, client *mongo.Client, c collection, d sdk.Description, o *Options) (sdk.FencedStore, error) {
	if c.kind == standalone {
		return nil, sdk.Errorf(sdk.Unsuitable, "layout", "transactions need a replica set, and the server is none; a replica set of one member will do, or take layout=%s", LayoutDocument)
	}
	d.Layout = transactionLayout
	d.Kinds = append(sdk.PortableKinds(), KindWrite)
	d.Capabilities[sdk.CapApplyTx] = sdk.Declared{Support: sdk.Supported}
	d.Capabilities[sdk.CapNativeEffects] = sdk.Declared{Support: sdk.Supported}
	d.Capabilities[sdk.CapParallel] = sdk.Declared{Support: sdk.Supported}
	d.Limits = sdk.Limits{Effects: MaxEffects, ValueBytes: MaxValueBytes, TotalBytes: MaxTotalBytes, Quarantine: MaxQuarantine}
	namespace, base, _, err := o.ParseNamespace()
	if err != nil {
		return nil, err
	}
	s := &txStore{collection: c, client: client, namespace: namespace, opts: o.OpenOptions, desc: d, close: o.close, guesses: map[sdk.ResourceID]sdk.FenceState{}}
	if err := s.claimPlace(ctx, base); err != nil {
		return nil, err
	}
	return s, nil
}

// place is the collection's own record, in the form of package cas, so that each
// layout knows a collection of the other.
type place struct {
	Schema    string `json:"schema"`
	Layout    string `json:"layout"`
	Namespace string `json:"namespace"`
}

const (
	placeName   = "store"
	placeSchema = "fencedstore.store.v1"
)

func (s *txStore) claimPlace(ctx context.Context, base string) error {
	docs := &documents{s.collection}
	body, _, err := docs.Get(ctx, placeName)
	if sdk.CodeOf(err) == sdk.NotFound {
		mine, merr := json.Marshal(place{placeSchema, s.desc.Layout, base})
		if merr != nil {
			return sdk.Errorf(sdk.Invalid, placeName, "%w", merr)
		}
		if _, _, err := docs.PutIf(ctx, placeName, mine, ""); err != nil && sdk.CodeOf(err) != sdk.MutationUnknown {
			return err
		}
		body, _, err = docs.Get(ctx, placeName)
	}
	if err != nil {
		return err
	}
	var p place
	if err := json.Unmarshal(body, &p, json.RejectUnknownMembers(true)); err != nil {
		return sdk.Errorf(sdk.Unsuitable, placeName, "a damaged record: %w", err)
	}
	switch {
	case p.Schema != placeSchema:
		return sdk.Errorf(sdk.Unsuitable, placeName, "schema %q is not %q: written by another program or a newer version", p.Schema, placeSchema)
	case p.Layout != s.desc.Layout:
		return sdk.Errorf(sdk.Unsuitable, "layout", "this collection has %q, not %q", p.Layout, s.desc.Layout)
	case p.Namespace != base:
		return sdk.Errorf(sdk.Unsuitable, "namespace", "%q; this collection was made with %q and a resource has one fence", base, p.Namespace)
	}
	return nil
}

// Describe implements sdk.FencedStore.
func (s *txStore) Describe() sdk.Description {
	d := s.desc
	d.Kinds, d.Capabilities = slices.Clone(d.Kinds), maps.Clone(d.Capabilities)
	return d
}

// Close implements sdk.FencedStore; it waits for the calls under way.
func (s *txStore) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	if was || s.close == nil {
		return nil
	}
	return s.close()
}

func (s *txStore) enter(ctx context.Context) error {
	if err := ended(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sdk.Errorf(sdk.Closed, "store", "the handle was closed")
	}
	s.running.Add(1)
	return nil
}

func (s *txStore) guess(r sdk.ResourceID) (sdk.FenceState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.guesses[r]
	return g, ok
}

func (s *txStore) remember(r sdk.ResourceID, state sdk.FenceState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.guesses) >= maxGuesses {
		clear(s.guesses)
	}
	s.guesses[r] = state
}

func (s *txStore) forget(r sdk.ResourceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guesses, r)
}

// look reads fence, marker and the receipt of op (if not empty), linearizable.
// The three are read in the order of their _id, so a receipt is never older than
// the fence; one that is newer looks like a fence that went down, and then all
// is read again.
func (s *txStore) look(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (state sdk.FenceState, receipt *sdk.Receipt, err error) {
	for range 3 {
		var torn bool
		if state, receipt, torn, err = s.lookOnce(ctx, r, op); err != nil || !torn {
			return state, receipt, err
		}
	}
	if state.Absent() {
		e := sdk.Errorf(sdk.FenceRegression, "fence", "missing though its marker is there: the document was deleted; stop writers and raise the registry's floor above every token issued")
		e.Alarm = true
		return sdk.FenceState{}, nil, e
	}
	return state, receipt, nil // Decide sees what is wrong with it
}

func (s *txStore) lookOnce(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (state sdk.FenceState, receipt *sdk.Receipt, torn bool, err error) {
	n := names{s.namespace, r}
	ids := bson.A{n.fence(), n.marker()}
	if op != "" {
		ids = append(ids, n.receipt(op))
	}
	byID := bson.D{{Key: "_id", Value: 1}}
	found, err := s.find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, 3, bson.E{Key: "sort", Value: byID}, bson.E{Key: "hint", Value: byID})
	if err != nil {
		return state, nil, false, err
	}
	marked := false
	for _, raw := range found {
		switch id, _ := raw.Lookup("_id").StringValueOK(); id {
		case n.fence():
			state, err = parseFence(raw)
		case n.marker():
			marked = true
		default:
			receipt, err = parseReceipt(raw, r, op)
		}
		if err != nil {
			return sdk.FenceState{}, nil, false, err
		}
	}
	torn = state.Absent() && (marked || receipt != nil) ||
		receipt != nil && (receipt.Fence > state.Highest || receipt.Fence == state.Highest && receipt.Segment > state.Segment)
	return state, receipt, torn, nil
}

// Inspect implements sdk.FencedStore.
func (s *txStore) Inspect(ctx context.Context, r sdk.ResourceID) (sdk.FenceState, error) {
	if err := r.Validate(); err != nil {
		return sdk.FenceState{}, err
	}
	if err := s.enter(ctx); err != nil {
		return sdk.FenceState{}, err
	}
	defer s.running.Done()
	state, _, err := s.look(ctx, r, "")
	return state, err
}

// Receipt implements sdk.FencedStore.
func (s *txStore) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (sdk.Receipt, error) {
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
	_, receipt, err := s.look(ctx, r, op)
	if err != nil {
		return sdk.Receipt{}, err
	}
	if receipt == nil {
		return sdk.Receipt{}, sdk.Errorf(sdk.NotFound, "operation", "%q has no receipt at %q", op, r)
	}
	return *receipt, nil
}

// Read implements sdk.FencedStore.
func (s *txStore) Read(ctx context.Context, r sdk.ResourceID, key string) ([]byte, error) {
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
	found, err := s.find(ctx, bson.D{{Key: "_id", Value: names{s.namespace, r}.value(key)}}, 1)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, sdk.Errorf(sdk.NotFound, "key", "%q is not set at %q", key, r)
	}
	rd := reader{raw: found[0], what: "value"}
	v := rd.bytes("value")
	if rd.err != nil {
		return nil, rd.err
	}
	return append([]byte{}, v...), nil
}

// Quarantined implements sdk.FencedStore.
func (s *txStore) Quarantined(ctx context.Context, r sdk.ResourceID) ([]sdk.Quarantine, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.running.Done()
	n := names{s.namespace, r}
	var out []sdk.Quarantine
	found, err := s.quarantines(ctx, n)
	if err != nil {
		return nil, err
	}
	for _, raw := range found {
		q, err := parseQuarantine(raw, r)
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	slices.SortFunc(out, compareQuarantine)
	dropped, err := s.find(ctx, bson.D{{Key: "_id", Value: n.dropped()}}, 1)
	if err != nil {
		return nil, err
	}
	if len(dropped) > 0 {
		rd := reader{raw: dropped[0], what: "dropped"}
		out = append(out, sdk.Quarantine{Resource: r, Dropped: uint64(rd.number("records"))})
		return out, rd.err
	}
	return out, nil
}

// quarantines reads the records of a resource, of which there are never many
// more than MaxQuarantine.
func (s *txStore) quarantines(ctx context.Context, n names) ([]bson.Raw, error) {
	from, to := n.quarantines()
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: to}}}}
	return s.find(ctx, filter, 2*MaxQuarantine)
}

// Probe implements sdk.FencedStore.
func (s *txStore) Probe(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	docs := &documents{s.collection}
	if err := docs.probe(ctx); err != nil {
		return err
	}
	return s.probeTransactions(ctx)
}
