package mongofake

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func cursor(space string, batch []bson.Raw) bson.D {
	if batch == nil {
		batch = []bson.Raw{}
	}
	return bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: batch}, {Key: "id", Value: int64(0)}, {Key: "ns", Value: space}}}}
}

func idOf(doc bson.Raw) string { return doc.Lookup("_id").String() }

func (s *Server) find(t *txn, space string, c bson.Raw) (bson.D, error) {
	filter, _ := c.Lookup("filter").DocumentOK()
	limit, _ := c.Lookup("limit").AsInt64OK()
	found, err := s.matching(t, space, filter)
	if err != nil {
		return nil, err
	}
	if limit > 0 && int64(len(found)) > limit {
		found = found[:limit]
	}
	return cursor(space, found), nil
}

// matching are the documents that a filter finds, in the order of their _id.
func (s *Server) matching(t *txn, space string, filter bson.Raw) ([]bson.Raw, error) {
	ids := map[string]bool{}
	v, err := filter.LookupErr("_id")
	in, _ := v.DocumentOK()
	list, isIn := in.Lookup("$in").ArrayOK()
	switch { // as an index does
	case err == nil && v.Type != bson.TypeEmbeddedDocument:
		ids[v.String()] = true
	case err == nil && isIn:
		values, err := list.Values()
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			ids[v.String()] = true
		}
	default:
		ids = s.ids(t, space)
	}
	var found []bson.Raw
	for id := range ids {
		doc := s.get(t, space, id)
		if doc == nil {
			continue
		}
		ok, err := matches(doc, filter)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, doc)
		}
	}
	slices.SortFunc(found, func(a, b bson.Raw) int { return compare(a.Lookup("_id"), b.Lookup("_id")) })
	return found, nil
}

func compare(a, b bson.RawValue) int {
	if as, ok := a.StringValueOK(); ok {
		if bs, ok := b.StringValueOK(); ok {
			return cmp.Compare(as, bs)
		}
	}
	if an, ok := a.AsInt64OK(); ok {
		if bn, ok := b.AsInt64OK(); ok {
			return cmp.Compare(an, bn)
		}
	}
	return cmp.Or(cmp.Compare(a.Type, b.Type), bytes.Compare(a.Value, b.Value))
}

func matches(doc, filter bson.Raw) (bool, error) {
	elements, err := filter.Elements()
	if err != nil {
		return false, err
	}
	for _, e := range elements {
		v, err := doc.LookupErr(strings.Split(e.Key(), ".")...)
		there := err == nil
		ops, isDoc := e.Value().DocumentOK()
		if !isDoc {
			if !there || compare(v, e.Value()) != 0 {
				return false, nil
			}
			continue
		}
		list, err := ops.Elements()
		if err != nil {
			return false, err
		}
		for _, op := range list {
			ok, err := holds(op, v, there)
			if err != nil || !ok {
				return false, err
			}
		}
	}
	return true, nil
}

func holds(op bson.RawElement, v bson.RawValue, there bool) (bool, error) {
	switch op.Key() {
	case "$exists":
		want, _ := op.Value().BooleanOK()
		return there == want, nil
	case "$gt":
		return there && compare(v, op.Value()) > 0, nil
	case "$gte":
		return there && compare(v, op.Value()) >= 0, nil
	case "$lt":
		return there && compare(v, op.Value()) < 0, nil
	case "$in":
		list, _ := op.Value().ArrayOK()
		values, err := list.Values()
		return there && slices.ContainsFunc(values, func(x bson.RawValue) bool { return compare(v, x) == 0 }), err
	}
	return false, fmt.Errorf("operator %s", op.Key())
}

func list(c bson.Raw, key string) ([]bson.Raw, error) {
	a, ok := c.Lookup(key).ArrayOK()
	if !ok {
		return nil, fmt.Errorf("no %s", key)
	}
	values, err := a.Values()
	var out []bson.Raw
	for _, v := range values {
		out = append(out, v.Document())
	}
	return out, err
}

func (s *Server) insert(t *txn, space string, c bson.Raw) (bson.D, error) {
	docs, err := list(c, "documents")
	if err != nil {
		return nil, err
	}
	n := int32(0)
	for i, doc := range docs {
		for {
			if s.get(t, space, idOf(doc)) != nil {
				if t != nil {
					s.end(t, false)
				}
				return refused(n, i, dup), nil
			}
			again, err := s.lock(t, space, idOf(doc))
			if err != nil {
				return nil, err
			}
			if !again {
				break
			}
		}
		s.write(t, space, idOf(doc), bytes.Clone(doc))
		n++
	}
	return bson.D{{Key: "n", Value: n}}, nil
}

