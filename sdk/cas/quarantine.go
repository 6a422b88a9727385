package cas

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/go-json-experiment/json"
)

const quarantineSchema = "fencedstore.quarantine.v1"

type quarantine struct {
	Schema    string     `json:"schema"`
	Fence     string     `json:"fence"`
	Segment   string     `json:"segment"`
	Operation string     `json:"operation"`
	Payload   sdk.Digest `json:"payload"`
	Grant     sdk.Digest `json:"grant"`
	Owner     string     `json:"owner"`
	Time      string     `json:"timeMillis"`
}

// putQuarantine puts a conflict on record: one object by its key, so that the
// same attempt again is the same record; beyond the limit it only counts.
func (s *Store) putQuarantine(ctx context.Context, n names, m *sdk.Mutation) error {
	name := n.quarantine(m.Key())
	if _, _, err := s.objects.Get(ctx, name); sdk.CodeOf(err) != sdk.NotFound {
		return err
	}
	count := 0
	if err := s.objects.List(ctx, n.quarantines(), func(string) error { count++; return nil }); err != nil {
		return err
	}
	if count >= s.desc.Limits.Quarantine {
		return s.countDropped(ctx, n)
	}
	q := m.Quarantine()
	body, err := json.Marshal(quarantine{quarantineSchema, q.Fence.String(), q.Segment.String(), string(q.Operation), q.Payload, q.Grant, q.Owner,
		strconv.FormatInt(q.Time.UnixMilli(), 10)})
	if err != nil {
		return damaged(name, "%w", err)
	}
	// There is one there already: the same attempt was faster.
	_, _, err = s.objects.PutIf(ctx, name, body, "")
	return err
}

func (s *Store) countDropped(ctx context.Context, n names) error {
	for {
		dropped, version, err := s.dropped(ctx, n)
		if err != nil {
			return err
		}
		swapped, _, err := s.objects.PutIf(ctx, n.dropped(), []byte(decimal(dropped+1)), version)
		if err != nil || swapped {
			return err
		}
	}
}

func (s *Store) dropped(ctx context.Context, n names) (count uint64, version string, err error) {
	body, version, err := s.objects.Get(ctx, n.dropped())
	if sdk.CodeOf(err) == sdk.NotFound {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	if count, err = sdk.ParseDecimal("dropped", string(body)); err != nil {
		return 0, "", damaged(n.dropped(), "%w", err)
	}
	return count, version, nil
}

// Quarantined implements sdk.FencedStore.
func (s *Store) Quarantined(ctx context.Context, r sdk.ResourceID) (out []sdk.Quarantine, err error) {
	n := namesOf(s.namespace, r)
	err = s.read(ctx, r, func(k *known) error {
		out = nil
		var list []string
		if err := s.objects.List(ctx, n.quarantines(), func(name string) error { list = append(list, name); return nil }); err != nil {
			return err
		}
		for _, name := range list {
			body, _, err := s.objects.Get(ctx, name)
			if err != nil {
				return err
			}
			q, err := parseQuarantine(name, body, r)
			if err != nil {
				return err
			}
			if k != nil {
				q.ResolvedBy = sdk.OperationID(k.head.Resolved[name])
			}
			out = append(out, q)
		}
		slices.SortFunc(out, func(a, b sdk.Quarantine) int {
			return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Segment, b.Segment),
				cmp.Compare(a.Operation, b.Operation), bytes.Compare(a.Payload[:], b.Payload[:]))
		})
		dropped, _, err := s.dropped(ctx, n)
		if err == nil && dropped > 0 {
			out = append(out, sdk.Quarantine{Resource: r, Dropped: dropped})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func parseQuarantine(name string, body []byte, r sdk.ResourceID) (q sdk.Quarantine, err error) {
	var w quarantine
	if err := unmarshal(name, body, &w); err != nil {
		return q, err
	}
	if w.Schema != quarantineSchema {
		return q, damaged(name, "it is a %q", w.Schema)
	}
	q.Resource, q.Operation, q.Payload, q.Grant, q.Owner = r, sdk.OperationID(w.Operation), w.Payload, w.Grant, w.Owner
	if q.Fence, err = sdk.ParseToken(w.Fence); err != nil {
		return q, damaged(name, "%w", err)
	}
	segment, err := sdk.ParseDecimal("segment", w.Segment)
	if err != nil {
		return q, damaged(name, "%w", err)
	}
	millis, err := strconv.ParseInt(w.Time, 10, 64)
	if err != nil {
		return q, damaged(name, "%w", err)
	}
	q.Segment, q.Time = sdk.Segment(segment), time.UnixMilli(millis).UTC()
	return q, nil
}
