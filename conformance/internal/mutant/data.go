package mutant

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
)

// data is what the handles of one target share.
type data struct {
	flaws flaws
	locks [8]chan struct{} // for flaws.extra

	mu      sync.Mutex
	base    string
	handles int
	records map[string]*record
	shared  map[string]*sdk.Receipt // of all resources, where flaws.receiptName is set
	flat    map[string][]byte       // likewise values
	native  map[string]int          // how often native effects were applied
	clock   int64                   // of record.used
}

// record is what is kept of a resource. Whoever holds lock may touch it.
type record struct {
	lock       chan struct{}
	state      sdk.FenceState
	receipts   map[sdk.OperationID]*sdk.Receipt
	order      []sdk.OperationID
	values     map[string][]byte
	quarantine map[sdk.QuarantineKey]*sdk.Quarantine
	dropped    uint64

	before  sdk.FenceState // the state one write ago
	writer  *store         // who wrote last
	pending []*sdk.Mutation
	undo    func() // takes the last write back
	used    int64  // when it was last written to; under the data's lock
}

func newData(f flaws) *data {
	d := &data{flaws: f, records: map[string]*record{}, shared: map[string]*sdk.Receipt{}, flat: map[string][]byte{}, native: map[string]int{}}
	for i := range d.locks {
		d.locks[i] = make(chan struct{}, 1)
	}
	return d
}

func newRecord() *record {
	r := &record{lock: make(chan struct{}, 1)}
	r.reset()
	return r
}

// reset makes it as if nothing had ever been written.
func (rec *record) reset() {
	rec.state, rec.before, rec.writer, rec.pending, rec.undo = sdk.FenceState{}, sdk.FenceState{}, nil, nil, nil
	rec.receipts, rec.order = map[sdk.OperationID]*sdk.Receipt{}, nil
	rec.values = map[string][]byte{}
	rec.quarantine, rec.dropped = map[sdk.QuarantineKey]*sdk.Quarantine{}, 0
}

func (d *data) open(_ context.Context, opts sdk.OpenOptions) (sdk.FencedStore, error) {
	name, base, _, err := opts.ParseNamespace()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.base == "" {
		d.base = base
	}
	if d.base != base && !d.flaws.anyNamespace {
		d.mu.Unlock()
		return nil, sdk.Errorf(sdk.Unsuitable, "namespace", "%q; the store was made with %q", base, d.base)
	}
	d.handles++
	d.mu.Unlock()
	d.each(d.flaws.opened)
	s := &store{data: d, namespace: name, opts: opts, desc: describe(d.flaws.native)}
	if d.flaws.describe != nil {
		d.flaws.describe(&s.desc)
	}
	return s, nil
}

// each runs f for every record that nobody holds.
func (d *data) each(f func(*record)) {
	if f == nil {
		return
	}
	d.mu.Lock()
	all := slices.Collect(maps.Values(d.records))
	d.mu.Unlock()
	for _, rec := range all {
		select {
		case rec.lock <- struct{}{}:
			f(rec)
			<-rec.lock
		default:
		}
	}
}

func (d *data) damage(_ context.Context, r sdk.ResourceID) error {
	d.mu.Lock()
	rec := d.records[d.key(sdk.DefaultNamespace, r)]
	d.mu.Unlock()
	if rec == nil {
		return nil
	}
	rec.lock <- struct{}{}
	rec.state = sdk.FenceState{}
	<-rec.lock
	return nil
}

func (d *data) key(namespace string, r sdk.ResourceID) string {
	if d.flaws.key != nil {
		return d.flaws.key(namespace, string(r))
	}
	return namespace + "\x00" + string(r)
}

func (d *data) record(namespace string, r sdk.ResourceID) *record {
	key := d.key(namespace, r)
	d.mu.Lock()
	defer d.mu.Unlock()
	rec := d.records[key]
	if rec == nil {
		rec = newRecord()
		d.records[key] = rec
	}
	return rec
}

// receiptOf finds the receipt of an operation.
func (d *data) receiptOf(rec *record, r sdk.ResourceID, op sdk.OperationID) *sdk.Receipt {
	if d.flaws.receiptName == nil {
		return rec.receipts[op]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shared[d.flaws.receiptName(string(r), string(op))]
}

func (d *data) putReceipt(rec *record, m *sdk.Mutation, kept *sdk.Receipt) {
	rec.receipts[m.Operation] = kept
	rec.order = append(rec.order, m.Operation)
	if d.flaws.receiptName != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.shared[d.flaws.receiptName(string(m.Resource), string(m.Operation))] = kept
	}
}

func (d *data) value(rec *record, r sdk.ResourceID, key string) ([]byte, bool) {
	if d.flaws.valueName == nil {
		v, ok := rec.values[key]
		return v, ok
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.flat[d.flaws.valueName(string(r), key)]
	return v, ok
}

// putValue sets key, or removes it where v is nil.
func (d *data) putValue(rec *record, r sdk.ResourceID, key string, v []byte) {
	in := rec.values
	if d.flaws.valueName != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		in, key = d.flat, d.flaws.valueName(string(r), key)
	}
	if v == nil {
		delete(in, key)
	} else {
		in[key] = v
	}
}