func refused(n int32, index int, f failure) bson.D {
	return bson.D{{Key: "n", Value: n}, {Key: "writeErrors", Value: bson.A{bson.D{{Key: "index", Value: int32(index)}, {Key: "code", Value: int32(f.code)}, {Key: "errmsg", Value: f.name}}}}}
}

func (s *Server) update(t *txn, space string, c bson.Raw) (bson.D, error) {
	updates, err := list(c, "updates")
	if err != nil {
		return nil, err
	}
	n, upserted := int32(0), bson.A{}
	for i, u := range updates {
		matched, id, err := s.updateOne(t, space, u)
		if err != nil {
			return nil, err
		}
		if matched || id != nil {
			n++
		}
		if id != nil {
			upserted = append(upserted, bson.D{{Key: "index", Value: int32(i)}, {Key: "_id", Value: *id}})
		}
	}
	return bson.D{{Key: "n", Value: n}, {Key: "nModified", Value: n}, {Key: "upserted", Value: upserted}}, nil
}

func (s *Server) updateOne(t *txn, space string, u bson.Raw) (matched bool, made *bson.RawValue, err error) {
	q, change := u.Lookup("q").Document(), u.Lookup("u").Document()
	for {
		found, err := s.matching(t, space, q)
		if err != nil {
			return false, nil, err
		}
		var old, next bson.Raw
		switch up, _ := u.Lookup("upsert").BooleanOK(); {
		case len(found) > 0:
			old = found[0]
			next, err = changed(old, change, false)
		case !up:
			return false, nil, nil
		default:
			next, err = changed(must(bson.D{{Key: "_id", Value: q.Lookup("_id")}}), change, true)
		}
		if err != nil {
			return false, nil, err
		}
		if old != nil && bytes.Equal(old, next) {
			return true, nil, nil
		}
		again, err := s.lock(t, space, idOf(next))
		if err != nil {
			return false, nil, err
		}
		if again {
			continue
		}
		s.write(t, space, idOf(next), next)
		if old != nil {
			return true, nil, nil
		}
		id := next.Lookup("_id")
		return false, &id, nil
	}
}

// changed is doc after an update or a replacement.
func changed(doc, change bson.Raw, inserting bool) (bson.Raw, error) {
	elements, err := change.Elements()
	if err != nil {
		return nil, err
	}
	var out bson.D
	if err := bson.Unmarshal(doc, &out); err != nil {
		return nil, err
	}
	if len(elements) > 0 && !strings.HasPrefix(elements[0].Key(), "$") {
		next := bson.D{{Key: "_id", Value: doc.Lookup("_id")}}
		for _, e := range elements {
			if e.Key() != "_id" {
				next = append(next, bson.E{Key: e.Key(), Value: e.Value()})
			}
		}
		return must(next), nil
	}
	for _, op := range elements {
		fields, err := op.Value().Document().Elements()
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			var value any = f.Value()
			switch op.Key() {
			case "$set":
			case "$setOnInsert":
				if !inserting {
					continue
				}
			case "$inc":
				by, _ := f.Value().AsInt64OK()
				was, _ := doc.Lookup(f.Key()).AsInt64OK()
				value = was + by
			default:
				return nil, fmt.Errorf("operator %s", op.Key())
			}
			if i := slices.IndexFunc(out, func(e bson.E) bool { return e.Key == f.Key() }); i >= 0 {
				out[i].Value = value
			} else {
				out = append(out, bson.E{Key: f.Key(), Value: value})
			}
		}
	}
	return must(out), nil
}

func (s *Server) remove(t *txn, space string, c bson.Raw) (bson.D, error) {
	deletes, err := list(c, "deletes")
	if err != nil {
		return nil, err
	}
	n := int32(0)
	for _, d := range deletes {
		for {
			found, err := s.matching(t, space, d.Lookup("q").Document())
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				break
			}
			again, err := s.lock(t, space, idOf(found[0]))
			if err != nil {
				return nil, err
			}
			if again {
				continue
			}
			s.write(t, space, idOf(found[0]), nil)
			n++
			break
		}
	}
	return bson.D{{Key: "n", Value: n}}, nil
}
