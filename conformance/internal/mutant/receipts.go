package mutant

import (
	"slices"

	"github.com/fencedstore/fencedstore/sdk"
)

func replays() []Mutant {
	return []Mutant{
		{Name: "replay-applied-twice", Law: sdk.F4, Story: "the effects run before the receipt is looked up (C45)",
			bend: early(sdk.Replayed, func(s *store, rec *record, m *sdk.Mutation) { effects(s, rec, m) })},
		{Name: "replay-commits-again", Law: sdk.F4, Story: "an accepted segment is accepted again, effects and receipt and all (C74)",
			bend: judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				d := honest(s, prior, m)
				if d.Code == sdk.Replayed {
					return sdk.Decision{Code: sdk.Accepted, Next: s, Receipt: receiptOf(m)}
				}
				return d
			})},
		{Name: "replay-new-receipt", Law: sdk.F4, Story: "the answer to a replay is built from the request",
			bend: func(f *flaws) {
				f.bend = func(d *sdk.Decision, _ sdk.FenceState, _ *sdk.Receipt, m *sdk.Mutation) {
					if d.Code == sdk.Replayed {
						d.Receipt = receiptOf(m)
					}
				}
			}},
		{Name: "replay-touches-receipt", Law: sdk.F4, Story: "a replay is an upsert that renews the receipt's time and owner",
			bend: early(sdk.Replayed, func(_ *store, rec *record, m *sdk.Mutation) {
				renewed := *rec.receipts[m.Operation]
				renewed.Time, renewed.Owner = m.Time, m.Owner
				rec.receipts[m.Operation] = &renewed
			})},
		{Name: "replay-refused", Law: sdk.F4, Story: "a segment that was accepted is called skipped", bend: renamed(sdk.Replayed, sdk.SegmentSkipped, anyTime)},
		{Name: "replay-of-last-only", Law: sdk.F4, Story: "only the newest operation is kept in the fence's row, and anything older is a conflict",
			bend: renamed(sdk.Replayed, sdk.Quarantined, func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Segment < s.Segment })},
		{Name: "replay-compares-clock", Law: sdk.F4, Story: "the whole request is compared, and a later attempt carries a later time",
			bend: func(f *flaws) {
				f.bend = func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {
					if d.Code == sdk.Replayed && !prior.Time.Equal(m.Time) {
						*d = refuse(sdk.Quarantined, s, prior)
					}
				}
			}},
		{Name: "receipts-of-claims-missing", Law: sdk.F4, Story: "claims are not mutations, and leave no receipt",
			bend: committed(func(_ *store, rec *record, m *sdk.Mutation, _ *sdk.Receipt) {
				if m.IsClaim() {
					delete(rec.receipts, m.Operation)
				}
			})},
	}
}

