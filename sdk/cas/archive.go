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
// receipts whose operation hashes into its range. Directories, immutable parts
// too, list the buckets in the order of their ranges, and of every receipt 16
// bits of its hash: enough to say that an operation is not there without reading
// a bucket, but for one time in a thousand. A directory that has grown is split
// in two by the place, so that an archive has no end that a store's largest
// object sets; the head lists the directories.

const (
	directorySchema = "fencedstore.directory.v1"
	// maxBucket is where a bucket is split in two.
	maxBucket = 64
)

// shard is a directory and the first hash of its range.
type shard struct {
	From      string `json:"from"` // the next one's From ends the range
	Directory part   `json:"directory"`

	from uint64
}

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

// parseShards checks the archive of a head that was read.
func parseShards(name string, shards []shard) error {
	for i := range shards {
		sh := &shards[i]
		var err error
		if sh.from, err = sdk.ParseDecimal("from", sh.From); err != nil {
			return damaged(name, "%w", err)
		}
		if i == 0 && sh.from != 0 || i > 0 && sh.from <= shards[i-1].from {
			return damaged(name, "directory %d is out of order", i)
		}
	}
	return nil
}

func parseDirectory(sh *shard, b []byte) (*directory, error) {
	name := sh.Directory.Name
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
		if len(e.Fingerprints)%2 != 0 || i == 0 && e.from != sh.from || i > 0 && e.from <= d.Buckets[i-1].from {
			return nil, damaged(name, "bucket %d is out of order", i)
		}
	}
	return &d, nil
}

// shardOf returns the directory of a place, of one or more.
func shardOf(shards []shard, place uint64) int {
	i, ok := slices.BinarySearchFunc(shards, place, func(sh shard, p uint64) int { return cmp.Compare(sh.from, p) })
	if !ok {
		i--
	}
	return i
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

// directory reads a directory, from this handle's cache if it is there: parts
// never change.
func (s *Store) directory(ctx context.Context, sh *shard) (*directory, error) {
	if d, ok := s.directories.get(sh.Directory.Name); ok {
		return d, nil
	}
	b, err := s.part(ctx, &sh.Directory)
	if err != nil {
		return nil, err
	}
	d, err := parseDirectory(sh, b)
	if err != nil {
		return nil, err
	}
	s.directories.put(sh.Directory.Name, d)
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
	if len(h.Archive) == 0 {
		return nil, nil
	}
	place, fingerprint := opHash(string(op))
	d, err := s.directory(ctx, &h.Archive[shardOf(h.Archive, place)])
	if err != nil {
		return nil, err
	}
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
// buckets that they fall into anew, and directories that refer to them.
func (s *Store) seal(ctx context.Context, h *head, st *staging, keep int) error {
	n := len(h.Recent) - keep
	moving, left := h.Recent[:n], h.Recent[n:]
	shards := h.Archive
	if len(shards) == 0 {
		shards = []shard{{From: "0"}}
	}
	into := make(map[int][]receipt)
	for _, r := range moving {
		place, _ := opHash(r.Operation)
		i := shardOf(shards, place)
		into[i] = append(into[i], r)
	}
	var next []shard
	for i := range shards {
		if len(into[i]) == 0 {
			next = append(next, shards[i])
			continue
		}
		last := ^uint64(0)
		if i+1 < len(shards) {
			last = shards[i+1].from - 1
		}
		written, err := s.sealShard(ctx, &shards[i], last, into[i], st)
		if err != nil {
			return err
		}
		next = append(next, written...)
	}
	h.Archive, h.Recent, h.dirty = next, slices.Clone(left), true
	return nil
}

// sealShard adds receipts to the range from sh to last.
func (s *Store) sealShard(ctx context.Context, sh *shard, last uint64, moving []receipt, st *staging) ([]shard, error) {
	old := []bucketEntry{{From: sh.From, from: sh.from}}
	if sh.Directory.Name != "" {
		d, err := s.directory(ctx, sh)
		if err != nil {
			return nil, err
		}
		old = d.Buckets
	}
	d := &directory{Buckets: old}
	into := make(map[int][]receipt)
	for _, r := range moving {
		place, _ := opHash(r.Operation)
		i := d.find(place)
		into[i] = append(into[i], r)
	}
	rewritten, err := s.rewrite(ctx, d, last, into, st)
	if err != nil {
		return nil, err
	}
	var buckets []bucketEntry
	for i := range old {
		if r, ok := rewritten[i]; ok {
			buckets = append(buckets, r...)
			continue
		}
		buckets = append(buckets, old[i])
	}
	return s.writeDirectory(ctx, buckets, st)
}

// writeDirectory writes the directory of buckets, or two where it has grown. A
// head beside a value has no room for a list; there it stays one.
func (s *Store) writeDirectory(ctx context.Context, buckets []bucketEntry, st *staging) ([]shard, error) {
	d := &directory{Schema: directorySchema, Buckets: buckets}
	body, err := json.Marshal(d)
	if err != nil {
		return nil, damaged("directory", "%w", err)
	}
	if half := len(buckets) / 2; len(body) > s.maxHead/4 && half > 0 && s.together == nil {
		low, err := s.writeDirectory(ctx, buckets[:half:half], st)
		if err != nil {
			return nil, err
		}
		high, err := s.writeDirectory(ctx, buckets[half:], st)
		return append(low, high...), err
	}
	p := partOf(st.next(), body)
	if err := s.objects.PutNew(ctx, p.Name, body); err != nil {
		return nil, err
	}
	s.directories.put(p.Name, d)
	return []shard{{From: buckets[0].From, Directory: *p, from: buckets[0].from}}, nil
}

// rewrite writes each bucket that gets receipts anew, split where it has grown,
// several at a time.
func (s *Store) rewrite(ctx context.Context, d *directory, last uint64, into map[int][]receipt, st *staging) (map[int][]bucketEntry, error) {
	var mu sync.Mutex
	out := make(map[int][]bucketEntry, len(into))
	var first error
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, add := range into {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			entries, err := s.rewriteOne(ctx, &d.Buckets[i], end(d, i, last), add, &mu, st)
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

// end is the last place of bucket i's range, in a directory that ends at last.
func end(d *directory, i int, last uint64) uint64 {
	if i+1 < len(d.Buckets) {
		return d.Buckets[i+1].from - 1
	}
	return last
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
