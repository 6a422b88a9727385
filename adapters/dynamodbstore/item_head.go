package dynamodbstore

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

const (
	// maxItemBytes is DynamoDB's 400 KB less what its own bookkeeping may need.
	maxItemBytes = 400<<10 - 4<<10
	headVersion  = 1
	// A head with maxRecent receipts keeps the newest keepRecent when the next
	// one is written; with more than maxRecentBytes of results, none.
	maxRecent, keepRecent = 10, 2
	maxRecentBytes        = 4 << 10
	// pageSize is how many fingerprints a page of the index has. It is the
	// layout's own: pages of another size would be other pages.
	pageSize = 64
)

// head is the main item of a resource in layout "item".
type head struct {
	sequence uint64 // of this head, from 1
	nonce    []byte // of the Apply call that wrote it
	marked   bool   // the marker is known to be there
	state    sdk.FenceState
	recent   []*sdk.Receipt // the last ones, oldest first; all others have items of their own
	archived uint64         // how many receipts have left the head
	tail     []uint64       // fingerprints of those that left it and fill no page yet
	values   map[string][]byte
	resolved map[string]string // short quarantine keys to operations

	size int // in bytes, as DynamoDB counts
}

func newNonce() []byte {
	b := make([]byte, 16)
	rand.Read(b)
	return b
}

// fingerprint is what the index keeps of an operation.
func fingerprint(op sdk.OperationID) uint64 {
	sum := sha256.Sum256([]byte(op))
	return binary.BigEndian.Uint64(sum[:])
}

// shortKey names a quarantine record in a head.
func shortKey(k sdk.QuarantineKey) string {
	sum := sha256.Sum256([]byte(skQuarantine(k)))
	return hex.EncodeToString(sum[:16])
}

// next begins the head that follows h, nil for none.
func (h *head) next() *head {
	if h == nil {
		return &head{sequence: 1, values: map[string][]byte{}, resolved: map[string]string{}}
	}
	n := *h
	n.sequence, n.marked = h.sequence+1, true
	n.recent, n.tail = slices.Clone(h.recent), slices.Clone(h.tail)
	n.values, n.resolved = maps.Clone(h.values), maps.Clone(h.resolved)
	return &n
}

// pages is how many pages of the index are full.
func (h *head) pages() uint64 { return h.archived / pageSize }

func (h *head) receipt(op sdk.OperationID) *sdk.Receipt {
	for _, r := range h.recent {
		if r.Operation == op {
			return r
		}
	}
	return nil
}

// leaving is how many of the oldest receipts have to leave the head before
// another one comes in. It depends on the head alone.
func (h *head) leaving() int {
	bytes := 0
	for _, r := range h.recent {
		bytes += len(r.Result)
	}
	switch {
	case bytes > maxRecentBytes:
		return len(h.recent)
	case len(h.recent) >= maxRecent:
		return len(h.recent) - keepRecent
	}
	return 0
}

// value turns bytes into an attribute: some servers take no empty binary.
func value(b []byte) types.AttributeValue {
	if len(b) == 0 {
		return &types.AttributeValueMemberNULL{Value: true}
	}
	return bin(b)
}

func packed(list []uint64) []byte {
	out := make([]byte, 0, 8*len(list))
	for _, f := range list {
		out = binary.BigEndian.AppendUint64(out, f)
	}
	return out
}

func unpacked(b []byte) ([]uint64, error) {
	if len(b)%8 != 0 {
		return nil, fmt.Errorf("%d bytes", len(b))
	}
	out := make([]uint64, 0, len(b)/8)
	for ; len(b) > 0; b = b[8:] {
		out = append(out, binary.BigEndian.Uint64(b))
	}
	return out, nil
}

// item is the head as it is written; it sets size.
func (h *head) item(pk string) (item, error) {
	recent, err := recentText(h.recent, &h.state)
	if err != nil {
		return nil, sdk.Errorf(sdk.NotApplied, "head", "%w", err)
	}
	it := fenceItem(keyOf(pk, skHead), h.state)
	it["version"], it["sequence"], it["nonce"] = number(headVersion), number(h.sequence), bin(h.nonce)
	it["marked"], it["archived"], it["tail"] = &types.AttributeValueMemberBOOL{Value: h.marked}, number(h.archived), value(packed(h.tail))
	it["recent"] = str(recent)
	values := make(item, len(h.values))
	for k, v := range h.values {
		values[k] = value(v)
	}
	it["values"] = &types.AttributeValueMemberM{Value: values}
	if len(h.resolved) > 0 {
		resolved := make(item, len(h.resolved))
		for k, op := range h.resolved {
			resolved[k] = str(op)
		}
		it["resolved"] = &types.AttributeValueMemberM{Value: resolved}
	}
	h.size = sizeOf(it)
	return it, nil
}

// parseHead reads a head strictly; nil for no item.
func parseHead(it item, id sdk.ResourceID) (*head, error) {
	if len(it) == 0 {
		return nil, nil
	}
	r := reader{item: it, what: "head"}
	if v := r.number("version"); r.err == nil && v != headVersion {
		return nil, sdk.Errorf(sdk.Unsuitable, "head", "of version %d; this program knows %d", v, headVersion)
	}
	h := &head{sequence: r.number("sequence"), nonce: r.bytes("nonce"), marked: r.boolean("marked"), archived: r.number("archived"),
		values: map[string][]byte{}, resolved: map[string]string{}, size: sizeOf(it)}
	var err error
	if h.tail, err = unpacked(r.content("tail")); err != nil || uint64(len(h.tail)) != h.archived%pageSize {
		r.fail("tail", fmt.Errorf("%d fingerprints of %d archived receipts, %v", len(h.tail), h.archived, err))
	}
	v := reader{item: r.members("values"), what: "value"}
	for k := range v.item {
		h.values[k] = v.content(k)
	}
	r.take(v.err)
	if _, ok := it["resolved"]; ok {
		v := reader{item: r.members("resolved"), what: "resolved"}
		for k := range v.item {
			h.resolved[k] = v.text(k)
		}
		r.take(v.err)
	}
	recent := r.text("recent")
	if r.err != nil {
		return nil, r.err
	}
	if h.state, err = parseFence(it); err != nil {
		return nil, err
	}
	if h.sequence == 0 || len(h.nonce) != 16 || h.state.Absent() {
		return nil, damaged("head", "sequence %d, %d bytes of nonce, fence %d", h.sequence, len(h.nonce), h.state.Highest)
	}
	h.recent, err = parseRecent(recent, id, &h.state)
	return h, err
}

// sizeOf is an item's size as DynamoDB counts it, or a little more.
func sizeOf(it item) int {
	n := 0
	for name, v := range it {
		n += len(name) + sizeOfValue(v)
	}
	return n
}

func sizeOfValue(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)/2 + 2
	case *types.AttributeValueMemberM:
		return 3 + len(v.Value) + sizeOf(v.Value)
	case *types.AttributeValueMemberL:
		n := 3 + len(v.Value)
		for _, e := range v.Value {
			n += sizeOfValue(e)
		}
		return n
	}
	return 1
}
