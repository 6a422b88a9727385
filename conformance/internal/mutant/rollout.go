package mutant

import (
	"path"

	"github.com/fencedstore/fencedstore/sdk"
)

func rollout() []Mutant {
	return []Mutant{
		{Name: "generations-lowered", Law: sdk.P1, Story: "a takeover overwrites the whole fence record",
			bend: generations(func(_ sdk.FenceState, m *sdk.Mutation, next *sdk.FenceState, takeover bool) {
				if takeover {
					next.Generations = m.Generations
				}
			})},
		{Name: "generations-not-kept", Law: sdk.P1, Story: "the fence record has no place for them",
			bend: generations(func(_ sdk.FenceState, _ *sdk.Mutation, next *sdk.FenceState, _ bool) {
				next.Generations = sdk.Generations{}
			})},
		{Name: "generations-at-each-write", Law: sdk.P1, Story: "every write takes the generations, not a takeover alone",
			bend: generations(func(_ sdk.FenceState, m *sdk.Mutation, next *sdk.FenceState, _ bool) {
				next.Generations = next.Generations.Max(m.Generations)
			})},
		{Name: "seed-wins", Law: sdk.P1, Story: "the seed of shadow mode is taken though the store has a fence of its own",
			bend: judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				if !m.Seed.Absent() {
					s = m.Seed
				}
				return honest(s, prior, m)
			})},
		{Name: "seed-ignored", Law: sdk.P1, Story: "a resource that goes from shadow to enforce starts at zero",
			bend: judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				c := *m
				c.Seed = sdk.FenceState{}
				return honest(s, prior, &c)
			})},
		{Name: "seed-stays-after-refusal", Law: sdk.P1, Story: "the seed is written before the verdict, and stays when that is a refusal",
			bend: func(f *flaws) {
				f.before = func(_ *store, rec *record, m *sdk.Mutation) {
					if rec.state.Absent() && !m.Seed.Absent() && honest(rec.state, nil, m).Code != sdk.Accepted {
						rec.state = m.Seed
					}
				}
			}},
		{Name: "seed-generations-lost", Law: sdk.P1, Story: "the seed brings the fence and not its generations",
			bend: judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				c := *m
				c.Seed.Generations = sdk.Generations{}
				return honest(s, prior, &c)
			})},
	}
}

func generations(keep func(s sdk.FenceState, m *sdk.Mutation, next *sdk.FenceState, takeover bool)) func(*flaws) {
	return func(f *flaws) {
		f.bend = func(d *sdk.Decision, s sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {
			if d.Code == sdk.Accepted {
				keep(s, m, &d.Next, m.Fence > s.Highest)
			}
		}
	}
}

func inputs() []Mutant {
	return []Mutant{
		{Name: "any-name", Law: sdk.A2, Story: "names are not checked, so that two spellings are two fences (C39, C91)", bend: func(f *flaws) { f.anyName = true }},
		{Name: "names-repaired", Law: sdk.A2, Story: "a name that is not canonical is cleaned, and answered for another (C39)",
			bend: func(f *flaws) {
				f.resource = func(r sdk.ResourceID) (sdk.ResourceID, error) {
					clean := sdk.ResourceID(path.Clean(string(r)))
					return clean, clean.Validate()
				}
			}},
		{Name: "odd-name-panics", Law: sdk.A2, Story: "a name is split without looking whether it has the parts",
			bend: func(f *flaws) {
				f.resource = func(r sdk.ResourceID) (sdk.ResourceID, error) { panic("index out of range: " + string(r)) }
			}},
		{Name: "empty-admission-panics", Law: sdk.A7, Story: "the zero admission is dereferenced",
			bend: func(f *flaws) {
				f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) {
					if m, err := a.Mutation(); m == nil && sdk.CodeOf(err) == sdk.Invalid {
						panic("nil mutation")
					}
					return d.Check(a)
				}
			}},
		{Name: "empty-admission-accepted", Law: sdk.A7, Story: "there is nothing to do, so it is done",
			bend: func(f *flaws) {
				f.check = func(d *sdk.Description, a sdk.Admission) (*sdk.Mutation, error) {
					if a == (sdk.Admission{}) {
						return nil, nil
					}
					return d.Check(a)
				}
			}},
	}
}
