package mutant

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fencedstore/fencedstore/sdk"
)

const whileHeld = "a write waits only while caller's code stands still in its resource's transaction"

func outcomes() []Mutant {
	return []Mutant{
		{Name: "success-called-not-applied", Law: sdk.O1, Story: "a time-out after the commit is taken for a failure (C3, C26)", bend: lie(sdk.Accepted, sdk.NotApplied, 3)},
		{Name: "replay-called-not-applied", Law: sdk.O1, Story: "a transaction conflict on a retry is taken for a failure of the write (C4)", bend: lie(sdk.Replayed, sdk.NotApplied, 2)},
		{Name: "context-looked-at-late", Law: sdk.O1, Story: "a context that ended is reported as NOT_APPLIED after the commit", bend: func(f *flaws) { f.lateContext = true }},
		{Name: "cancelled-lands-later", Law: sdk.O1, Story: "a cancelled write is NOT_APPLIED, and stays in the queue from which it is written (C25)", Concurrent: whileHeld,
			bend: func(f *flaws) {
				f.abandoned = func(s *store, m *sdk.Mutation, err error) error {
					rec := s.data.record(s.namespace, m.Resource)
					go func() { // ends once the resource is free
						rec.lock <- struct{}{}
						_, _ = s.locked(context.Background(), rec, m)
						<-rec.lock
					}()
					return err
				}
			}},
		{Name: "cancelled-called-stale", Law: sdk.O1, Story: "the time-out of a pool or a lock is taken for a lost race (C26, C47)", Concurrent: whileHeld,
			bend: func(f *flaws) {
				f.abandoned = func(_ *store, _ *sdk.Mutation, err error) error {
					return sdk.Errorf(sdk.StaleOwner, "fence", "the condition was not met: %w", err)
				}
			}},
		{Name: "no-error", Law: sdk.O1, Story: "a refusal comes back without an error",
			bend: answered(func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if out.Code == sdk.StaleOwner {
					return out, nil
				}
				return out, err
			})},
		{Name: "codes-differ", Law: sdk.O1, Story: "outcome and error are filled at two places, and disagree",
			bend: answered(func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if out.Code == sdk.StaleOwner {
					out.Code = sdk.SegmentSkipped
				}
				return out, err
			})},
		{Name: "plain-errors", Law: sdk.O1, Story: "errors of the client library come through without a code (C104)",
			bend: answered(func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if out.Code == sdk.RootMismatch {
					return sdk.Outcome{}, plainError{}
				}
				return out, err
			})},
		{Name: "refusals-called-unknown", Law: sdk.O1, Story: "a failed condition is an error like any other, and so its outcome unknown (C104)",
			bend: errorEdited(func(out *sdk.Outcome, e *sdk.Error) {
				if e.Code == sdk.RootMismatch {
					*e = sdk.Error{Code: sdk.MutationUnknown, Msg: "the condition was not met"}
					*out = sdk.Refusal(e)
				}
			})},
		{Name: "accepted-without-receipt", Law: sdk.O1, Story: "the answer to a write does not carry its receipt",
			bend: answered(func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if out.Code.Ok() {
					out.Receipt = nil
				}
				return out, err
			})},
		{Name: "accepted-observes-the-past", Law: sdk.O1, Story: "the state in the answer was read before the write",
			bend: answered(func(_ *store, m *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if out.Code == sdk.Accepted && m.Segment > 1 {
					out.Observed.Segment--
				}
				return out, err
			})},
		{Name: "missing-key-reads-empty", Law: sdk.O1, Story: "a key that is not there reads as an empty value",
			bend: func(f *flaws) {
				f.read = func(_ *store, _ *record, _ sdk.ResourceID, _ string, v []byte) ([]byte, error) {
					return append([]byte{}, v...), nil
				}
			}},
		{Name: "fresh-resource-not-found", Law: sdk.O1, Story: "a resource without a fence is an error for Inspect",
			bend: func(f *flaws) {
				f.inspect = func(_ *store, _ *record, r sdk.ResourceID, state sdk.FenceState, err error) (sdk.FenceState, error) {
					if err == nil && state.Absent() {
						return state, sdk.Errorf(sdk.NotFound, "resource", "%q has no fence", r)
					}
					return state, err
				}
			}},
		{Name: "reason-missing", Law: sdk.O1, Story: "a capability is declared unsupported without a reason",
			bend: func(f *flaws) {
				f.describe = func(d *sdk.Description) {
					d.Capabilities[sdk.CapDial] = sdk.Declared{Support: sdk.NotSupported}
				}
			}},
		{Name: "describes-each-handle-otherwise", Law: sdk.O1, Story: "the description says what this handle happens to be connected to",
			bend: func(f *flaws) {
				var n atomic.Int64
				f.describe = func(d *sdk.Description) { d.Backend += sdk.Token(n.Add(1)).String() }
			}},
		{Name: "kind-missing", Law: sdk.O1, Story: "a portable kind is not among those that the store takes",
			bend: func(f *flaws) {
				f.describe = func(d *sdk.Description) { d.Kinds = []string{sdk.KindPut, sdk.KindResolve} }
			}},
	}
}

