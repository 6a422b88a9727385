package mutant

import (
	"slices"
	"strings"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// All returns every mutant.
func All() []Mutant {
	return slices.Concat(ordering(), receipts(), atomicity(), reading(), isolation(), outcomes(), forms())
}

// honest is the decision that the laws give.
func honest(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
	return sdk.Decide(s, prior, sdk.NewAdmission(seal.Cut(), m))
}

// accept is the decision to take m, whatever the laws say.
func accept(s sdk.FenceState, m *sdk.Mutation) sdk.Decision {
	return sdk.Decision{Code: sdk.Accepted, Receipt: receiptOf(m), Next: sdk.FenceState{
		Highest: m.Fence, Grant: m.Grant, Root: m.Root, Segment: m.Segment, Generations: s.Generations.Max(m.Generations)}}
}

// tokens decides as the laws do, on tokens as this store would hold them.
func tokens(as func(sdk.Token) sdk.Token) func(*flaws) {
	return func(f *flaws) {
		f.verdict = func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
			c := *m
			c.Fence, s.Highest = as(m.Fence), as(s.Highest)
			if !c.Fence.Valid() {
				return accept(s, m)
			}
			if prior != nil {
				p := *prior
				p.Fence = as(p.Fence)
				prior = &p
			}
			return honest(s, prior, &c)
		}
	}
}

// overrule takes m where the laws gave one code and the condition holds.
func overrule(code sdk.Code, when func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) bool) func(*flaws) {
	return func(f *flaws) {
		f.after = func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {
			if d.Code == code && when(s, prior, m) {
				*d = accept(s, m)
			}
		}
	}
}

func anyTime(sdk.FenceState, *sdk.Receipt, *sdk.Mutation) bool { return true }

func ordering() []Mutant {
	return []Mutant{
		{"stale-accepted", sdk.F1, "a write path without the condition: plain PUT, background flush", overrule(sdk.StaleOwner, anyTime)},
		{"one-below-accepted", sdk.F1, "<= written for <, off by one", overrule(sdk.StaleOwner, func(s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) bool { return m.Fence+1 == s.Highest })},
		{"stale-replay-accepted", sdk.F1, "the receipt is looked up before the fence, so that a stale owner's repeat is REPLAYED", func(f *flaws) {
			f.after = func(d *sdk.Decision, _ sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {
				if d.Code == sdk.StaleOwner && prior != nil && prior.Echoes(m) {
					d.Code = sdk.Replayed
				}
			}
		}},
		{"stale-hides-receipt", sdk.F1, "the refusal of a conditional write brings no old item, and nobody reads it", func(f *flaws) {
			f.answer = func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if e, ok := err.(*sdk.Error); ok && e.Code == sdk.StaleOwner {
					c := *e
					c.Receipt, out.Receipt = nil, nil
					return out, &c
				}
				return out, err
			}
		}},
		{"takeover-mid-job", sdk.F2, "only the fence is compared at a takeover, not the segment", overrule(sdk.SegmentSkipped, func(s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) bool { return m.Fence > s.Highest })},
		{"skip-accepted", sdk.F3, "segments are only compared with > instead of counted", overrule(sdk.SegmentSkipped, func(s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) bool { return m.Fence == s.Highest })},
		{"root-ignored", sdk.F3, "the operation root is not in the condition", overrule(sdk.RootMismatch, anyTime)},
		{"twin-accepted", sdk.F13, "the condition compares tokens only, so two grants of one token pass", func(f *flaws) {
			f.verdict = func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				if m.Fence == s.Highest {
					s.Grant = m.Grant
				}
				return honest(s, prior, m)
			}
		}},
		{"token-float64", sdk.F11, "numbers pass through float64 in a client library (C63, C14)", tokens(func(t sdk.Token) sdk.Token { return sdk.Token(min(float64(t), 1<<62)) })},
		{"token-int32", sdk.F11, "a 32-bit counter or column (C30)", tokens(func(t sdk.Token) sdk.Token { return sdk.Token(uint32(t) & 0x7fffffff) })},
		{"token-string", sdk.F11, "tokens are compared as text: 9 is above 10", func(f *flaws) {
			f.verdict = func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				c := *m
				switch byText := strings.Compare(m.Fence.String(), s.Highest.String()); {
				case s.Absent():
				case byText < 0 && m.Fence > s.Highest:
					d := honest(s, prior, m)
					d.Code, d.Next = sdk.StaleOwner, s
					return d
				case byText > 0 && m.Fence < s.Highest && m.Segment == 1:
					return accept(s, &c)
				}
				return honest(s, prior, m)
			}
		}},
		{"generations-lowered", sdk.P1, "a takeover overwrites the whole fence record", func(f *flaws) {
			f.after = func(d *sdk.Decision, s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {
				if d.Code == sdk.Accepted && m.Fence > s.Highest {
					d.Next.Generations = m.Generations
				}
			}
		}},
		{"seed-wins", sdk.P1, "the seed of shadow mode is taken though the store has a fence of its own", func(f *flaws) {
			f.verdict = func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				if !m.Seed.Absent() {
					s = m.Seed
				}
				return honest(s, prior, m)
			}
		}},
		{"seed-ignored", sdk.P1, "a resource that goes from shadow to enforce starts at zero", func(f *flaws) {
			f.verdict = func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				c := *m
				c.Seed = sdk.FenceState{}
				return honest(s, prior, &c)
			}
		}},
		{"claim-quarantined", sdk.F5, "a claim that meets its own grant's write counts as a conflict", func(f *flaws) {
			f.after = func(d *sdk.Decision, _ sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {
				if d.Code == sdk.NotApplied && m.IsClaim() {
					d.Code = sdk.Quarantined
				}
			}
		}},
	}
}

