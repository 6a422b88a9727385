package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// epoch is the gate's clock of every minted mutation: a fixed time, so that a
// run depends on its seed alone.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// owner is a worker with an authentic grant, as a gate would have let it in.
type owner struct {
	resource    sdk.ResourceID
	fence       sdk.Token
	grant, root sdk.Digest
	name        string
	generations sdk.Generations
}

// ownerOf mints the grant of fence for r. Another twin is another grant with
// the same token.
func ownerOf(r sdk.ResourceID, fence sdk.Token, twin string) owner {
	return owner{resource: r, fence: fence, name: "worker-" + fence.String(),
		grant:       sdk.SumDigest([]byte("grant of " + string(r) + " " + fence.String() + twin)),
		root:        sdk.SumDigest([]byte("job of " + string(r) + " " + fence.String())),
		generations: sdk.Generations{Policy: 1, Trust: 1}}
}

// mutation is a write of o with what it carries.
func (o owner) mutation(seg sdk.Segment, op sdk.OperationID, result []byte, effects ...sdk.Effect) *sdk.Mutation {
	return &sdk.Mutation{Resource: o.resource, Operation: op, Fence: o.fence, Segment: seg, Root: o.root, Grant: o.grant,
		Payload: sdk.PayloadDigest(op, result, effects), Owner: o.name,
		Time:    epoch.Add(time.Duration(seg%1_000_000) * time.Millisecond),
		Effects: effects, Result: result, Generations: o.generations}
}

// put is a mutation that sets one key.
func (o owner) put(seg sdk.Segment, op sdk.OperationID, key, value string) *sdk.Mutation {
	return o.mutation(seg, op, []byte("result of "+op), sdk.Put(key, []byte(value)))
}

func (o owner) claim() *sdk.Mutation { return o.mutation(1, sdk.ClaimID(o.grant), nil) }

// state is the fence state after o's segment seg.
func (o owner) state(seg sdk.Segment) sdk.FenceState {
	return sdk.FenceState{Highest: o.fence, Grant: o.grant, Root: o.root, Segment: seg, Generations: o.generations}
}

// receiptOf is the receipt that m leaves once it is accepted.
func receiptOf(m *sdk.Mutation) sdk.Receipt {
	return sdk.Receipt{Resource: m.Resource, Operation: m.Operation, Fence: m.Fence, Segment: m.Segment, Root: m.Root,
		Grant: m.Grant, Payload: m.Payload, Owner: m.Owner, Time: m.Time, Result: m.Result}
}

func showMutation(m *sdk.Mutation) string {
	return fmt.Sprintf("fence %s segment %s operation %q payload %s", m.Fence, m.Segment, clip(string(m.Operation)), short(m.Payload))
}

func showState(s sdk.FenceState) string {
	if s.Absent() {
		return fmt.Sprintf("no fence (generations %d/%d)", s.Generations.Policy, s.Generations.Trust)
	}
	return fmt.Sprintf("fence %s segment %s grant %s root %s generations %d/%d", s.Highest, s.Segment, short(s.Grant), short(s.Root),
		s.Generations.Policy, s.Generations.Trust)
}

func showReceipt(r *sdk.Receipt) string {
	if r == nil {
		return "no receipt"
	}
	return fmt.Sprintf("receipt of %q at %q: fence %s segment %s root %s grant %s payload %s owner %q time %s result %s",
		clip(string(r.Operation)), clip(string(r.Resource)), r.Fence, r.Segment, short(r.Root), short(r.Grant), short(r.Payload), r.Owner,
		r.Time.Format(time.RFC3339Nano), showBytes(r.Result))
}

func showQuarantine(q *sdk.Quarantine) string {
	if q.Dropped > 0 {
		return fmt.Sprintf("quarantine: %d more counted", q.Dropped)
	}
	return fmt.Sprintf("quarantine of fence %s segment %s operation %q payload %s grant %s owner %q time %s resolved by %q",
		q.Fence, q.Segment, clip(string(q.Operation)), short(q.Payload), short(q.Grant), q.Owner, q.Time.Format(time.RFC3339Nano), clip(string(q.ResolvedBy)))
}

func showBytes(b []byte) string {
	if len(b) > 40 {
		return fmt.Sprintf("%q… (%d bytes, %s)", b[:16], len(b), short(sdk.SumDigest(b)))
	}
	return fmt.Sprintf("%q", b)
}

func short(d sdk.Digest) string {
	if d.IsZero() {
		return "none"
	}
	return d.String()[len("sha256:"):][:8]
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// difference lists the lines of got and want that the other lacks.
func difference(got, want []string) (onlyGot, onlyWant []string) {
	for _, l := range got {
		if !slices.Contains(want, l) {
			onlyGot = append(onlyGot, l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			onlyWant = append(onlyWant, l)
		}
	}
	return onlyGot, onlyWant
}
