package cas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

// Layout is the layout of every store of this kit.
const Layout = "cas.v1"

// Limits of one mutation and of one resource.
const (
	MaxEffects    = 100
	MaxValueBytes = 8 << 20
	MaxTotalBytes = 16 << 20
	MaxQuarantine = 1000
)

// Adapter is what an adapter tells the kit.
type Adapter struct {
	Objects Objects
	// Description is completed by the kit: kinds, layout, limits (an adapter's own
	// are kept where they are lower), and what the kit cannot do.
	Description sdk.Description
	// Probe proves that the store decides conditions, atomically; nil proves
	// nothing.
	Probe func(ctx context.Context) error
	// MaxObjectBytes is the largest object that the store takes, 256 KiB at least (a
	// bucket of receipts with long names and results), 1 MiB or more
	// if 0; heads and values are kept below it.
	MaxObjectBytes int
	// Heads, if not nil, keeps each head beside the value of ContentKey, with up
	// to StateBytes for the head. A shadow's heads are always among Objects.
	Heads      Heads
	ContentKey string
	StateBytes int
	// Close releases what the adapter holds; may be nil.
	Close func() error
}

// Store is a FencedStore over an adapter's objects.
type Store struct {
	objects   Objects
	adapter   Adapter
	namespace string
	opts      sdk.OpenOptions
	desc      sdk.Description

	maxHead     int
	inline      int // the longest value or result that lies in the head itself
	together    Heads
	rests       cache[*rest]
	heads       cache[*known] // by resource: what this handle saw last
	directories cache[*directory]

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// known is a head that this handle has read or written.
type known struct {
	head    *head
	state   sdk.FenceState
	version string
}

// place is the object that says what a store is.
type place struct {
	Schema    string `json:"schema"`
	Layout    string `json:"layout"`
	Namespace string `json:"namespace"`
}

const placeSchema = "fencedstore.store.v1"

// Open opens a store, and makes its record if there is none.
//
//   - INVALID: the namespace.
//   - UNSUITABLE: the place was made with another namespace or layout.
//   - another code: the objects could not be read or written.
func Open(ctx context.Context, a Adapter, opts sdk.OpenOptions) (*Store, error) {
	namespace, base, shadow, err := opts.ParseNamespace()
	if err != nil {
		return nil, err
	}
	s := &Store{objects: a.Objects, adapter: a, namespace: namespace, opts: opts, desc: complete(a.Description)}
	s.heads.limit, s.directories.limit, s.rests.limit = 1024, 64, 256
	s.maxHead, s.inline = maxHeadBytes, InlineBytes
	if a.Heads != nil && !shadow {
		s.together, s.inline = a.Heads, inlineBeside
	}
	if n := a.MaxObjectBytes; n > 0 && n < s.maxHead {
		s.maxHead = n
	}
	if err := s.claimPlace(ctx, base); err != nil {
		return nil, err
	}
	return s, nil
}

func complete(d sdk.Description) sdk.Description {
	d.Kinds = sdk.PortableKinds()
	if d.Layout == "" {
		d.Layout = Layout
	}
	d.Capabilities = maps.Clone(d.Capabilities)
	if d.Capabilities == nil {
		d.Capabilities = map[sdk.Capability]sdk.Declared{}
	}
	d.Capabilities[sdk.CapParallel] = sdk.Declared{Support: sdk.NotSupported, Reason: "it runs no caller's code, so there is none to hold another resource up"}
	d.Capabilities[sdk.CapApplyTx] = sdk.Declared{Support: sdk.NotSupported, Reason: "compare-and-swap on one object is no transaction"}
	d.Capabilities[sdk.CapNativeEffects] = sdk.Declared{Support: sdk.NotSupported, Reason: "one object is swapped at a time; other objects cannot change with it"}
	lower := func(of *int, limit int) {
		if *of == 0 || *of > limit {
			*of = limit
		}
	}
	lower(&d.Limits.Effects, MaxEffects)
	lower(&d.Limits.ValueBytes, MaxValueBytes)
	lower(&d.Limits.Quarantine, MaxQuarantine)
	if d.Limits.TotalBytes == 0 || d.Limits.TotalBytes > MaxTotalBytes {
		d.Limits.TotalBytes = MaxTotalBytes
	}
	return d
}

func (s *Store) claimPlace(ctx context.Context, base string) error {
	body, err := json.Marshal(place{placeSchema, s.desc.Layout, base})
	if err != nil {
		return damaged(storeName, "%w", err)
	}
	got, _, err := s.objects.Get(ctx, storeName)
	if sdk.CodeOf(err) == sdk.NotFound {
		if _, _, err := s.objects.PutIf(ctx, storeName, body, ""); err != nil && sdk.CodeOf(err) != sdk.MutationUnknown {
			return err
		}
		got, _, err = s.objects.Get(ctx, storeName)
	}
	if err != nil {
		return err
	}
	var p place
	if err := unmarshal(storeName, got, &p); err != nil {
		return err
	}
	switch {
	case p.Schema != placeSchema:
		return sdk.Errorf(sdk.Unsuitable, storeName, "schema %q is not %q: written by another program or a newer version", p.Schema, placeSchema)
	case p.Layout != s.desc.Layout:
		return sdk.Errorf(sdk.Unsuitable, "layout", "this place has %q, not %q", p.Layout, s.desc.Layout)
	case p.Namespace != base:
		return sdk.Errorf(sdk.Unsuitable, "namespace", "%q; this place was made with %q and a resource has one fence", base, p.Namespace)
	}
	return nil
}

// enter begins a call; leave ends it.
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

func (s *Store) leave() { s.running.Done() }

// Close implements sdk.FencedStore; it waits for the calls under way.
func (s *Store) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	if was || s.adapter.Close == nil {
		return nil
	}
	return s.adapter.Close()
}

