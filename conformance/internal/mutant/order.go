package mutant

import (
	"math"
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

func stale() []Mutant {
	return []Mutant{
		{Name: "stale-accepted", Law: sdk.F1, Story: "a write path without the condition: plain PUT, background flush (C48)",
			bend: overrule(sdk.StaleOwner, anyTime)},
		{Name: "one-below-accepted", Law: sdk.F1, Story: "an off-by-one in the comparison: stored minus one passes",
			bend: overrule(sdk.StaleOwner, func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Fence+1 == s.Highest })},
		{Name: "stale-next-segment-accepted", Law: sdk.F1, Story: "only the version is compared, which counts on across owners, so that who knows the next number may write",
			bend: overrule(sdk.StaleOwner, func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Segment == s.Segment+1 })},
		{Name: "stale-same-job-accepted", Law: sdk.F1, Story: "tokens are only compared between jobs, as if one job had one owner",
			bend: func(f *flaws) {
				f.judge = func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
					if d := honest(s, prior, m); d.Code != sdk.StaleOwner || m.Root != s.Root {
						return d
					}
					return accept(s, m)
				}
			}},
		{Name: "stale-claim-accepted", Law: sdk.F1, Story: "acquiring is an unconditional write: whoever asks is the owner (C41)",
			bend: overrule(sdk.StaleOwner, func(_ sdk.FenceState, m *sdk.Mutation) bool { return m.IsClaim() })},
		{Name: "stale-delete-accepted", Law: sdk.F1, Story: "the clean-up of a shutdown hook deletes without the condition (C87)",
			bend: overrule(sdk.StaleOwner, func(_ sdk.FenceState, m *sdk.Mutation) bool {
				return len(m.Effects) == 1 && m.Effects[0].Kind == sdk.KindDelete
			})},
		{Name: "stale-replay-accepted", Law: sdk.F1, Story: "the receipt is looked up before the fence, so that a stale owner's repetition is REPLAYED",
			bend: judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				d := honest(s, prior, m)
				if d.Code == sdk.StaleOwner && prior != nil && prior.Echoes(m) {
					d.Code = sdk.Replayed
				}
				return d
			})},
		{Name: "stale-conflict-quarantined", Law: sdk.F1, Story: "the operation is looked up before the fence, so that a stale owner fills the quarantine",
			bend: func(f *flaws) {
				f.before = func(s *store, rec *record, m *sdk.Mutation) {
					if p := rec.receipts[m.Operation]; m.Fence < rec.state.Highest && p != nil && p.Payload != m.Payload {
						s.putQuarantine(rec, m)
					}
				}
			}},
		{Name: "stale-overwrites-grant", Law: sdk.F1, Story: "an upsert raises the fence with GREATEST and sets the other columns of the row whatever it was",
			bend: early(sdk.StaleOwner, func(_ *store, rec *record, m *sdk.Mutation) { rec.state.Grant, rec.state.Root = m.Grant, m.Root })},
		{Name: "stale-lowers-segment", Law: sdk.F1, Story: "the fence is written first and compared with what the write returned",
			bend: early(sdk.StaleOwner, func(_ *store, rec *record, m *sdk.Mutation) { rec.state.Segment = min(rec.state.Segment, m.Segment) })},
		{Name: "stale-hides-receipt", Law: sdk.F1, Story: "the refusal of a conditional write brings no old item, and nobody reads it",
			bend: errorEdited(func(out *sdk.Outcome, e *sdk.Error) {
				if e.Code == sdk.StaleOwner {
					e.Receipt, out.Receipt = nil, nil
				}
			})},
		{Name: "observed-missing", Law: sdk.F1, Story: "a refusal does not say what it saw (C104)",
			bend: errorEdited(func(out *sdk.Outcome, e *sdk.Error) { e.Observed, out.Observed = sdk.FenceState{}, sdk.FenceState{} })},
		{Name: "observed-of-the-request", Law: sdk.F1, Story: "a refusal says what was asked for in place of what is stored",
			bend: answered(func(_ *store, m *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
				if e, ok := err.(*sdk.Error); ok && e.Code == sdk.StaleOwner {
					c := *e
					c.Observed.Segment, out.Observed.Segment = m.Segment, m.Segment
					return out, &c
				}
				return out, err
			})},
	}
}

