package spannerstore

import (
	"context"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
	"google.golang.org/grpc/codes"
)

// need is a permission, and a write that takes it.
type need struct {
	privilege, table string
	write            *spanner.Mutation
}

// needs are what the role must be able to write.
func (s *Store) needs(name string) []need {
	r, d := sdk.ResourceID(name), sdk.SumDigest(nil)
	fence := append([]any(s.key(r, kindFence, "")), int64(1), int64(1), d[:], d[:], int64(0), int64(0))
	value := []any{s.namespace, name, "k", []byte("v")}
	conflict := append([]any(quarantineKey(s.namespace, r, sdk.QuarantineKey{Fence: 1, Segment: 1, Operation: "probe", Payload: d})), d[:], "probe", int64(0), "")
	dropped, columns := []any{s.namespace, name, int64(1)}, []string{"Namespace", "Resource", "Records"}
	return []need{
		{"INSERT", recordTable, spanner.Insert(recordTable, fenceColumns, fence)},
		{"UPDATE", recordTable, spanner.Update(recordTable, fenceColumns, fence)},
		{"INSERT", valueTable, spanner.Insert(valueTable, valueColumns, value)},
		{"UPDATE", valueTable, spanner.Update(valueTable, valueColumns, value)},
		{"DELETE", valueTable, spanner.Delete(valueTable, spanner.Key(value[:3]))},
		{"INSERT", quarantineTable, spanner.Insert(quarantineTable, quarantineColumns, conflict)},
		{"UPDATE", quarantineTable, spanner.Update(quarantineTable, quarantineColumns, conflict)},
		{"INSERT", droppedTable, spanner.Insert(droppedTable, columns, dropped)},
		{"UPDATE", droppedTable, spanner.Update(droppedTable, columns, dropped)},
		{"DELETE", probeTable, spanner.Delete(probeTable, spanner.Key{name})},
	}
}

// missing returns the permissions that the role does not have, each by name. It
// changes nothing but the probe's own row: every other write comes with the
// insertion of that row, which is there already.
func (s *Store) missing(ctx context.Context, name string, own *spanner.Mutation) (out []string, err error) {
	try := func(n need, ms ...*spanner.Mutation) error {
		err := s.write(ctx, ms...)
		switch code(err) {
		case codes.PermissionDenied:
			out = append(out, n.privilege+" on "+n.table)
		case codes.OK, codes.NotFound, codes.AlreadyExists: // it was judged by rows
		default:
			return err
		}
		return nil
	}
	if err := try(need{privilege: "INSERT", table: probeTable}, own); err != nil || len(out) > 0 {
		return out, err
	}
	for _, n := range s.needs(name) {
		if err := try(n, n.write, own); err != nil {
			return out, err
		}
	}
	for _, table := range tables {
		column := "Namespace"
		if table == metaTable || table == probeTable {
			column = "Name"
		}
		rows := s.db().Single().ReadWithOptions(ctx, table, spanner.AllKeys(), []string{column}, &spanner.ReadOptions{Limit: 1})
		err := rows.Do(func(*spanner.Row) error { return nil })
		if code(err) == codes.PermissionDenied {
			out = append(out, "SELECT on "+table)
		} else if err != nil {
			return out, err
		}
	}
	return out, nil
}