// Describe implements sdk.FencedStore.
func (s *Store) Describe() sdk.Description {
	d := s.desc
	d.Kinds, d.Capabilities = slices.Clone(d.Kinds), maps.Clone(d.Capabilities)
	return d
}

// Probe implements sdk.FencedStore.
func (s *Store) Probe(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if s.adapter.Probe == nil {
		return nil
	}
	return s.adapter.Probe(ctx)
}

// fresh reads the head of r; nil where there is none and never was one.
// FENCE_REGRESSION: there is none, and the marker says that there was (F7).
func (s *Store) fresh(ctx context.Context, r sdk.ResourceID) (*known, error) {
	n := namesOf(s.namespace, r)
	k, err := s.getHead(ctx, n, r)
	if k == nil && sdk.CodeOf(err) == sdk.NotFound || k != nil && !k.head.fenced() {
		s.heads.drop(string(r))
		if _, _, err := s.objects.Get(ctx, n.marker()); err != nil {
			if sdk.CodeOf(err) == sdk.NotFound {
				return k, nil
			}
			return nil, err
		}
		// The marker is written after the head, so a head that was made between the
		// two reads is there now.
		if k, err = s.getHead(ctx, n, r); sdk.CodeOf(err) == sdk.NotFound || k != nil && !k.head.fenced() {
			return nil, missingHead(n)
		}
	}
	if err != nil {
		return nil, err
	}
	s.keep(r, k)
	return k, nil
}

// getHead reads the head that is there, NOT_FOUND if there is none.
func (s *Store) getHead(ctx context.Context, n names, r sdk.ResourceID) (*known, error) {
	if s.together != nil {
		return s.joined(ctx, r)
	}
	body, version, err := s.objects.Get(ctx, n.head())
	if err != nil {
		return nil, err
	}
	h, state, err := parseHead(n.head(), body, r)
	if err != nil {
		return nil, err
	}
	return &known{h, state, version}, nil
}

// keep remembers a head, unless it holds much.
func (s *Store) keep(r sdk.ResourceID, k *known) {
	if k.head.Content != nil && k.head.Content.Size > keepContent {
		s.heads.drop(string(r))
		return
	}
	s.heads.put(string(r), k)
}

func missingHead(n names) error {
	e := sdk.Errorf(sdk.FenceRegression, n.head(), "missing though its marker is there: it was removed; stop writers and raise the registry's floor above every token issued")
	e.Alarm = true
	return e
}

