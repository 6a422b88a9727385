package conformance

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/fencedstore/fencedstore/sdk"
)

// model is a resource as the laws have it.
type model struct {
	state      sdk.FenceState
	receipts   map[sdk.OperationID]sdk.Receipt
	values     map[string][]byte
	quarantine map[sdk.QuarantineKey]sdk.Quarantine
}

func newModel() *model {
	return &model{receipts: map[sdk.OperationID]sdk.Receipt{}, values: map[string][]byte{},
		quarantine: map[sdk.QuarantineKey]sdk.Quarantine{}}
}

func (m *model) clone() *model {
	return &model{state: m.state, receipts: maps.Clone(m.receipts), values: maps.Clone(m.values), quarantine: maps.Clone(m.quarantine)}
}

// decide is what the laws say of mu now.
func (m *model) decide(mu *sdk.Mutation) sdk.Decision {
	var prior *sdk.Receipt
	if r, ok := m.receipts[mu.Operation]; ok {
		prior = &r
	}
	return sdk.Decide(m.state, prior, admit(mu))
}

// carryOut does what d says.
func (m *model) carryOut(mu *sdk.Mutation, d *sdk.Decision) {
	switch d.Code {
	case sdk.Quarantined:
		if _, ok := m.quarantine[mu.Key()]; !ok {
			m.quarantine[mu.Key()] = mu.Quarantine()
		}
	case sdk.Accepted:
		m.state = d.Next
		m.receipts[mu.Operation] = *d.Receipt
		for _, e := range mu.Effects {
			m.effect(mu.Operation, e)
		}
	}
}

func (m *model) effect(op sdk.OperationID, e sdk.Effect) {
	switch e.Kind {
	case sdk.KindPut:
		if k, v, err := sdk.ParsePut(e.Body); err == nil {
			m.values[k] = v
		}
	case sdk.KindDelete:
		if k, err := sdk.ParseDelete(e.Body); err == nil {
			delete(m.values, k)
		}
	case sdk.KindResolve:
		if k, err := sdk.ParseResolve(e.Body); err == nil {
			if q, ok := m.quarantine[k]; ok && q.ResolvedBy == "" {
				q.ResolvedBy = op
				m.quarantine[k] = q
			}
		}
	}
}

// records lists the quarantine in the order of Quarantined.
func (m *model) records() []sdk.Quarantine {
	out := slices.Collect(maps.Values(m.quarantine))
	sortQuarantine(out)
	return out
}

func (m *model) equal(o *model) bool {
	return m.state == o.state && len(m.receipts) == len(o.receipts) && maps.EqualFunc(m.values, o.values, bytes.Equal) &&
		maps.EqualFunc(m.receipts, o.receipts, func(a, b sdk.Receipt) bool {
			return a.Fence == b.Fence && a.Segment == b.Segment && a.Payload == b.Payload && a.Grant == b.Grant
		}) && maps.Equal(m.quarantine, o.quarantine)
}

// sortedKeys are the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
