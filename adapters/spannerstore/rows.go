package spannerstore

import (
	"time"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
)

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func damaged(format string, args ...any) error {
	return sdk.Errorf(sdk.Unsuitable, "row", "a damaged one: "+format, args...)
}

func digest(b []byte) (d sdk.Digest, err error) {
	if len(b) != len(d) {
		return d, damaged("a digest of %d bytes", len(b))
	}
	copy(d[:], b)
	if d.IsZero() {
		return d, damaged("a digest of zeros")
	}
	return d, nil
}

// Kinds of rows in the table of records.
const (
	kindFence   = "fence"
	kindMarker  = "marker"
	kindReceipt = "receipt"
)

var (
	recordColumns     = []string{"Namespace", "Resource", "Kind", "Operation", "Fence", "Segment", "Root", "GrantDigest", "PolicyGeneration", "TrustGeneration", "Payload", "Owner", "TimeMillis", "Result"}
	fenceColumns      = recordColumns[:10]
	markerColumns     = recordColumns[:4]
	segmentColumns    = append(append([]string(nil), markerColumns...), "Segment")
	receiptColumns    = append(append([]string(nil), recordColumns[:8]...), recordColumns[10:]...)
	valueColumns      = []string{"Namespace", "Resource", "ItemKey", "Value"}
	quarantineColumns = []string{"Namespace", "Resource", "Fence", "Segment", "Operation", "Payload", "GrantDigest", "Owner", "TimeMillis", "ResolvedBy"}
)

// record is a row of the table of records.
type record struct {
	namespace, resource, kind, operation       string
	token, segment, policy, trust, millis      spanner.NullInt64
	root, grantDigest, payloadDigest, contents []byte
	owner                                      spanner.NullString
}

// parseRecord reads a row; what does not parse is UNSUITABLE, never a fence of 0.
func parseRecord(row *spanner.Row) (*record, error) {
	r := new(record)
	err := row.Columns(&r.namespace, &r.resource, &r.kind, &r.operation, &r.token, &r.segment, &r.root, &r.grantDigest, &r.policy, &r.trust, &r.payloadDigest, &r.owner, &r.millis, &r.contents)
	if err != nil {
		return nil, damaged("%w", err)
	}
	return r, nil
}

func (r *record) fence() (state sdk.FenceState, err error) {
	if !r.policy.Valid || !r.trust.Valid || r.policy.Int64 < 0 || r.trust.Int64 < 0 {
		return state, damaged("fence with generations %v/%v", r.policy, r.trust)
	}
	if state.Highest, state.Segment, err = r.position(); err != nil {
		return sdk.FenceState{}, err
	}
	state.Generations = sdk.Generations{Policy: uint64(r.policy.Int64), Trust: uint64(r.trust.Int64)}
	if state.Grant, err = digest(r.grantDigest); err != nil {
		return sdk.FenceState{}, err
	}
	if state.Root, err = digest(r.root); err != nil {
		return sdk.FenceState{}, err
	}
	return state, nil
}

// position is the fence and the segment, in range.
func (r *record) position() (sdk.Token, sdk.Segment, error) {
	if r.token.Valid && r.segment.Valid && r.token.Int64 >= 1 && r.segment.Int64 >= 1 {
		token, segment := sdk.Token(r.token.Int64), sdk.Segment(r.segment.Int64)
		if token.Valid() && segment.Valid() {
			return token, segment, nil
		}
	}
	return 0, 0, damaged("%s with fence %v, segment %v", r.kind, r.token, r.segment)
}

func (r *record) receipt(id sdk.ResourceID) (*sdk.Receipt, error) {
	out := &sdk.Receipt{Resource: id, Operation: sdk.OperationID(r.operation), Owner: r.owner.StringVal,
		Time: time.UnixMilli(r.millis.Int64).UTC(), Result: r.contents}
	var err error
	if out.Fence, out.Segment, err = r.position(); err != nil {
		return nil, err
	}
	for to, from := range map[*sdk.Digest][]byte{&out.Root: r.root, &out.Grant: r.grantDigest, &out.Payload: r.payloadDigest} {
		if *to, err = digest(from); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// records is what an accepted mutation writes beside its effects.
func (s *Store) records(old sdk.FenceState, d *sdk.Decision) []*spanner.Mutation {
	n, r := d.Next, d.Receipt
	fence := append([]any(s.key(r.Resource, kindFence, "")), int64(n.Highest), int64(n.Segment), n.Root[:], n.Grant[:], int64(n.Generations.Policy), int64(n.Generations.Trust))
	var out []*spanner.Mutation
	moved := old
	moved.Segment = n.Segment
	switch {
	case old.Absent():
		out = append(out, spanner.Insert(recordTable, fenceColumns, fence), spanner.Insert(recordTable, markerColumns, s.key(r.Resource, kindMarker, "")))
	case moved == n: // the next segment, and all else as it was read
		out = append(out, spanner.Update(recordTable, segmentColumns, append([]any(s.key(r.Resource, kindFence, "")), int64(n.Segment))))
	default:
		out = append(out, spanner.Update(recordTable, fenceColumns, fence))
	}
	return append(out, spanner.Insert(recordTable, receiptColumns, append([]any(s.key(r.Resource, kindReceipt, r.Operation)),
		int64(r.Fence), int64(r.Segment), r.Root[:], r.Grant[:], r.Payload[:], r.Owner, r.Time.UnixMilli(), notNil(r.Result))))
}

// ownCells are the mutation cells of records.
var ownCells = len(fenceColumns) + len(markerColumns) + len(receiptColumns)

func quarantineKey(namespace string, r sdk.ResourceID, k sdk.QuarantineKey) spanner.Key {
	return spanner.Key{namespace, string(r), int64(k.Fence), int64(k.Segment), string(k.Operation), k.Payload[:]}
}

func parseQuarantine(row *spanner.Row, r sdk.ResourceID) (q sdk.Quarantine, err error) {
	var namespace, resource, operation, resolved string
	var fence, segment, millis int64
	var payload, grant []byte
	if err := row.Columns(&namespace, &resource, &fence, &segment, &operation, &payload, &grant, &q.Owner, &millis, &resolved); err != nil {
		return q, damaged("%w", err)
	}
	q.Resource, q.Fence, q.Segment, q.Operation = r, sdk.Token(fence), sdk.Segment(segment), sdk.OperationID(operation)
	q.Time, q.ResolvedBy = time.UnixMilli(millis).UTC(), sdk.OperationID(resolved)
	if q.Payload, err = digest(payload); err != nil {
		return q, err
	}
	q.Grant, err = digest(grant)
	return q, err
}