// part reads an immutable part and holds it against what its reference says.
func (s *Store) part(ctx context.Context, p *part) ([]byte, error) {
	b, _, err := s.objects.Get(ctx, p.Name)
	if sdk.CodeOf(err) == sdk.NotFound {
		return nil, sdk.Errorf(sdk.Unsuitable, p.Name, "a part is missing that a head refers to: something else than this program removed it")
	}
	if err != nil {
		return nil, err
	}
	if len(b) != p.Size || sha256.Sum256(b) != p.SHA256 {
		return nil, damaged(p.Name, "%d bytes that are not the %d written", len(b), p.Size)
	}
	return b, nil
}

func (s *Store) content(ctx context.Context, c *content) ([]byte, error) {
	if c.Part == nil {
		return bytes.Clone(c.Inline), nil
	}
	return s.part(ctx, c.Part)
}

// read runs fn on the current head, nil if there is none; again when a part was
// missing because the head had moved on and the part been cleaned up.
func (s *Store) read(ctx context.Context, r sdk.ResourceID, fn func(*known) error) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	last := ""
	for {
		k, err := s.fresh(ctx, r)
		if err != nil {
			return err
		}
		err = fn(k)
		if k == nil || sdk.CodeOf(err) != sdk.Unsuitable || k.head.Nonce == last {
			return err
		}
		last = k.head.Nonce
	}
}

// Inspect implements sdk.FencedStore.
func (s *Store) Inspect(ctx context.Context, r sdk.ResourceID) (state sdk.FenceState, err error) {
	err = s.read(ctx, r, func(k *known) error {
		if k != nil {
			state = k.state
		}
		return s.answerable(ctx, r, k)
	})
	if err != nil {
		return sdk.FenceState{}, err
	}
	return state, nil
}

// Receipt implements sdk.FencedStore.
func (s *Store) Receipt(ctx context.Context, r sdk.ResourceID, op sdk.OperationID) (out sdk.Receipt, err error) {
	if err := op.Validate(); err != nil {
		return out, err
	}
	err = s.read(ctx, r, func(k *known) error {
		found, err := s.receiptOf(ctx, k, r, op)
		if err != nil {
			return err
		}
		if found == nil {
			return sdk.Errorf(sdk.NotFound, "operation", "%q has no receipt at %q", op, r)
		}
		out = *found
		return s.answerable(ctx, r, k)
	})
	if err != nil {
		return sdk.Receipt{}, err
	}
	return out, nil
}

// answerable makes sure of the marker before fence or receipt are told: to an
// Apply that lost its answer they are the answer.
func (s *Store) answerable(ctx context.Context, r sdk.ResourceID, k *known) error {
	n := namesOf(s.namespace, r)
	if err := s.marked(ctx, n, k); err != nil {
		return sdk.Errorf(sdk.NotApplied, n.marker(), "the marker of the first head could not be made sure of: %w", err)
	}
	return nil
}

// receiptOf finds the receipt of an operation, whole; nil if there is none.
func (s *Store) receiptOf(ctx context.Context, k *known, r sdk.ResourceID, op sdk.OperationID) (*sdk.Receipt, error) {
	if k == nil {
		return nil, nil
	}
	found := k.head.recent(op)
	if found == nil {
		var err error
		if found, err = s.archived(ctx, k.head, op); err != nil || found == nil {
			return nil, err
		}
	}
	out, err := found.receipt(r)
	if err != nil {
		return nil, err
	}
	out.Result, err = s.content(ctx, &found.Result)
	return out, err
}

func (h *head) recent(op sdk.OperationID) *receipt {
	for i := range h.Recent {
		if h.Recent[i].Operation == string(op) {
			return &h.Recent[i]
		}
	}
	return nil
}

// Read implements sdk.FencedStore.
func (s *Store) Read(ctx context.Context, r sdk.ResourceID, key string) (value []byte, err error) {
	if err := sdk.ValidateKey(key); err != nil {
		return nil, err
	}
	err = s.read(ctx, r, func(k *known) (err error) {
		if k != nil {
			if c, ok := k.head.Values[key]; ok {
				value, err = s.content(ctx, &c)
				return err
			}
		}
		return sdk.Errorf(sdk.NotFound, "key", "%q is not set at %q", key, r)
	})
	if err != nil {
		return nil, err
	}
	if value == nil {
		value = []byte{}
	}
	return value, nil
}
