package sdk

// Decision is what the laws say of a mutation.
type Decision struct {
	// Code is the verdict. Only ACCEPTED changes fence, receipts and data; only
	// QUARANTINED leaves a quarantine record.
	Code Code
	// Next is the fence state afterwards; equal to the old one unless ACCEPTED.
	Next FenceState
	// Receipt is the new receipt (ACCEPTED), the original one (REPLAYED), or the
	// operation's receipt where a refusal has one to show.
	Receipt *Receipt
	// Alarm says that the stored state contradicts itself, whatever Code is.
	Alarm bool

	msg   string
	field string
}

// Decide is the laws F1–F5, F10, F11 and F13 as a pure function: what becomes
// of a at a resource whose fence is state and whose receipt for a's operation
// is prior (nil if it has none). It changes neither. A store with transactions
// calls it inside one and commits what it says; a store with conditional writes
// states the same condition natively and calls it on the old item to explain a
// refusal.
//
// The first rule that applies decides: range, stale, grant, root, skip,
// position, operation.
func Decide(state FenceState, prior *Receipt, a Admission) Decision {
	m, err := a.Mutation()
	if err != nil {
		e, _ := asError(err)
		return Decision{Code: e.Code, Next: state, field: e.Field, msg: e.Msg}
	}
	d := decide(state, prior, m)
	if d.Code != Accepted {
		d.Next = state
	}
	if d.Code != Accepted && d.Code != Replayed && d.Receipt == nil {
		d.Receipt = prior
	}
	return d
}

func decide(state FenceState, prior *Receipt, m *Mutation) Decision {
	regressed := prior != nil &&
		(prior.Fence > state.Highest || prior.Fence == state.Highest && prior.Segment > state.Segment)
	if state.Absent() && !regressed {
		state = m.Seed
	}
	switch {
	case m.Fence < state.Highest:
		return Decision{Code: StaleOwner, Alarm: regressed,
			msg: "a newer owner has written; stop, and do not send this grant again"}
	case regressed:
		return Decision{Code: FenceRegression, Alarm: true, field: "fence",
			msg: "a receipt is above the stored fence: state was lost or restored; stop writers and raise the registry's floor above every stored fence"}
	case m.Fence == state.Highest && m.Grant != state.Grant:
		return Decision{Code: FenceRegression, Alarm: true, field: "grant",
			msg: "this fence token was issued twice, to two grants; stop writers and raise the registry's floor"}
	case m.Fence == state.Highest && m.Root != state.Root:
		return Decision{Code: RootMismatch, field: "operation root",
			msg: "the fence belongs to another job"}
	}
	last := Segment(0)
	if m.Fence == state.Highest {
		last = state.Segment
	}
	switch {
	case m.Segment > last+1:
		return Decision{Code: SegmentSkipped, field: "segment",
			msg: "not the next segment under this fence; send them in order from 1"}
	case m.Segment <= last:
		return decidePosition(prior, m)
	}
	return decideOperation(state, prior, m)
}

// decidePosition judges a segment that was accepted before.
func decidePosition(prior *Receipt, m *Mutation) Decision {
	switch {
	case prior != nil && prior.Echoes(m):
		return Decision{Code: Replayed, Receipt: prior}
	case m.IsClaim():
		// The fence is this grant's: what a claim is for has been done.
		return Decision{Code: NotApplied, field: "operation",
			msg: "the fence is this grant's already; a claim would change nothing"}
	}
	return Decision{Code: Quarantined, field: "segment",
		msg: "the segment was accepted with another operation or payload"}
}

// decideOperation judges the next segment, or the first of a new fence.
func decideOperation(state FenceState, prior *Receipt, m *Mutation) Decision {
	switch {
	case prior != nil && prior.Payload == m.Payload:
		return Decision{Code: AlreadyApplied, field: "operation",
			msg: "the operation has its receipt; reuse its result and go on with another operation at this segment"}
	case prior != nil:
		return Decision{Code: Quarantined, field: "operation",
			msg: "the operation was accepted with another payload"}
	}
	next := FenceState{Highest: m.Fence, Grant: m.Grant, Root: m.Root, Segment: m.Segment,
		Generations: state.Generations}
	if m.Fence > state.Highest {
		next.Generations = state.Generations.Max(m.Generations)
	}
	return Decision{Code: Accepted, Next: next, Receipt: m.receipt()}
}

func (m *Mutation) receipt() *Receipt {
	return &Receipt{Resource: m.Resource, Operation: m.Operation, Fence: m.Fence, Segment: m.Segment,
		Root: m.Root, Grant: m.Grant, Payload: m.Payload, Owner: m.Owner, Time: m.Time, Result: m.Result}
}

// Quarantine is the record that a QUARANTINED mutation leaves.
func (m *Mutation) Quarantine() Quarantine {
	return Quarantine{QuarantineKey: m.Key(), Resource: m.Resource, Grant: m.Grant, Owner: m.Owner, Time: m.Time}
}

// Outcome turns a decision that the store has carried out into the answer of
// Apply: for ACCEPTED and REPLAYED no error, otherwise an *Error that tells
// what was observed.
func (d Decision) Outcome() (Outcome, error) {
	out := Outcome{Code: d.Code, Receipt: d.Receipt, Observed: d.Next}
	if d.Code.Ok() {
		return out, nil
	}
	return out, &Error{Code: d.Code, Field: d.field, Msg: d.msg, Alarm: d.Alarm, Observed: d.Next, Receipt: d.Receipt}
}
