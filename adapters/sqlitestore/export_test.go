package sqlitestore

import (
	"strconv"
	"testing"
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