func conflicts() []Mutant {
	return []Mutant{
		{Name: "conflict-overwrites", Law: sdk.F5, Story: "upsert: the later payload replaces the receipt (C75)",
			bend: judged(func(s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) sdk.Decision {
				d := honest(s, prior, m)
				if d.Code == sdk.Quarantined {
					return sdk.Decision{Code: sdk.Accepted, Next: s, Receipt: receiptOf(m)}
				}
				return d
			})},
		{Name: "conflict-is-replay", Law: sdk.F5, Story: "a duplicate key is swallowed as success (C75)",
			bend: func(f *flaws) {
				f.bend = func(d *sdk.Decision, _ sdk.FenceState, prior *sdk.Receipt, _ *sdk.Mutation) {
					if d.Code == sdk.Quarantined && prior != nil {
						d.Code, d.Receipt = sdk.Replayed, prior
					}
				}
			}},
		{Name: "conflict-called-skipped", Law: sdk.F5, Story: "a used position with other content is taken for a gap",
			bend: renamed(sdk.Quarantined, sdk.SegmentSkipped, func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Segment <= s.Segment && m.Fence == s.Highest })},
		{Name: "conflict-called-already", Law: sdk.F5, Story: "an operation that exists is ALREADY_APPLIED, whatever its payload",
			bend: func(f *flaws) {
				f.bend = func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {
					if d.Code == sdk.Quarantined && prior != nil && (m.Fence > s.Highest || m.Segment > s.Segment) {
						*d = refuse(sdk.AlreadyApplied, s, prior)
					}
				}
			}},
		{Name: "conflict-unseen-under-new-fence", Law: sdk.F5, Story: "a new owner's first write is not compared with what was done before",
			bend: overrule(sdk.Quarantined, func(s sdk.FenceState, m *sdk.Mutation) bool { return m.Fence > s.Highest })},
		{Name: "conflict-uses-segment", Law: sdk.F5, Story: "the segment counts on before the operation is compared",
			bend: early(sdk.Quarantined, func(_ *store, rec *record, m *sdk.Mutation) {
				if m.Fence == rec.state.Highest && m.Segment == rec.state.Segment+1 {
					rec.state.Segment++
				}
			})},
		{Name: "conflict-raises-fence", Law: sdk.F5, Story: "the fence is raised before the operation is compared",
			bend: early(sdk.Quarantined, func(_ *store, rec *record, m *sdk.Mutation) {
				if m.Fence > rec.state.Highest {
					rec.state.Highest, rec.state.Grant, rec.state.Root, rec.state.Segment = m.Fence, m.Grant, m.Root, 0
				}
			})},
		{Name: "conflict-applies", Law: sdk.F5, Story: "the effects ran before the conflict was seen",
			bend: early(sdk.Quarantined, func(s *store, rec *record, m *sdk.Mutation) { effects(s, rec, m) })},
		{Name: "claim-quarantined", Law: sdk.F5, Story: "a claim that meets its own grant's write counts as a conflict",
			bend: renamed(sdk.NotApplied, sdk.Quarantined, func(_ sdk.FenceState, m *sdk.Mutation) bool { return m.IsClaim() })},
	}
}

// keptOtherwise bends how a quarantine record is kept.
func keptOtherwise(run func(s *store, rec *record, q *sdk.Quarantine)) func(*flaws) {
	return func(f *flaws) { f.quarantined = run }
}