func takeovers() []Mutant {
	above := func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Fence > s.Highest }
	return []Mutant{
		{Name: "takeover-mid-job", Law: sdk.F2, Story: "only the fence is compared at a takeover, not the segment",
			bend: overrule(sdk.SegmentSkipped, above)},
		{Name: "takeover-of-used-only", Law: sdk.F2, Story: "the first write of a resource is an insert without a condition on the segment",
			bend: overrule(sdk.SegmentSkipped, func(s sdk.FenceState, _ *sdk.Mutation) bool { return s.Absent() })},
		{Name: "takeover-counts-on", Law: sdk.F2, Story: "one version counts across owners, so that a new owner must know where the old one was",
			bend: func(f *flaws) {
				f.judge = func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
					d := honest(s, prior, m)
					switch {
					case d.Code == sdk.Accepted && above(s, m) && s.Segment > 1:
						return refuse(sdk.SegmentSkipped, s, prior)
					case d.Code == sdk.SegmentSkipped && above(s, m) && m.Segment == s.Segment+1:
						return accept(s, m)
					}
					return d
				}
			}},
		{Name: "takeover-same-job-only", Law: sdk.F2, Story: "the root is compared at a takeover too",
			bend: renamed(sdk.Accepted, sdk.RootMismatch, func(s sdk.FenceState, m *sdk.Mutation) bool {
				return above(s, m) && !s.Absent() && m.Root != s.Root
			})},
		{Name: "takeover-keeps-segment", Law: sdk.F2, Story: "a takeover raises the fence and leaves the segment as it was",
			bend: func(f *flaws) {
				f.bend = func(d *sdk.Decision, s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {
					if d.Code == sdk.Accepted && above(s, m) {
						d.Next.Segment = max(d.Next.Segment, s.Segment)
					}
				}
			}},
		{Name: "takeover-keeps-grant", Law: sdk.F2, Story: "a takeover raises the fence and leaves grant and root as they were",
			bend: func(f *flaws) {
				f.bend = func(d *sdk.Decision, s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {
					if d.Code == sdk.Accepted && above(s, m) && !s.Absent() {
						d.Next.Grant, d.Next.Root = s.Grant, s.Root
					}
				}
			}},
		{Name: "skipped-takeover-raises-fence", Law: sdk.F2, Story: "the fence is raised in a write of its own before the segment is compared",
			bend: early(sdk.SegmentSkipped, func(_ *store, rec *record, m *sdk.Mutation) {
				if m.Fence > rec.state.Highest && !rec.state.Absent() {
					rec.state.Highest = m.Fence
				}
			})},
	}
}

func segments() []Mutant {
	at := func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Fence == s.Highest }
	return []Mutant{
		{Name: "skip-accepted", Law: sdk.F3, Story: "segments are only compared with > instead of counted", bend: overrule(sdk.SegmentSkipped, at)},
		{Name: "skip-called-stale", Law: sdk.F3, Story: "every failed condition is read as a lost race",
			bend: renamed(sdk.SegmentSkipped, sdk.StaleOwner, at)},
		{Name: "own-fence-called-stale", Law: sdk.F3, Story: "<= written for <: the owner's second write is below its own fence",
			bend: renamed(sdk.Accepted, sdk.StaleOwner, at)},
		{Name: "takeover-at-same-fence", Law: sdk.F3, Story: ">= written for >: the owner takes over from itself, and its segments begin again",
			bend: overrule(sdk.Quarantined, func(s sdk.FenceState, m *sdk.Mutation) bool { return at(s, m) && m.Segment == 1 })},
		{Name: "root-ignored", Law: sdk.F3, Story: "the operation root is not in the condition", bend: overrule(sdk.RootMismatch, anyTime)},
		{Name: "root-after-segment", Law: sdk.F3, Story: "the segment is compared before the root, so that another job is told that it skipped",
			bend: renamed(sdk.RootMismatch, sdk.SegmentSkipped, func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Segment > s.Segment+1 })},
		{Name: "root-mismatch-quarantined", Law: sdk.F3, Story: "another job's write at a used segment counts as a conflict",
			bend: renamed(sdk.RootMismatch, sdk.Quarantined, func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Segment <= s.Segment })},
		{Name: "nothing-to-do-not-counted", Law: sdk.F3, Story: "a mutation without effects is answered and leaves the segment where it was",
			bend: func(f *flaws) {
				f.bend = func(d *sdk.Decision, s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {
					if d.Code == sdk.Accepted && len(m.Effects) == 0 && m.Hook == nil && at(s, m) {
						d.Next.Segment = s.Segment
					}
				}
			}},
	}
}

// asHeld decides as the laws do, on tokens as this store would hold them.
func asHeld(as func(sdk.Token) sdk.Token) func(*flaws) {
	return judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
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
	})
}

