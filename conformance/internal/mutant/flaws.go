package mutant

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

// flaws bend single steps of the store. The zero value bends none. Functions
// that take a record are called while its lock is held.
type flaws struct {
	// check replaces the first step of Apply.
	check func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error)
	// abandoned answers a write whose context ended while it waited.
	abandoned func(s *store, m *sdk.Mutation, err error) error

	// seen replaces the fence state that is judged by.
	seen func(s *store, m *sdk.Mutation, now sdk.FenceState) sdk.FenceState
	// prior finds the receipt of the operation.
	prior func(rec *record, m *sdk.Mutation) *sdk.Receipt
	// before runs before the decision: what an adapter does too early.
	before func(s *store, rec *record, m *sdk.Mutation)
	// unlocked reads, decides and writes without holding the lock in between.
	unlocked func(s sdk.FenceState, m *sdk.Mutation) bool
	// judge replaces sdk.Decide.
	judge func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision
	// bend changes the decision before it is carried out.
	bend func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation)

	// apply carries the effects out.
	apply func(s *store, rec *record, m *sdk.Mutation) error
	// committed runs once an accepted mutation is in the record. The receipt is
	// the one that is kept.
	committed func(s *store, rec *record, m *sdk.Mutation, kept *sdk.Receipt)
	// quarantined keeps a record in place of the store.
	quarantined func(s *store, rec *record, q *sdk.Quarantine)
	// answer changes what Apply answers.
	answer func(s *store, m *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error)

	// These change what is read.
	inspect    func(s *store, rec *record, r sdk.ResourceID, state sdk.FenceState, err error) (sdk.FenceState, error)
	receipt    func(s *store, rec *record, r sdk.ResourceID, op sdk.OperationID, got *sdk.Receipt) (*sdk.Receipt, error)
	read       func(s *store, rec *record, r sdk.ResourceID, key string, v []byte) ([]byte, error)
	quarantine func(s *store, rec *record, r sdk.ResourceID, q []sdk.Quarantine) []sdk.Quarantine
	// failed changes the error of a read that could not be made.
	failed func(err error) error

	// opened runs for each record when a handle opens, closed when the last one
	// closes; shut when any does.
	opened, closed func(rec *record)
	shut           func(d *data, s *store) error
	probe          func(s *store, ctx context.Context)
	describe       func(*sdk.Description)

	// Names under which things are kept.
	key         func(namespace, resource string) string
	receiptName func(resource, op string) string // for all resources at once
	valueName   func(resource, key string) string
	// resource replaces a name that is not canonical.
	resource func(sdk.ResourceID) (sdk.ResourceID, error)
	// extra is a lock that is taken before the record's own.
	extra func(d *data, r sdk.ResourceID, write bool) chan struct{}

	fenceFirst    bool // lets others in between the fence and the rest
	fenceLast     bool // lets others in between the rest and the fence
	noContext     bool // looks at no context
	readsNoCtx    bool // nor do reads
	noDeadline    bool // looks at cancellation only
	lateContext   bool // looks at the context after it has committed
	anyName       bool // takes names that are not well formed
	anyNamespace  bool
	aliased       bool // gives its own bytes away
	closedAnswers bool
	blindToDamage bool // takes a missing fence for a fresh resource
	hookIgnored   bool
	hookErrorKept bool // commits though the hook failed
	hookResult    func([]byte) []byte

	native      bool // has native effects
	noScope     bool // carries native effects out whatever the scope says
	scopeOption bool // takes the absence of a scope function for consent
	ownTables   bool // lets native effects touch its own tables
	nativeLate  bool // finds out in the middle that a native effect fails
}