type plainError struct{}

func (plainError) Error() string { return "ConditionalCheckFailedException" }

func echoes() []Mutant {
	return []Mutant{
		{Name: "echo-called-stale", Law: sdk.O2, Story: "a client library retried, and its own success came back as a lost race (C1, C2)", bend: lie(sdk.Accepted, sdk.StaleOwner, 3)},
		{Name: "echo-called-skipped", Law: sdk.O2, Story: "a retry after a lost acknowledgement found its own segment", bend: lie(sdk.Accepted, sdk.SegmentSkipped, 3)},
		{Name: "echo-called-already-applied", Law: sdk.O2, Story: "a retry after a lost acknowledgement found its own receipt", bend: lie(sdk.Accepted, sdk.AlreadyApplied, 3)},
		{Name: "replay-called-conflict", Law: sdk.O2, Story: "a token mismatch on a retry is read as another payload (C17)", bend: lie(sdk.Replayed, sdk.Quarantined, 1)},
	}
}

func resolution() []Mutant {
	return []Mutant{
		{Name: "claim-writes-nothing", Law: sdk.O3, Story: "a mutation without effects is not sent, so that a claim shuts nobody out (C48)",
			bend: judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				d := honest(s, prior, m)
				if d.Code == sdk.Accepted && m.IsClaim() && !s.Absent() {
					return sdk.Decision{Code: sdk.Replayed, Next: d.Next, Receipt: receiptOf(m)}
				}
				return d
			})},
		{Name: "judged-before-the-wait", Law: sdk.O3, Story: "writes on their way were admitted at the old fence, and land after a claim without being judged again (C86)",
			Concurrent: betweenSteps,
			bend: func(f *flaws) {
				f.unlocked = func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Fence == s.Highest }
			}},
		{Name: "late-landing", Law: sdk.O3, Story: "a write that was answered MUTATION_UNKNOWN sits in a hand-off queue and lands after the new owner's look-up (C33)", bend: lateLanding},
		{Name: "unreadable-called-absent", Law: sdk.O3, Story: "a receipt that could not be read is NOT_FOUND",
			bend: func(f *flaws) {
				f.failed = func(err error) error {
					if sdk.CodeOf(err) == sdk.NotApplied {
						return sdk.Errorf(sdk.NotFound, "operation", "has no receipt: %w", err)
					}
					return err
				}
			}},
		{Name: "missing-receipt-is-zero", Law: sdk.O3, Story: "an operation without a receipt is answered with an empty one",
			bend: func(f *flaws) {
				f.receipt = func(_ *store, _ *record, _ sdk.ResourceID, _ sdk.OperationID, got *sdk.Receipt) (*sdk.Receipt, error) {
					if got == nil {
						return &sdk.Receipt{}, nil
					}
					return got, nil
				}
			}},
	}
}

// lateLanding queues second segments, and lets one land when a later owner has
// looked for it and found nothing. What is sent again is written at once.
func lateLanding(f *flaws) {
	var queued sync.Map
	f.before = func(_ *store, rec *record, m *sdk.Mutation) {
		for i, p := range rec.pending {
			if p.Operation == m.Operation {
				rec.pending = slices.Delete(rec.pending, i, i+1)
				return
			}
		}
		if m.Segment == 2 && honest(rec.state, rec.receipts[m.Operation], m).Code == sdk.Accepted {
			rec.pending = append(rec.pending, m)
			queued.Store(m, true)
		}
	}
	f.bend = func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {
		if _, ok := queued.LoadAndDelete(m); ok {
			*d = refuse(sdk.MutationUnknown, s, prior)
		}
	}
	f.receipt = func(s *store, rec *record, _ sdk.ResourceID, op sdk.OperationID, got *sdk.Receipt) (*sdk.Receipt, error) {
		for i, m := range rec.pending {
			if m.Operation == op && m.Fence < rec.state.Highest {
				_ = effects(s, rec, m)
				s.data.putReceipt(rec, m, receiptOf(m))
				rec.pending = slices.Delete(rec.pending, i, i+1)
				return nil, nil
			}
		}
		return got, nil
	}
}

func promptness() []Mutant {
	return []Mutant{
		{Name: "context-ignored", Law: sdk.O4, Story: "waiting for a lock or a pool without the context (C36, C59)", bend: func(f *flaws) { f.noContext = true }},
		{Name: "reads-ignore-context", Law: sdk.O4, Story: "reads wait for a lock without the context", bend: func(f *flaws) { f.readsNoCtx = true }},
		{Name: "deadline-ignored", Law: sdk.O4, Story: "cancelling is noticed, a deadline is left to a client's own time-out (C46)", bend: func(f *flaws) { f.noDeadline = true }},
	}
}
