package spannerstore

import (
	"errors"
	"strings"
	"testing"

	"cloud.google.com/go/spanner"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestProbe(t *testing.T) {
	e := start(t)
	s := open(t, e)
	if err := s.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := e.client(t).Single().Read(t.Context(), probeTable, spanner.AllKeys(), []string{"Name"})
	if err := rows.Do(func(*spanner.Row) error { return errors.New("a row is left") }); err != nil {
		t.Error(err)
	}
	alter := func(statements ...string) { t.Helper(); e.alter(t, statements...) }
	alter("ALTER TABLE FencedstoreRecord ADD COLUMN Made TIMESTAMP", "ALTER TABLE FencedstoreRecord ADD ROW DELETION POLICY (OLDER_THAN(Made, INTERVAL 30 DAY))")
	if err := s.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("with a row deletion policy: %v", err)
	}
	alter("ALTER TABLE FencedstoreRecord DROP ROW DELETION POLICY", "DROP TABLE FencedstoreProbe")
	if err := s.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("without a table: %v", err)
	}
	alter("DROP TABLE FencedstoreMeta")
	if _, err := Open(t.Context(), e.dsn(), sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("without the store's record: %v", err)
	}
}

func TestBadDSN(t *testing.T) {
	good := "spanner://projects/p/instances/i/databases/db"
	for _, d := range []string{"", "spanner:", "spanner://", "spanner://projects/p", good + "/x", "http://projects/p/instances/i/databases/db", "spanner://u:p@projects/p/instances/i/databases/db", good + "?x=1",
		good + "?endpoint=x", good + "?endpoint=", good + "?plaintext=true", good + "?plaintext=yes", good + "?environment=embedded", good + "?quarantine=0", good + "?quarantine=1&quarantine=2", good + "#x", strings.ToUpper(good)} {
		if _, err := Open(t.Context(), d, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", d, err)
		}
		if _, err := Schema(d); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Schema(%q): %v, want INVALID", d, err)
		}
	}
	parts, err := Schema(good)
	if err != nil || len(parts) != 3 {
		t.Errorf("%v, %v", parts, err)
	}
}

// A place keeps its namespace.
func TestPlace(t *testing.T) {
	e := start(t)
	open(t, e)
	if _, err := Open(t.Context(), e.dsn(), sdk.OpenOptions{Namespace: "other"}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("%v", err)
	}
	shadow, err := Open(t.Context(), e.dsn(), sdk.OpenOptions{Namespace: sdk.ShadowNamespace("")})
	if err != nil {
		t.Fatal(err)
	}
	shadow.Close()
}
