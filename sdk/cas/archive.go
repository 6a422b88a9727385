package cas

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

// Receipts that leave the head go to buckets: immutable parts, each with the
// receipts whose operation hashes into its range. The directory, an immutable
// part too, lists the buckets in the order of their ranges, and of every receipt
// 16 bits of its hash: enough to say that an operation is not there without
// reading a bucket, but for one time in a thousand.

const (
	directorySchema = "fencedstore.directory.v1"
	// maxBucket is where a bucket is split in two.
	maxBucket = 64
)

type directory struct {
	Schema  string        `json:"schema"`
	Buckets []bucketEntry `json:"buckets"`
}

type bucketEntry struct {
	From         string `json:"from"` // first hash of its range; the next one's From ends it
	Part         part   `json:"part"`
	Fingerprints []byte `json:"fingerprints"` // 2 bytes big-endian each

	from uint64
}

type bucket struct {
	Schema   string    `json:"schema"`
	Receipts []receipt `json:"receipts"`
}

// opHash places an operation.
func opHash(op string) (place uint64, fingerprint uint16) {
	sum := sha256.Sum256([]byte(op))
	return binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint16(sum[8:])
}

func parseDirectory(name string, b []byte) (*directory, error) {
	var d directory
	if err := unmarshal(name, b, &d); err != nil {
		return nil, err
	}
	if d.Schema != directorySchema || len(d.Buckets) == 0 {
		return nil, damaged(name, "it is a %q with %d buckets", d.Schema, len(d.Buckets))
	}
	for i := range d.Buckets {
		e := &d.Buckets[i]
		var err error
		if e.from, err = sdk.ParseDecimal("from", e.From); err != nil {
			return nil, damaged(name, "%w", err)
		}
		if len(e.Fingerprints)%2 != 0 || i == 0 && e.from != 0 || i > 0 && e.from <= d.Buckets[i-1].from {
			return nil, damaged(name, "bucket %d is out of order", i)
		}
	}
	return &d, nil
}

// find returns the bucket of a place.
func (d *directory) find(place uint64) int {
	i, ok := slices.BinarySearchFunc(d.Buckets, place, func(e bucketEntry, p uint64) int { return cmp.Compare(e.from, p) })
	if !ok {
		i--
	}
	return i
}

func (e *bucketEntry) mayHold(fingerprint uint16) bool {
	for i := 0; i+1 < len(e.Fingerprints); i += 2 {
		if binary.BigEndian.Uint16(e.Fingerprints[i:]) == fingerprint {
			return true
		}
	}
	return false
}

// directory reads the directory that a head refers to, from this handle's cache
// if it is there: parts never change.
func (s *Store) directory(ctx context.Context, h *head) (*directory, error) {
	if h.Archive == nil {
		return nil, nil
	}
	if d, ok := s.directories.get(h.Archive.Name); ok {
		return d, nil
	}
	b, err := s.part(ctx, h.Archive)
	if err != nil {
		return nil, err
	}
	d, err := parseDirectory(h.Archive.Name, b)
	if err != nil {
		return nil, err
	}
	s.directories.put(h.Archive.Name, d)
	return d, nil
}

func (s *Store) bucket(ctx context.Context, p *part) (*bucket, error) {
	b, err := s.part(ctx, p)
	if err != nil {
		return nil, err
	}
	var out bucket
	if err := unmarshal(p.Name, b, &out); err != nil {
		return nil, err
	}
	if out.Schema != bucketSchema {
		return nil, damaged(p.Name, "it is a %q", out.Schema)
	}
	return &out, nil
}

// archived looks an operation up among the receipts that left the head; nil if
// it is not there.
func (s *Store) archived(ctx context.Context, h *head, op sdk.OperationID) (*receipt, error) {
	d, err := s.directory(ctx, h)
	if err != nil || d == nil {
		return nil, err
	}
	place, fingerprint := opHash(string(op))
	e := &d.Buckets[d.find(place)]
	if !e.mayHold(fingerprint) {
		return nil, nil
	}
	b, err := s.bucket(ctx, &e.Part)
	if err != nil {
		return nil, err
	}
	for i := range b.Receipts {
		if b.Receipts[i].Operation == string(op) {
			return &b.Receipts[i], nil
		}
	}
	return nil, nil
}

