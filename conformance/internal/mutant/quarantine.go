package mutant

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/fencedstore/fencedstore/sdk"
)

// putQuarantine keeps the record of a refused mutation.
func (s *store) putQuarantine(rec *record, m *sdk.Mutation) {
	q := m.Quarantine()
	if s.data.flaws.quarantined != nil {
		s.data.flaws.quarantined(s, rec, &q)
		return
	}
	rec.keep(&q)
}

func (rec *record) keep(q *sdk.Quarantine) {
	if _, known := rec.quarantine[q.QuarantineKey]; known {
		return
	}
	if len(rec.quarantine) >= maxQuarantine {
		rec.dropped++
		return
	}
	rec.quarantine[q.QuarantineKey] = q
}

// sorted returns quarantine records in their order.
func sorted(in map[sdk.QuarantineKey]*sdk.Quarantine) []sdk.Quarantine {
	var out []sdk.Quarantine
	for _, q := range in {
		out = append(out, *q)
	}
	slices.SortFunc(out, func(a, b sdk.Quarantine) int {
		return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Segment, b.Segment),
			cmp.Compare(a.Operation, b.Operation), bytes.Compare(a.Payload[:], b.Payload[:]))
	})
	return out
}
