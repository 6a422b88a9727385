package sqlitestore

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

// LimitPages keeps the file from growing by more than a few pages, as a full
// disk would.
func LimitPages(t *testing.T, s *Store) {
	t.Helper()
	var pages int
	if err := s.readers.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	var limit int
	if err := s.conn.QueryRowContext(t.Context(), "PRAGMA max_page_count = "+strconv.Itoa(pages+2)).Scan(&limit); err != nil {
		t.Fatal(err)
	}
}

// ParsePath is the file that a DSN names.
func ParsePath(s string) (string, error) {
	d, err := parseDSN(s)
	return d.path, err
}

// Together runs mutations as one batch, in this order, while no other call is
// under way, and returns the codes.
func Together(s *Store, all ...sdk.Admission) []sdk.Code {
	var batch []*job
	for _, a := range all {
		m, _ := a.Mutation()
		batch = append(batch, &job{ctx: context.Background(), admission: a, mutation: m, reply: make(chan answer, 1)})
	}
	s.together(slices.Clone(batch))
	var codes []sdk.Code
	for _, j := range batch {
		codes = append(codes, (<-j.reply).out.Code)
	}
	return codes
}
