package mutant

import "github.com/fencedstore/fencedstore/sdk"

// found looks receipts up otherwise.
func found(by func(rec *record, m *sdk.Mutation) *sdk.Receipt) func(*flaws) {
	return func(f *flaws) { f.prior = by }
}

func once() []Mutant {
	return []Mutant{
		{Name: "already-moves-fence", Law: sdk.F10, Story: "the fence is raised before the operation is looked up",
			bend: early(sdk.AlreadyApplied, func(_ *store, rec *record, m *sdk.Mutation) {
				if m.Fence > rec.state.Highest {
					rec.state.Highest, rec.state.Grant, rec.state.Root, rec.state.Segment = m.Fence, m.Grant, m.Root, 0
				}
			})},
		{Name: "already-uses-segment", Law: sdk.F10, Story: "the segment counts on before the operation is looked up",
			bend: early(sdk.AlreadyApplied, func(_ *store, rec *record, m *sdk.Mutation) {
				if m.Fence == rec.state.Highest {
					rec.state.Segment++
				}
			})},
		{Name: "already-takes-over", Law: sdk.F10, Story: "a known operation at a new fence counts as the new owner's first segment",
			bend: func(f *flaws) {
				f.bend = func(d *sdk.Decision, s sdk.FenceState, prior *sdk.Receipt, m *sdk.Mutation) {
					if d.Code == sdk.AlreadyApplied && m.Fence > s.Highest {
						*d = sdk.Decision{Code: sdk.Accepted, Next: accept(s, m).Next, Receipt: prior}
					}
				}
				f.apply = func(s *store, rec *record, m *sdk.Mutation) error {
					if rec.receipts[m.Operation] != nil {
						return nil
					}
					return effects(s, rec, m)
				}
			}},
		{Name: "already-called-replayed", Law: sdk.F10, Story: "a known operation is a success, wherever it was accepted",
			bend: func(f *flaws) {
				f.bend = func(d *sdk.Decision, _ sdk.FenceState, prior *sdk.Receipt, _ *sdk.Mutation) {
					if d.Code == sdk.AlreadyApplied {
						d.Code, d.Receipt = sdk.Replayed, prior
					}
				}
			}},
		{Name: "already-called-conflict", Law: sdk.F10, Story: "a known operation at another position is a conflict, though its payload is the same",
			bend: renamed(sdk.AlreadyApplied, sdk.Quarantined, anyTime)},
		{Name: "already-without-receipt", Law: sdk.F10, Story: "the answer does not bring the original receipt, whose result the new owner needs",
			bend: errorEdited(func(out *sdk.Outcome, e *sdk.Error) {
				if e.Code == sdk.AlreadyApplied {
					e.Receipt, out.Receipt = nil, nil
				}
			})},
		{Name: "receipts-pruned", Law: sdk.F10, Story: "receipts have a TTL, or the last few are kept (C64)",
			bend: committed(func(_ *store, rec *record, _ *sdk.Mutation, _ *sdk.Receipt) {
				for len(rec.order) > 32 {
					delete(rec.receipts, rec.order[0])
					rec.order = rec.order[1:]
				}
			})},
		{Name: "receipts-pruned-at-takeover", Law: sdk.F10, Story: "a new owner's clean-up removes what the old ones left",
			bend: committed(func(_ *store, rec *record, m *sdk.Mutation, _ *sdk.Receipt) {
				for op, r := range rec.receipts {
					if r.Fence+1 < m.Fence {
						delete(rec.receipts, op)
					}
				}
			})},
		{Name: "receipt-per-fence", Law: sdk.F10, Story: "the receipt's key holds the fence, so that a new owner repeats the work",
			bend: found(func(rec *record, m *sdk.Mutation) *sdk.Receipt {
				if p := rec.receipts[m.Operation]; p != nil && p.Fence == m.Fence {
					return p
				}
				return nil
			})},
		{Name: "receipt-per-segment", Law: sdk.F10, Story: "the receipt's key holds the segment, so that the next segment repeats the work",
			bend: found(func(rec *record, m *sdk.Mutation) *sdk.Receipt {
				if p := rec.receipts[m.Operation]; p != nil && p.Segment == m.Segment {
					return p
				}
				return nil
			})},
		{Name: "receipt-per-root", Law: sdk.F10, Story: "operations are looked up inside their job, so that the next job repeats the work",
			bend: found(func(rec *record, m *sdk.Mutation) *sdk.Receipt {
				if p := rec.receipts[m.Operation]; p != nil && p.Root == m.Root {
					return p
				}
				return nil
			})},
	}
}