// byText decides as the laws do, but orders tokens by their text.
func byText(text func(sdk.Token) string) func(*flaws) {
	return judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
		switch order := strings.Compare(text(m.Fence), text(s.Highest)); {
		case s.Absent():
		case order < 0 && m.Fence > s.Highest:
			return refuse(sdk.StaleOwner, s, prior)
		case order > 0 && m.Fence < s.Highest && m.Segment == 1:
			return accept(s, m)
		}
		return honest(s, prior, m)
	})
}

// segmentsHeld decides as the laws do, on segments as this store would hold
// them.
func segmentsHeld(as func(sdk.Segment) sdk.Segment) func(*flaws) {
	return func(f *flaws) {
		f.bend = func(d *sdk.Decision, _ sdk.FenceState, _ *sdk.Receipt, _ *sdk.Mutation) {
			if d.Code == sdk.Accepted {
				d.Next.Segment = as(d.Next.Segment)
			}
		}
	}
}

func tokens() []Mutant {
	return []Mutant{
		{Name: "token-float64", Law: sdk.F11, Story: "numbers pass through float64 in a client library (C14, C63)",
			bend: asHeld(func(t sdk.Token) sdk.Token { return sdk.Token(min(float64(t), 1<<62)) })},
		{Name: "token-int32", Law: sdk.F11, Story: "a 32-bit counter or column (C30)",
			bend: asHeld(func(t sdk.Token) sdk.Token { return sdk.Token(uint32(t) & math.MaxInt32) })},
		{Name: "token-string", Law: sdk.F11, Story: "tokens are compared as text: 9 is above 10 (C30)", bend: byText(sdk.Token.String)},
		{Name: "token-padded", Law: sdk.F11, Story: "tokens are padded to ten digits and compared as text, which orders them up to ten digits",
			bend: byText(func(t sdk.Token) string {
				s := t.String()
				return strings.Repeat("0", max(0, 10-len(s))) + s
			})},
		{Name: "token-microseconds", Law: sdk.F11, Story: "tokens are kept in a timestamp column, whose last digits are lost",
			bend: asHeld(func(t sdk.Token) sdk.Token {
				if t > 1<<53 {
					return t / 1000 * 1000
				}
				return t
			})},
		{Name: "token-saturates", Law: sdk.F11, Story: "what does not fit a decimal column of 18 digits is stored as its largest number",
			bend: asHeld(func(t sdk.Token) sdk.Token { return min(t, 999_999_999_999_999_999) })},
		{Name: "segment-int32", Law: sdk.F11, Story: "the segment is in a 32-bit column",
			bend: segmentsHeld(func(s sdk.Segment) sdk.Segment { return sdk.Segment(uint32(s)) })},
		{Name: "segment-float64", Law: sdk.F11, Story: "the segment passes through float64",
			bend: segmentsHeld(func(s sdk.Segment) sdk.Segment { return sdk.Segment(float64(s)) })},
	}
}

func grants() []Mutant {
	twin := func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Fence == s.Highest && m.Grant != s.Grant }
	return []Mutant{
		{Name: "twin-accepted", Law: sdk.F13, Story: "the condition compares tokens only, so that two grants of one token pass (C29)",
			bend: judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				if m.Fence == s.Highest {
					s.Grant = m.Grant
				}
				return honest(s, prior, m)
			})},
		{Name: "twin-called-stale", Law: sdk.F13, Story: "two grants of one token are taken for a lost race, and nobody is alarmed",
			bend: renamed(sdk.FenceRegression, sdk.StaleOwner, twin)},
		{Name: "twin-claims", Law: sdk.F13, Story: "a claim at the same token is an upsert that changes the holder",
			bend: judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				if twin(s, m) && m.IsClaim() {
					return accept(s, m)
				}
				return honest(s, prior, m)
			})},
		{Name: "twin-replaces-grant", Law: sdk.F13, Story: "the second grant is refused and written down in place of the first",
			bend: early(sdk.FenceRegression, func(_ *store, rec *record, m *sdk.Mutation) { rec.state.Grant = m.Grant })},
		{Name: "twin-quarantined", Law: sdk.F13, Story: "the grant is looked at after the position, so that a token issued twice is a conflict like any other",
			bend: renamed(sdk.FenceRegression, sdk.Quarantined, func(s sdk.FenceState, m *sdk.Mutation) bool { return twin(s, m) && m.Segment <= s.Segment })},
	}
}
