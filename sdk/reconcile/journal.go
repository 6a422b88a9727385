// Package reconcile settles what a write left open: each MUTATION_UNKNOWN becomes
// applied, absent for good, or a case for a person.
//
// The journal knows of every write before it is sent, so that a worker that was
// killed knows afterwards what it does not know.
package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
)

// Intent is a write as it was about to be sent.
type Intent struct {
	Resource  sdk.ResourceID
	Operation sdk.OperationID
	Segment   sdk.Segment
	Fence     sdk.Token  // of the grant that it was sent under
	Grant     sdk.Digest // of that grant's payload
	Owner     string     // its owner
	Audience  string
	Category  string
	Root      sdk.Digest
	Payload   sdk.Digest // of what was to be written
	Effects   []sdk.Effect
	Result    []byte
	Input     []byte // of an ApplyTx; then Effects and Result are empty

	Since time.Time // when it was first about to be sent, whole milliseconds
	// Escalated is when it was handed to a person; zero if it was not.
	Escalated time.Time
}

// Status is what is known of an intent that is settled.
type Status string

const (
	// Applied: it is in the store, by this attempt or by another of the operation.
	Applied Status = "applied"
	// Absent: it is not in the store and never will be under the intent's fence
	// (O3). The work may be done again under the same operation ID.
	Absent Status = "absent"
	// Refused: the store or gate answered that this attempt changed nothing.
	Refused Status = "refused"
	// Undetermined: the deadline passed; a person has it. The intent stays open.
	Undetermined Status = "undetermined"
)

// Journal keeps intents durably. An intent is named by resource and operation.
// Safe for concurrent use.
type Journal interface {
	// Begin makes an intent durable before its write is sent. One that is open
	// under the same name is kept as it is where fence, segment and payload are the
	// same, and else replaced but for Since. fresh: none was open, so that no
	// earlier attempt can be under way.
	Begin(ctx context.Context, in Intent) (fresh bool, err error)
	// Settle closes an intent; no such intent is nil. It may come late: an intent
	// that is settled twice is settled.
	Settle(ctx context.Context, r sdk.ResourceID, op sdk.OperationID, s Status) error
	// Escalated notes durably that a person has it.
	Escalated(ctx context.Context, r sdk.ResourceID, op sdk.OperationID, at time.Time) error
	// Open returns the intents that are not settled, the oldest first.
	Open(ctx context.Context) ([]Intent, error)
}

// Memory is a journal that lasts as long as its process: for tests.
type Memory struct {
	mu   sync.Mutex
	open []Intent
}

// Same reports whether two intents are one attempt.
func (in *Intent) Same(o *Intent) bool {
	return in.Resource == o.Resource && in.Operation == o.Operation && in.Fence == o.Fence && in.Segment == o.Segment && in.Payload == o.Payload
}

func (m *Memory) find(r sdk.ResourceID, op sdk.OperationID) int {
	return slices.IndexFunc(m.open, func(in Intent) bool { return in.Resource == r && in.Operation == op })
}

// Begin implements Journal.
func (m *Memory) Begin(_ context.Context, in Intent) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.find(in.Resource, in.Operation)
	if i < 0 {
		m.open = append(m.open, in)
		return true, nil
	}
	if was := m.open[i]; !was.Same(&in) {
		m.open[i] = in
		m.open[i].Since, m.open[i].Escalated = was.Since, was.Escalated
	}
	return false, nil
}

// Settle implements Journal.
func (m *Memory) Settle(_ context.Context, r sdk.ResourceID, op sdk.OperationID, _ Status) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(r, op); i >= 0 {
		m.open = slices.Delete(m.open, i, i+1)
	}
	return nil
}

// Escalated implements Journal.
func (m *Memory) Escalated(_ context.Context, r sdk.ResourceID, op sdk.OperationID, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(r, op); i >= 0 {
		m.open[i].Escalated = at
	}
	return nil
}

// Open implements Journal.
func (m *Memory) Open(context.Context) ([]Intent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Clone(m.open)
	slices.SortStableFunc(out, func(a, b Intent) int { return a.Since.Compare(b.Since) })
	return out, nil
}

// request is the intent as a request under a grant and proof.
func (in *Intent) request(r gate.Request) gate.Request {
	r.Resource, r.Audience, r.Category, r.Root = in.Resource, in.Audience, in.Category, in.Root
	r.Segment, r.Operation, r.Effects, r.Result, r.Input = in.Segment, in.Operation, in.Effects, in.Result, in.Input
	return r
}
