package mongostore

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// names are the _ids of a resource's documents in LayoutTransaction. A resource
// cannot hold '#', so those of two resources are apart, and the fence comes
// before the marker and the receipts.
type names struct {
	namespace string
	resource  sdk.ResourceID
}

func (n names) id(kind string) string { return n.namespace + "#" + string(n.resource) + "#" + kind }
func (n names) fence() string         { return n.id("fence") }
func (n names) marker() string        { return n.id("marker") }
func (n names) dropped() string       { return n.id("dropped") }

func (n names) receipt(op sdk.OperationID) string { return n.id("receipt#" + string(op)) }
func (n names) value(key string) string           { return n.id("value#" + key) }

func (n names) quarantine(k sdk.QuarantineKey) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d/%d/%s/%x", k.Fence, k.Segment, k.Operation, k.Payload)
	return n.id("quarantine#" + hex.EncodeToString(h.Sum(nil)))
}

// quarantines is the range of their _ids.
func (n names) quarantines() (from, to string) { return n.id("quarantine#"), n.id("quarantine$") }

func binary(b []byte) bson.Binary {
	if b == nil {
		b = []byte{}
	}
	return bson.Binary{Data: b}
}

// fenceFields are those of a fence document but _id. Integers are signed and of
// 64 bits; what they hold is below 2^63 by its type's own limit (C13).
func fenceFields(s sdk.FenceState) bson.D {
	return bson.D{{Key: "highest", Value: int64(s.Highest)}, {Key: "segment", Value: int64(s.Segment)}, {Key: "grant", Value: binary(s.Grant[:])}, {Key: "root", Value: binary(s.Root[:])},
		{Key: "policyGeneration", Value: int64(s.Generations.Policy)}, {Key: "trustGeneration", Value: int64(s.Generations.Trust)}}
}

// fenceFilter is the law: the fence is still the one that was judged.
func fenceFilter(id string, s sdk.FenceState) bson.D {
	return bson.D{{Key: "_id", Value: id}, {Key: "highest", Value: int64(s.Highest)}, {Key: "segment", Value: int64(s.Segment)}, {Key: "grant", Value: binary(s.Grant[:])}}
}

func receiptFields(r *sdk.Receipt) bson.D {
	return bson.D{{Key: "fence", Value: int64(r.Fence)}, {Key: "segment", Value: int64(r.Segment)}, {Key: "root", Value: binary(r.Root[:])}, {Key: "grant", Value: binary(r.Grant[:])},
		{Key: "payload", Value: binary(r.Payload[:])}, {Key: "owner", Value: r.Owner}, {Key: "timeMillis", Value: r.Time.UnixMilli()}, {Key: "result", Value: binary(r.Result)}}
}

func quarantineFields(q sdk.Quarantine) bson.D {
	return bson.D{{Key: "fence", Value: int64(q.Fence)}, {Key: "segment", Value: int64(q.Segment)}, {Key: "operation", Value: string(q.Operation)}, {Key: "payload", Value: binary(q.Payload[:])},
		{Key: "grant", Value: binary(q.Grant[:])}, {Key: "owner", Value: q.Owner}, {Key: "timeMillis", Value: q.Time.UnixMilli()}}
}

// reader takes fields out of a document and keeps the first error: a fence that
// does not parse is never 0.
type reader struct {
	raw  bson.Raw
	what string
	err  error
}

func (r *reader) fail(name string) {
	if r.err == nil {
		r.err = sdk.Errorf(sdk.Unsuitable, r.what, "a damaged document: field %s is missing, out of range or of another type than this store writes", name)
	}
}

// number reads a 64-bit integer and no other kind of number.
func (r *reader) number(name string) int64 {
	n, ok := r.raw.Lookup(name).Int64OK()
	if !ok || n < 0 {
		r.fail(name)
	}
	return n
}

func (r *reader) text(name string) string {
	s, ok := r.raw.Lookup(name).StringValueOK()
	if !ok {
		r.fail(name)
	}
	return s
}

func (r *reader) bytes(name string) []byte {
	_, b, ok := r.raw.Lookup(name).BinaryOK()
	if !ok {
		r.fail(name)
	}
	return b
}

func (r *reader) digest(name string) (d sdk.Digest) {
	if b := r.bytes(name); len(b) == len(d) {
		copy(d[:], b)
	} else {
		r.fail(name)
	}
	return d
}

func (r *reader) time(name string) time.Time {
	n, ok := r.raw.Lookup(name).Int64OK()
	if !ok {
		r.fail(name)
	}
	return time.UnixMilli(n).UTC()
}

func parseFence(raw bson.Raw) (sdk.FenceState, error) {
	r := reader{raw: raw, what: "fence"}
	s := sdk.FenceState{Highest: sdk.Token(r.number("highest")), Segment: sdk.Segment(r.number("segment")), Grant: r.digest("grant"), Root: r.digest("root"),
		Generations: sdk.Generations{Policy: uint64(r.number("policyGeneration")), Trust: uint64(r.number("trustGeneration"))}}
	if !s.Highest.Valid() || !s.Segment.Valid() {
		r.fail("highest")
	}
	if r.err != nil {
		return sdk.FenceState{}, r.err
	}
	return s, nil
}

func parseReceipt(raw bson.Raw, id sdk.ResourceID, op sdk.OperationID) (*sdk.Receipt, error) {
	r := reader{raw: raw, what: "receipt"}
	out := &sdk.Receipt{Resource: id, Operation: op, Fence: sdk.Token(r.number("fence")), Segment: sdk.Segment(r.number("segment")), Root: r.digest("root"),
		Grant: r.digest("grant"), Payload: r.digest("payload"), Owner: r.text("owner"), Time: r.time("timeMillis")}
	if b := r.bytes("result"); len(b) > 0 {
		out.Result = bytes.Clone(b)
	}
	if !out.Fence.Valid() || !out.Segment.Valid() {
		r.fail("fence")
	}
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

func parseQuarantine(raw bson.Raw, id sdk.ResourceID) (sdk.Quarantine, error) {
	r := reader{raw: raw, what: "quarantine"}
	q := sdk.Quarantine{Resource: id, Grant: r.digest("grant"), Owner: r.text("owner"), Time: r.time("timeMillis"),
		QuarantineKey: sdk.QuarantineKey{Fence: sdk.Token(r.number("fence")), Segment: sdk.Segment(r.number("segment")),
			Operation: sdk.OperationID(r.text("operation")), Payload: r.digest("payload")}}
	if _, err := raw.LookupErr("resolvedBy"); err == nil {
		q.ResolvedBy = sdk.OperationID(r.text("resolvedBy"))
	}
	return q, r.err
}

func compareQuarantine(a, b sdk.Quarantine) int {
	return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Segment, b.Segment),
		cmp.Compare(a.Operation, b.Operation), bytes.Compare(a.Payload[:], b.Payload[:]))
}
