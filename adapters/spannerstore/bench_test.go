package spannerstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/internal/lab"
	"github.com/fencedstore/fencedstore/internal/seal"
	"github.com/fencedstore/fencedstore/sdk"
)

// BenchmarkRatio is a fenced write of a kilobyte on the emulator against a
// transaction that reads a row, compares and writes the same kilobyte. The aim is
// 1.3 or less.
func BenchmarkRatio(b *testing.B) {
	e := start(b)
	s, c := watched(b, e)
	value := []byte(strings.Repeat("v", 1<<10))
	plain := func(i int) error {
		_, err := s.client.ReadWriteTransaction(context.Background(), func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
			key := spanner.Key{"plain", "plain", "k"}
			if row, err := tx.ReadRow(ctx, valueTable, key, []string{"Value"}); err == nil {
				var old []byte
				if err := row.Columns(&old); err != nil || len(old) < len(value) {
					return fmt.Errorf("write %d lost: %w", i, err)
				}
			} else if !isMissing(err) {
				return err
			}
			return tx.BufferWrite([]*spanner.Mutation{spanner.InsertOrUpdate(valueTable, valueColumns, append([]any(key), append(value, fmt.Sprint(i)...)))})
		})
		return err
	}
	lab.Compare(b, c.all, func(i int) error {
		_, err := s.Apply(context.Background(), sdk.NewAdmission(seal.Cut(), mutation(1, i+1, fmt.Sprint("op-", i), sdk.Put("k", value))))
		return err
	}, plain)
}