func receipts() []Mutant {
	return []Mutant{
		{"replay-applied-twice", sdk.F4, "the effects run before the receipt is looked up", func(f *flaws) {
			f.after = func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {
				if d.Code == sdk.Replayed {
					*d = sdk.Decision{Code: sdk.Accepted, Next: s, Receipt: prior}
				}
			}
		}},
		{"replay-new-receipt", sdk.F4, "the answer to a replay is built from the request", func(f *flaws) {
			f.after = func(d *sdk.Decision, _ sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {
				if d.Code == sdk.Replayed {
					d.Receipt = receiptOf(m)
				}
			}
		}},
		{"replay-refused", sdk.F4, "a segment that was accepted is called skipped", func(f *flaws) {
			f.after = func(d *sdk.Decision, _ sdk.FenceState, _ *sdk.Receipt, _ *sdk.Mutation) {
				if d.Code == sdk.Replayed {
					d.Code = sdk.SegmentSkipped
				}
			}
		}},
		{"conflict-overwrites", sdk.F5, "upsert: the later payload replaces the receipt (C75)", func(f *flaws) {
			f.after = func(d *sdk.Decision, s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {
				if d.Code == sdk.Quarantined {
					*d = sdk.Decision{Code: sdk.Accepted, Next: s, Receipt: receiptOf(m)}
				}
			}
		}},
		{"conflict-is-replay", sdk.F5, "a duplicate key is swallowed as success (C75)", func(f *flaws) {
			f.after = func(d *sdk.Decision, _ sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {
				if d.Code == sdk.Quarantined && prior != nil {
					d.Code, d.Receipt = sdk.Replayed, prior
				}
			}
		}},
		{"quarantine-not-kept", sdk.F5, "the conflict is logged and forgotten", func(f *flaws) { f.noQuarantine = true }},
		{"quarantine-in-memory", sdk.F5, "quarantine records live in the adapter's process", func(f *flaws) { f.quarantineMemory = true }},
		{"quarantine-applies", sdk.F5, "the effects ran before the conflict was seen", func(f *flaws) {
			f.apply = effects
			f.after = func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {}
			f.priorOf = func(r *record, m *sdk.Mutation) *sdk.Receipt {
				p := r.receipts[m.Operation]
				if honest(r.state, p, m).Code == sdk.Quarantined {
					effects(r, m)
				}
				return p
			}
		}},
		{"quarantine-unbounded", sdk.F5, "every attempt adds a record beyond the declared limit", func(f *flaws) { f.noLimit = true }},
		{"already-moves-fence", sdk.F10, "the fence is raised before the operation is looked up", func(f *flaws) {
			f.after = func(d *sdk.Decision, s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {}
			f.priorOf = func(r *record, m *sdk.Mutation) *sdk.Receipt {
				p := r.receipts[m.Operation]
				if honest(r.state, p, m).Code == sdk.AlreadyApplied && m.Fence > r.state.Highest {
					r.state.Highest, r.state.Grant, r.state.Root, r.state.Segment = m.Fence, m.Grant, m.Root, 0
				}
				return p
			}
		}},
		{"already-uses-segment", sdk.F10, "the segment counter goes on before the operation is looked up", func(f *flaws) {
			f.priorOf = func(r *record, m *sdk.Mutation) *sdk.Receipt {
				p := r.receipts[m.Operation]
				if honest(r.state, p, m).Code == sdk.AlreadyApplied && m.Fence == r.state.Highest {
					r.state.Segment++
				}
				return p
			}
		}},
		{"receipts-pruned", sdk.F10, "receipts have a TTL or the last N are kept (C64)", func(f *flaws) {
			f.committed = func(r *record, _ *sdk.Mutation, _ *sdk.Receipt) {
				for len(r.order) > 32 {
					delete(r.receipts, r.order[0])
					r.order = r.order[1:]
				}
			}
		}},
		{"receipt-per-fence", sdk.F10, "the receipt's key holds the fence, so a new owner repeats the work", func(f *flaws) {
			f.priorOf = func(r *record, m *sdk.Mutation) *sdk.Receipt {
				if p := r.receipts[m.Operation]; p != nil && p.Fence == m.Fence {
					return p
				}
				return nil
			}
		}},
		{"receipt-per-segment", sdk.F10, "the receipt's key holds the segment, so the next segment repeats the work", func(f *flaws) {
			f.priorOf = func(r *record, m *sdk.Mutation) *sdk.Receipt {
				if p := r.receipts[m.Operation]; p != nil && p.Segment == m.Segment {
					return p
				}
				return nil
			}
		}},
		{"result-not-kept", sdk.F6, "the receipt is written without its result", func(f *flaws) {
			f.committed = func(_ *record, _ *sdk.Mutation, r *sdk.Receipt) { r.Result = nil }
		}},
		{"result-truncated", sdk.F6, "a column of 4 KiB for the result", func(f *flaws) {
			f.committed = func(_ *record, _ *sdk.Mutation, r *sdk.Receipt) {
				r.Result = r.Result[:min(len(r.Result), 4<<10)]
			}
		}},
	}
}