func quarantines() []Mutant {
	return []Mutant{
		{Name: "quarantine-not-kept", Law: sdk.F5, Story: "the conflict is logged and forgotten",
			bend: keptOtherwise(func(*store, *record, *sdk.Quarantine) {})},
		{Name: "quarantine-in-memory", Law: sdk.F5, Story: "quarantine records live in the adapter's process",
			bend: func(f *flaws) { f.closed = func(rec *record) { clear(rec.quarantine) } }},
		{Name: "quarantine-per-handle", Law: sdk.F5, Story: "quarantine records live in the handle that saw the conflict",
			bend: func(f *flaws) {
				type kept struct {
					r sdk.ResourceID
					k sdk.QuarantineKey
				}
				f.quarantined = func(s *store, rec *record, q *sdk.Quarantine) {
					rec.keep(q)
					s.memo.Store(kept{q.Resource, q.QuarantineKey}, true)
				}
				f.quarantine = func(s *store, _ *record, r sdk.ResourceID, all []sdk.Quarantine) []sdk.Quarantine {
					return slices.DeleteFunc(all, func(q sdk.Quarantine) bool {
						_, mine := s.memo.Load(kept{r, q.QuarantineKey})
						return !mine
					})
				}
			}},
		{Name: "quarantine-one-per-position", Law: sdk.F5, Story: "records are keyed by fence and segment, so that the second conflict at a position is lost",
			bend: keptOtherwise(func(_ *store, rec *record, q *sdk.Quarantine) {
				for k := range rec.quarantine {
					if k.Fence == q.Fence && k.Segment == q.Segment {
						return
					}
				}
				rec.keep(q)
			})},
		{Name: "quarantine-newest-only", Law: sdk.F5, Story: "records are upserted by position, so that the newest conflict replaces the first",
			bend: keptOtherwise(func(_ *store, rec *record, q *sdk.Quarantine) {
				for k := range rec.quarantine {
					if k.Fence == q.Fence && k.Segment == q.Segment {
						delete(rec.quarantine, k)
					}
				}
				rec.keep(q)
			})},
		{Name: "quarantine-every-attempt", Law: sdk.F5, Story: "every attempt is appended, so that a retry loop fills the quarantine",
			bend: keptOtherwise(func(_ *store, rec *record, q *sdk.Quarantine) {
				if _, known := rec.quarantine[q.QuarantineKey]; known {
					rec.dropped++
				}
				rec.keep(q)
			})},
		{Name: "quarantine-unbounded", Law: sdk.F5, Story: "every conflict adds a record beyond the declared limit",
			bend: keptOtherwise(func(_ *store, rec *record, q *sdk.Quarantine) {
				if _, known := rec.quarantine[q.QuarantineKey]; !known {
					rec.quarantine[q.QuarantineKey] = q
				}
			})},
		{Name: "quarantine-not-counted", Law: sdk.F5, Story: "records beyond the limit leave no count",
			bend: func(f *flaws) {
				f.quarantine = func(_ *store, _ *record, _ sdk.ResourceID, all []sdk.Quarantine) []sdk.Quarantine {
					return slices.DeleteFunc(all, func(q sdk.Quarantine) bool { return q.Dropped > 0 })
				}
			}},
		{Name: "quarantine-oldest-dropped", Law: sdk.F5, Story: "a ring buffer: beyond the limit the first evidence goes",
			bend: keptOtherwise(func(_ *store, rec *record, q *sdk.Quarantine) {
				if _, known := rec.quarantine[q.QuarantineKey]; !known && len(rec.quarantine) >= maxQuarantine {
					delete(rec.quarantine, sorted(rec.quarantine)[0].QuarantineKey)
					rec.dropped++
				}
				rec.keep(q)
			})},
		{Name: "quarantine-lost-at-takeover", Law: sdk.F5, Story: "records lie in the head, which a takeover writes anew",
			bend: committed(func(_ *store, rec *record, m *sdk.Mutation, _ *sdk.Receipt) {
				for k := range rec.quarantine {
					if k.Fence < m.Fence {
						delete(rec.quarantine, k)
					}
				}
			})},
		{Name: "quarantine-unordered", Law: sdk.F5, Story: "records come in the order in which they were written, newest first",
			bend: func(f *flaws) {
				f.quarantine = func(_ *store, _ *record, _ sdk.ResourceID, all []sdk.Quarantine) []sdk.Quarantine {
					slices.Reverse(all)
					return all
				}
			}},
		{Name: "resolved-record-deleted", Law: sdk.F5, Story: "settling a record deletes it, and with it the evidence",
			bend: committed(func(_ *store, rec *record, _ *sdk.Mutation, _ *sdk.Receipt) {
				for k, q := range rec.quarantine {
					if q.ResolvedBy != "" {
						delete(rec.quarantine, k)
					}
				}
			})},
		{Name: "resolve-ignored", Law: sdk.F5, Story: "settling a record is accepted and marks nothing",
			bend: committed(func(_ *store, rec *record, _ *sdk.Mutation, _ *sdk.Receipt) {
				for _, q := range rec.quarantine {
					q.ResolvedBy = ""
				}
			})},
		{Name: "resolved-again", Law: sdk.F5, Story: "whoever settles a record last is named",
			bend: committed(func(_ *store, rec *record, m *sdk.Mutation, _ *sdk.Receipt) {
				for _, e := range m.Effects {
					if k, err := sdk.ParseResolve(e.Body); e.Kind == sdk.KindResolve && err == nil && rec.quarantine[k] != nil {
						rec.quarantine[k].ResolvedBy = m.Operation
					}
				}
			})},
		{Name: "resolve-makes-record", Law: sdk.F5, Story: "settling is an upsert, and makes a record of what never was",
			bend: committed(func(_ *store, rec *record, m *sdk.Mutation, _ *sdk.Receipt) {
				for _, e := range m.Effects {
					if k, err := sdk.ParseResolve(e.Body); e.Kind == sdk.KindResolve && err == nil && rec.quarantine[k] == nil {
						rec.quarantine[k] = &sdk.Quarantine{QuarantineKey: k, Resource: m.Resource, Grant: m.Grant, Owner: m.Owner, Time: m.Time, ResolvedBy: m.Operation}
					}
				}
			})},
	}
}
