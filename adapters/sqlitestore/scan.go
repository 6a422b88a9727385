package sqlitestore

import (
	"database/sql"
	"errors"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// row is a *sql.Row or *sql.Rows.
type row interface{ Scan(dest ...any) error }

func damaged(table, format string, args ...any) error {
	return sdk.Errorf(sdk.Unsuitable, table, "a damaged record: "+format, args...)
}

// scanFence reads the columns of a fence; extra, where selected, comes last. No
// row is the zero state.
func scanFence(r row) (state sdk.FenceState, left bool, err error) {
	var highest, segment, policy, trust int64
	var grant, root []byte
	if err := r.Scan(&highest, &grant, &root, &segment, &policy, &trust, &left); err != nil {
		return state, false, err
	}
	if highest == 0 {
		return state, left, nil
	}
	state, err = fenceOf(highest, segment, policy, trust, grant, root)
	return state, left, err
}

func fenceOf(highest, segment, policy, trust int64, grant, root []byte) (sdk.FenceState, error) {
	s := sdk.FenceState{Highest: sdk.Token(highest), Segment: sdk.Segment(segment),
		Generations: sdk.Generations{Policy: uint64(policy), Trust: uint64(trust)}}
	if highest < 1 || segment < 1 || !s.Segment.Valid() || policy < 0 || trust < 0 {
		return sdk.FenceState{}, damaged("fencedstore_fence", "fence %d, segment %d, generations %d and %d", highest, segment, policy, trust)
	}
	if len(grant) != len(s.Grant) || len(root) != len(s.Root) {
		return sdk.FenceState{}, damaged("fencedstore_fence", "digests of %d and %d bytes", len(grant), len(root))
	}
	copy(s.Grant[:], grant)
	copy(s.Root[:], root)
	return s, nil
}

// scanReceipt reads a receipt; no row is nil.
func scanReceipt(r row, id sdk.ResourceID, op sdk.OperationID) (*sdk.Receipt, error) {
	var fence, segment, millis int64
	var root, grant, payload []byte
	out := &sdk.Receipt{Resource: id, Operation: op}
	err := r.Scan(&fence, &segment, &root, &grant, &payload, &out.Owner, &millis, &out.Result)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out, fillReceipt(out, fence, segment, millis, root, grant, payload)
}

// scanBoth reads the row of selectBoth.
func scanBoth(r row, id sdk.ResourceID, op sdk.OperationID) (state sdk.FenceState, receipt *sdk.Receipt, err error) {
	var highest, last, policy, trust, fence, segment, millis int64
	out := sdk.Receipt{Resource: id, Operation: op}
	var hGrant, hRoot, root, grant, payload []byte
	if err := r.Scan(&highest, &hGrant, &hRoot, &last, &policy, &trust,
		&fence, &segment, &root, &grant, &payload, &out.Owner, &millis, &out.Result); err != nil {
		return state, nil, err
	}
	if highest != 0 {
		if state, err = fenceOf(highest, last, policy, trust, hGrant, hRoot); err != nil {
			return state, nil, err
		}
	}
	if fence == 0 && payload == nil {
		return state, nil, nil
	}
	return state, &out, fillReceipt(&out, fence, segment, millis, root, grant, payload)
}

func fillReceipt(out *sdk.Receipt, fence, segment, millis int64, root, grant, payload []byte) error {
	out.Fence, out.Segment, out.Time = sdk.Token(fence), sdk.Segment(segment), time.UnixMilli(millis).UTC()
	if !out.Fence.Valid() || !out.Segment.Valid() || len(root) != 32 || len(grant) != 32 || len(payload) != 32 {
		return damaged("fencedstore_receipt", "operation %q, fence %d, segment %d", out.Operation, fence, segment)
	}
	copy(out.Root[:], root)
	copy(out.Grant[:], grant)
	copy(out.Payload[:], payload)
	if len(out.Result) == 0 {
		out.Result = nil
	}
	return nil
}

func scanQuarantine(r row, id sdk.ResourceID) (sdk.Quarantine, error) {
	var fence, segment, millis, dropped int64
	var op, resolved string
	var payload, grant []byte
	q := sdk.Quarantine{Resource: id}
	if err := r.Scan(&fence, &segment, &op, &payload, &grant, &q.Owner, &millis, &resolved, &dropped); err != nil {
		return q, err
	}
	if dropped > 0 {
		return sdk.Quarantine{Resource: id, Dropped: uint64(dropped)}, nil
	}
	q.Fence, q.Segment, q.Operation = sdk.Token(fence), sdk.Segment(segment), sdk.OperationID(op)
	q.Time, q.ResolvedBy = time.UnixMilli(millis).UTC(), sdk.OperationID(resolved)
	if !q.Fence.Valid() || !q.Segment.Valid() || len(payload) != 32 || len(grant) != 32 {
		return q, damaged("fencedstore_quarantine", "operation %q, fence %d, segment %d", op, fence, segment)
	}
	copy(q.Payload[:], payload)
	copy(q.Grant[:], grant)
	return q, nil
}
