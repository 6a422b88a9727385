package mutant

import (
	"sync/atomic"

	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// These make the flaws of several mutants.

// verdict is what decides; see flaws.judge.
type verdict = func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision

// honest is the decision that the laws give.
func honest(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
	return sdk.Decide(s, prior, sdk.NewAdmission(seal.Cut(), m))
}

// accept is the decision to take m, whatever the laws say.
func accept(s sdk.FenceState, m *sdk.Mutation) sdk.Decision {
	return sdk.Decision{Code: sdk.Accepted, Receipt: receiptOf(m), Next: sdk.FenceState{
		Highest: m.Fence, Grant: m.Grant, Root: m.Root, Segment: m.Segment, Generations: s.Generations.Max(m.Generations)}}
}

// refuse is a refusal that changes nothing.
func refuse(code sdk.Code, s sdk.FenceState, prior *sdk.Receipt) sdk.Decision {
	return sdk.Decision{Code: code, Next: s, Receipt: prior}
}

// judged replaces the laws.
func judged(v verdict) func(*flaws) { return func(f *flaws) { f.judge = v } }

// overrule takes m where the laws gave code and the condition holds.
func overrule(code sdk.Code, when func(s sdk.FenceState, m *sdk.Mutation) bool) func(*flaws) {
	return judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
		d := honest(s, prior, m)
		if d.Code == code && when(s, m) {
			return accept(s, m)
		}
		return d
	})
}

func anyTime(sdk.FenceState, *sdk.Mutation) bool { return true }

// renamed gives another code where the laws gave one and the condition holds;
// nothing is carried out that they would not have.
func renamed(from, to sdk.Code, when func(s sdk.FenceState, m *sdk.Mutation) bool) func(*flaws) {
	return func(f *flaws) {
		f.bend = func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {
			if d.Code == from && when(s, m) {
				*d = refuse(to, s, prior)
			}
		}
	}
}

// early runs f before the decision, where the decision is going to be code.
func early(code sdk.Code, run func(s *store, rec *record, m *sdk.Mutation)) func(*flaws) {
	return func(f *flaws) {
		f.before = func(s *store, rec *record, m *sdk.Mutation) {
			if honest(rec.state, s.data.receiptOf(rec, m.Resource, m.Operation), m).Code == code {
				run(s, rec, m)
			}
		}
	}
}

// committed runs f after each accepted mutation.
func committed(run func(s *store, rec *record, m *sdk.Mutation, kept *sdk.Receipt)) func(*flaws) {
	return func(f *flaws) { f.committed = run }
}

// put bends how one put is carried out; all else is honest.
func put(run func(s *store, rec *record, m *sdk.Mutation, key string, value []byte)) func(*flaws) {
	return func(f *flaws) {
		f.apply = func(s *store, rec *record, m *sdk.Mutation) error {
			for _, e := range m.Effects {
				if e.Kind != sdk.KindPut {
					s.effect(rec, m, e)
				} else if key, value, err := sdk.ParsePut(e.Body); err == nil {
					run(s, rec, m, key, value)
				}
			}
			return nil
		}
	}
}

// wrong answers out of turn.
type wrong = func(s *store, m *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error)

func answered(w wrong) func(*flaws) { return func(f *flaws) { f.answer = w } }

// errorEdited changes a copy of an error answer.
func errorEdited(edit func(out *sdk.Outcome, e *sdk.Error)) func(*flaws) {
	return answered(func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
		e, ok := err.(*sdk.Error)
		if !ok {
			return out, err
		}
		c := *e
		edit(&out, &c)
		return out, &c
	})
}

// lie answers code after the work was done, for one in every so many answers
// that are true.
func lie(of, code sdk.Code, every int64) func(*flaws) {
	return func(f *flaws) {
		var n atomic.Int64
		f.answer = func(_ *store, _ *sdk.Mutation, out sdk.Outcome, err error) (sdk.Outcome, error) {
			if out.Code != of || n.Add(1)%every != 0 {
				return out, err
			}
			e := sdk.Errorf(code, "", "the answer to a later attempt")
			return sdk.Refusal(e), e
		}
	}
}
