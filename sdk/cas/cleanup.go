package cas

import (
	"context"

	"github.com/fencedstore/fencedstore/sdk"
)

// CleanUp removes the parts of a resource that attempts have left which did not
// become the head, and those that later heads let go. It touches a part only if
// the current head, read afresh, does not refer to it, and only if it was staged
// on a sequence below the current head's: an attempt on an earlier head can
// never land, one on the current head may. It returns how many it removed.
//
// It is for an operator's own schedule; nothing is unsafe without it.
func (s *Store) CleanUp(ctx context.Context, r sdk.ResourceID, remover Remover) (removed int, err error) {
	n := namesOf(s.namespace, r)
	if err := r.Validate(); err != nil {
		return 0, err
	}
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	// Listed before the head is read: a part that is listed and not referred to
	// by a later head was not staged for it.
	var parts []string
	if err := s.objects.List(ctx, n.parts(), func(name string) error { parts = append(parts, name); return nil }); err != nil {
		return 0, err
	}
	k, err := s.fresh(ctx, r)
	if err != nil || k == nil {
		return 0, err
	}
	used, err := s.references(ctx, k.head)
	if err != nil {
		return 0, err
	}
	sequence, err := k.head.sequence()
	if err != nil {
		return 0, err
	}
	for _, name := range parts {
		staged, ok := stagedOn(name)
		if !ok || used[name] || staged >= sequence {
			continue
		}
		if err := remover.Remove(ctx, name); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// references lists every part that a head refers to, directly or through its
// archive.
func (s *Store) references(ctx context.Context, h *head) (map[string]bool, error) {
	used := map[string]bool{}
	note := func(c *content) {
		if c.Part != nil {
			used[c.Part.Name] = true
		}
	}
	for _, v := range h.Values {
		note(&v)
	}
	for i := range h.Recent {
		note(&h.Recent[i].Result)
	}
	if h.Rest != nil {
		used[h.Rest.Name] = true
	}
	for i := range h.Archive {
		used[h.Archive[i].Directory.Name] = true
		d, err := s.directory(ctx, &h.Archive[i])
		if err != nil {
			return nil, err
		}
		for i := range d.Buckets {
			used[d.Buckets[i].Part.Name] = true
			b, err := s.bucket(ctx, &d.Buckets[i].Part)
			if err != nil {
				return nil, err
			}
			for j := range b.Receipts {
				note(&b.Receipts[j].Result)
			}
		}
	}
	return used, nil
}
