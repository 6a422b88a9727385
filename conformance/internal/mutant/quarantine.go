package mutant

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/fencedstore/fencedstore/sdk"
)

func (s *store) putQuarantine(rec *record, m *sdk.Mutation) {
	f := &s.data.flaws
	q := m.Quarantine()
	to := rec.quarantine
	switch {
	case f.noQuarantine:
		return
	case f.quarantineMemory:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.private[m.Resource] == nil {
			s.private[m.Resource] = map[sdk.QuarantineKey]*sdk.Quarantine{}
		}
		to = s.private[m.Resource]
	}
	if _, known := to[q.QuarantineKey]; known {
		return
	}
	if len(to) >= maxQuarantine && !f.noLimit {
		rec.dropped++
		return
	}
	to[q.QuarantineKey] = &q
}

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
