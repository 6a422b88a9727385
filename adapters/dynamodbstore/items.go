package dynamodbstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/fencedstore/fencedstore/sdk"
)

// item is a DynamoDB item.
type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func bin(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
func number(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}

// Sort keys. A resource cannot hold '#', so partition keys are apart from each
// other and from the table's own.
const (
	skFence   = "fence"
	skHead    = "head" // in layout "item"
	skMarker  = "marker"
	skDropped = "dropped"
	skReceipt = "receipt#"
	skIndex   = "index#"
	skValue   = "value#"
	skQuarant = "quarantine#"
)

func pkOf(namespace string, r sdk.ResourceID) string { return namespace + "#" + string(r) }

func keyOf(pk, sk string) item { return item{"pk": str(pk), "sk": str(sk)} }

func skQuarantine(k sdk.QuarantineKey) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s/%x", k.Operation, k.Payload)
	return fmt.Sprintf("%s%019d#%019d#%s", skQuarant, k.Fence, k.Segment, hex.EncodeToString(h.Sum(nil)))
}

func damaged(what, format string, args ...any) error {
	return sdk.Errorf(sdk.Unsuitable, what, "a damaged item: "+format, args...)
}

// reader takes attributes out of an item and keeps the first error: a fence that
// does not parse is never 0 (C63).
type reader struct {
	item item
	what string
	err  error
}

func (r *reader) fail(name string, err error) {
	if r.err == nil {
		r.err = damaged(r.what, "attribute %s: %v", name, err)
	}
}

func (r *reader) number(name string) uint64 {
	a, ok := r.item[name].(*types.AttributeValueMemberN)
	if !ok {
		r.fail(name, fmt.Errorf("a %T and no number", r.item[name]))
		return 0
	}
	n, err := sdk.ParseDecimal(name, a.Value)
	if err != nil {
		r.fail(name, err)
	}
	return n
}

func (r *reader) text(name string) string {
	a, ok := r.item[name].(*types.AttributeValueMemberS)
	if !ok {
		r.fail(name, fmt.Errorf("a %T and no string", r.item[name]))
		return ""
	}
	return a.Value
}

func (r *reader) bytes(name string) []byte {
	a, ok := r.item[name].(*types.AttributeValueMemberB)
	if !ok {
		r.fail(name, fmt.Errorf("a %T and no binary", r.item[name]))
		return nil
	}
	return a.Value
}

func (r *reader) digest(name string) (d sdk.Digest) {
	b := r.bytes(name)
	if len(b) != len(d) {
		r.fail(name, fmt.Errorf("%d bytes", len(b)))
		return d
	}
	copy(d[:], b)
	return d
}

// content is a binary attribute, or nothing for an empty one.
func (r *reader) content(name string) []byte {
	if _, ok := r.item[name].(*types.AttributeValueMemberNULL); ok {
		return []byte{}
	}
	return r.bytes(name)
}

func (r *reader) boolean(name string) bool {
	a, ok := r.item[name].(*types.AttributeValueMemberBOOL)
	if !ok {
		r.fail(name, fmt.Errorf("a %T and no truth value", r.item[name]))
		return false
	}
	return a.Value
}

func (r *reader) members(name string) item {
	a, ok := r.item[name].(*types.AttributeValueMemberM)
	if !ok {
		r.fail(name, fmt.Errorf("a %T and no map", r.item[name]))
		return nil
	}
	return a.Value
}

// take keeps an error of a part.
func (r *reader) take(err error) {
	if r.err == nil {
		r.err = err
	}
}

// fenceItem adds a fence state to an item.
func fenceItem(it item, s sdk.FenceState) item {
	it["highest"], it["segment"], it["grantDigest"], it["root"] = number(uint64(s.Highest)), number(uint64(s.Segment)), bin(s.Grant[:]), bin(s.Root[:])
	it["policyGeneration"], it["trustGeneration"] = number(s.Generations.Policy), number(s.Generations.Trust)
	return it
}