// seal moves all but the last keep receipts of h into the archive: it writes the
// buckets that they fall into anew, and a directory that refers to them.
func (s *Store) seal(ctx context.Context, h *head, st *staging, keep int) error {
	n := len(h.Recent) - keep
	moving, left := h.Recent[:n], h.Recent[n:]
	d, err := s.directory(ctx, h)
	if err != nil {
		return err
	}
	next := &directory{Schema: directorySchema}
	if d == nil {
		next.Buckets = []bucketEntry{{From: "0"}}
	} else {
		next.Buckets = slices.Clone(d.Buckets)
	}
	into := make(map[int][]receipt)
	for _, r := range moving {
		place, _ := opHash(r.Operation)
		i := next.find(place)
		into[i] = append(into[i], r)
	}
	rewritten, err := s.rewrite(ctx, next, into, st)
	if err != nil {
		return err
	}
	var buckets []bucketEntry
	for i := range next.Buckets {
		if r, ok := rewritten[i]; ok {
			buckets = append(buckets, r...)
			continue
		}
		buckets = append(buckets, next.Buckets[i])
	}
	next.Buckets = buckets
	body, err := json.Marshal(next)
	if err != nil {
		return damaged("directory", "%w", err)
	}
	p := partOf(st.next(), body)
	if err := s.objects.PutNew(ctx, p.Name, body); err != nil {
		return err
	}
	s.directories.put(p.Name, next)
	h.Archive, h.Recent, h.dirty = p, slices.Clone(left), true
	return nil
}

// rewrite writes each bucket that gets receipts anew, split where it has grown,
// several at a time.
func (s *Store) rewrite(ctx context.Context, d *directory, into map[int][]receipt, st *staging) (map[int][]bucketEntry, error) {
	var mu sync.Mutex
	out := make(map[int][]bucketEntry, len(into))
	var first error
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, add := range into {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			entries, err := s.rewriteOne(ctx, &d.Buckets[i], end(d, i), add, &mu, st)
			mu.Lock()
			defer mu.Unlock()
			out[i] = entries
			if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return out, first
}

// end is the last place of bucket i's range.
func end(d *directory, i int) uint64 {
	if i+1 < len(d.Buckets) {
		return d.Buckets[i+1].from - 1
	}
	return ^uint64(0)
}

func (s *Store) rewriteOne(ctx context.Context, e *bucketEntry, last uint64, add []receipt, mu *sync.Mutex, st *staging) ([]bucketEntry, error) {
	all := add
	if e.Part.Name != "" {
		old, err := s.bucket(ctx, &e.Part)
		if err != nil {
			return nil, err
		}
		all = append(old.Receipts, add...)
	}
	var out []bucketEntry
	for _, half := range split(e.from, last, all) {
		body, err := json.Marshal(bucket{Schema: bucketSchema, Receipts: half.receipts})
		if err != nil {
			return nil, damaged("bucket", "%w", err)
		}
		mu.Lock()
		name := st.next()
		mu.Unlock()
		p := partOf(name, body)
		if err := s.objects.PutNew(ctx, p.Name, body); err != nil {
			return nil, err
		}
		entry := bucketEntry{From: decimal(half.from), from: half.from, Part: *p}
		for _, r := range half.receipts {
			_, f := opHash(r.Operation)
			entry.Fingerprints = binary.BigEndian.AppendUint16(entry.Fingerprints, f)
		}
		out = append(out, entry)
	}
	return out, nil
}

type half struct {
	from     uint64
	receipts []receipt
}

// split divides a range until no bucket holds more than maxBucket.
func split(from, last uint64, all []receipt) []half {
	if len(all) <= maxBucket || from == last {
		return []half{{from, all}}
	}
	middle := from + (last-from)/2 + 1
	var low, high []receipt
	for _, r := range all {
		if place, _ := opHash(r.Operation); place < middle {
			low = append(low, r)
		} else {
			high = append(high, r)
		}
	}
	return append(split(from, middle-1, low), split(middle, last, high)...)
}