func parseFence(it item) (sdk.FenceState, error) {
	if len(it) == 0 {
		return sdk.FenceState{}, nil
	}
	r := reader{item: it, what: "fence"}
	s := sdk.FenceState{Highest: sdk.Token(r.number("highest")), Segment: sdk.Segment(r.number("segment")), Grant: r.digest("grantDigest"), Root: r.digest("root"),
		Generations: sdk.Generations{Policy: r.number("policyGeneration"), Trust: r.number("trustGeneration")}}
	if r.err == nil && (!s.Highest.Valid() || !s.Segment.Valid()) {
		r.fail("highest", fmt.Errorf("fence %d, segment %d", s.Highest, s.Segment))
	}
	if r.err != nil {
		return sdk.FenceState{}, r.err
	}
	return s, nil
}

func receiptItem(pk string, r *sdk.Receipt) item {
	it := item{"pk": str(pk), "sk": str(skReceipt + string(r.Operation)), "fence": number(uint64(r.Fence)), "segment": number(uint64(r.Segment)),
		"root": bin(r.Root[:]), "grantDigest": bin(r.Grant[:]), "payload": bin(r.Payload[:]), "owner": str(r.Owner),
		"timeMillis": &types.AttributeValueMemberN{Value: strconv.FormatInt(r.Time.UnixMilli(), 10)}}
	if len(r.Result) > 0 {
		it["result"] = bin(r.Result)
	}
	return it
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (r *reader) time(name string) time.Time {
	a, ok := r.item[name].(*types.AttributeValueMemberN)
	if !ok {
		r.fail(name, fmt.Errorf("a %T and no number", r.item[name]))
		return time.Time{}
	}
	n, err := strconv.ParseInt(a.Value, 10, 64)
	if err != nil {
		r.fail(name, err)
	}
	return time.UnixMilli(n).UTC()
}

// parseReceipt reads a receipt; nil for no item.
func parseReceipt(it item, id sdk.ResourceID, op sdk.OperationID) (*sdk.Receipt, error) {
	if len(it) == 0 {
		return nil, nil
	}
	r := reader{item: it, what: "receipt"}
	out := &sdk.Receipt{Resource: id, Operation: op, Fence: sdk.Token(r.number("fence")), Segment: sdk.Segment(r.number("segment")), Root: r.digest("root"),
		Grant: r.digest("grantDigest"), Payload: r.digest("payload"), Owner: r.text("owner"), Time: r.time("timeMillis")}
	if _, ok := it["result"]; ok {
		out.Result = r.bytes("result")
	}
	if r.err == nil && (!out.Fence.Valid() || !out.Segment.Valid()) {
		r.fail("fence", fmt.Errorf("fence %d, segment %d", out.Fence, out.Segment))
	}
	if len(out.Result) == 0 {
		out.Result = nil
	}
	return out, r.err
}

func quarantineItem(pk string, q sdk.Quarantine) item {
	return item{"pk": str(pk), "sk": str(skQuarantine(q.QuarantineKey)), "fence": number(uint64(q.Fence)), "segment": number(uint64(q.Segment)),
		"operation": str(string(q.Operation)), "payload": bin(q.Payload[:]), "grantDigest": bin(q.Grant[:]), "owner": str(q.Owner),
		"timeMillis": &types.AttributeValueMemberN{Value: strconv.FormatInt(q.Time.UnixMilli(), 10)}}
}

func parseQuarantine(it item, id sdk.ResourceID) (sdk.Quarantine, error) {
	r := reader{item: it, what: "quarantine"}
	q := sdk.Quarantine{Resource: id, Grant: r.digest("grantDigest"), Owner: r.text("owner"), Time: r.time("timeMillis"),
		QuarantineKey: sdk.QuarantineKey{Fence: sdk.Token(r.number("fence")), Segment: sdk.Segment(r.number("segment")),
			Operation: sdk.OperationID(r.text("operation")), Payload: r.digest("payload")}}
	if _, ok := it["resolvedBy"]; ok {
		q.ResolvedBy = sdk.OperationID(r.text("resolvedBy"))
	}
	return q, r.err
}
