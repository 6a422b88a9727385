package sqlitestore_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestBadDSN(t *testing.T) {
	for _, dsn := range []string{"", "sqlite", "sqlite:", "sqlite://", "mem://", "sqlite::memory:", "sqlite:a\x00b", "sqlite:x?", "sqlite:x?mode=ro",
		"sqlite:x?create=yes", "sqlite:x?create=beside&create=beside", "sqlite:x?%zz", "postgres:x"} {
		if dsn == "sqlite:x?" {
			continue // no option is no fault
		}
		if _, err := sqlitestore.Open(t.Context(), dsn, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%q: %v, want INVALID", dsn, err)
		}
	}
	if _, err := sqlitestore.Open(t.Context(), "sqlite:"+tempFile(t), sdk.OpenOptions{Namespace: "A b"}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("bad namespace: %v", err)
	}
}

// A file that the store must not touch is refused with a reason and stays as it
// was, byte for byte.
func TestRefusedFilesStayUntouched(t *testing.T) {
	foreign := func(t *testing.T, path string, statements string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(statements); err != nil {
			t.Fatal(err)
		}
	}
	ours := func(t *testing.T, path string) {
		t.Helper()
		s := open(t, path, sdk.OpenOptions{})
		apply(t, s, mutation(5, 1, "op"), sdk.Accepted)
		s.Close()
	}
	for name, make := range map[string]func(t *testing.T, path string){
		"text": func(t *testing.T, path string) {
			os.WriteFile(path, []byte(strings.Repeat("this is no database\n", 100)), 0o600)
		},
		"short text":          func(t *testing.T, path string) { os.WriteFile(path, []byte("x"), 0o600) },
		"another application": func(t *testing.T, path string) { foreign(t, path, "CREATE TABLE account (id)") },
		"a newer version": func(t *testing.T, path string) {
			ours(t, path)
			foreign(t, path, "UPDATE fencedstore_meta SET value = '99' WHERE name = 'schema_version'")
		},
		"a damaged version": func(t *testing.T, path string) {
			ours(t, path)
			foreign(t, path, "UPDATE fencedstore_meta SET value = 'x' WHERE name = 'schema_version'")
		},
		"no version": func(t *testing.T, path string) { ours(t, path); foreign(t, path, "DELETE FROM fencedstore_meta") },
		"another layout": func(t *testing.T, path string) {
			ours(t, path)
			foreign(t, path, "UPDATE fencedstore_meta SET value = 'x' WHERE name = 'layout'")
		},
		"another namespace": func(t *testing.T, path string) {
			ours(t, path)
			foreign(t, path, "UPDATE fencedstore_meta SET value = 'other' WHERE name = 'namespace'")
		},
		"a damaged first page": func(t *testing.T, path string) { ours(t, path); damage(t, path, 100, 140) },
	} {
		t.Run(name, func(t *testing.T) {
			path := tempFile(t)
			make(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = sqlitestore.Open(t.Context(), "sqlite:"+path, sdk.OpenOptions{})
			var e *sdk.Error
			if !errors.As(err, &e) || e.Code != sdk.Unsuitable || e.Field == "" || e.Msg == "" {
				t.Errorf("got %v, want UNSUITABLE with a reason", err)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
}

// damage overwrites bytes of a file.
func damage(t *testing.T, path string, from, to int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		b[i] = 0xa5
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no", "store.db")
	if _, err := sqlitestore.Open(t.Context(), "sqlite:"+path, sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder was made")
	}
	if _, err := sqlitestore.Open(t.Context(), "sqlite:"+t.TempDir(), sdk.OpenOptions{}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("a folder: %v", err)
	}
}

func TestOddFileNames(t *testing.T) {
	for _, name := range []string{"a b.db", "100%25.db", "é.db", "a#b.db", "a&b=c.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, path, sdk.OpenOptions{})
		apply(t, s, mutation(1, 1, "op"), sdk.Accepted)
		s.Close()
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestBesideTheTeamsTables(t *testing.T) {
	path := tempFile(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER)"); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, sdk.OpenOptions{})
	apply(t, s, mutation(1, 1, "op"), sdk.Accepted)
	s.Close()
	again, err := sqlitestore.Open(t.Context(), "sqlite:"+path, sdk.OpenOptions{})
	if err != nil {
		t.Fatalf("once it is there, create=beside is not needed: %v", err)
	}
	again.Close()
}

// Namespaces: one base per file, and its shadow beside it.
func TestNamespaces(t *testing.T) {
	path := tempFile(t)
	main := open(t, path, sdk.OpenOptions{})
	shadow := open(t, path, sdk.OpenOptions{Namespace: sdk.ShadowNamespace("")})
	apply(t, main, mutation(9, 1, "op"), sdk.Accepted)
	apply(t, shadow, mutation(2, 1, "op"), sdk.Accepted)
	if _, err := sqlitestore.Open(t.Context(), "sqlite:"+path, sdk.OpenOptions{Namespace: "other"}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("a second namespace: %v", err)
	}
	if state, err := main.Inspect(t.Context(), resource); err != nil || state.Highest != 9 {
		t.Errorf("%+v, %v", state, err)
	}
}

// F7: whoever has the file cannot lower a fence or change a receipt by SQL, and
// one whose fence was removed by force is an alarm, not a fresh resource.
func TestTriggersKeepTheFence(t *testing.T) {
	path := tempFile(t)
	s := open(t, path, sdk.OpenOptions{})
	apply(t, s, mutation(9, 1, "op"), sdk.Accepted)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{
		"UPDATE fencedstore_fence SET highest = 8", "UPDATE fencedstore_fence SET segment = 0", "UPDATE fencedstore_fence SET resource = 'x'",
		"DELETE FROM fencedstore_fence", "REPLACE INTO fencedstore_fence SELECT namespace, resource, 1, grant_digest, root, 1, 0, 0 FROM fencedstore_fence",
		"UPDATE fencedstore_receipt SET owner = 'x'", "DELETE FROM fencedstore_receipt", "UPDATE fencedstore_fence SET highest = -1",
		"UPDATE fencedstore_fence SET highest = 'x'", "UPDATE fencedstore_fence SET highest = 9.5",
	} {
		if _, err := db.Exec(q); err == nil {
			t.Errorf("%s: passed", q)
		}
	}
	if err := s.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := db.Exec("DROP TRIGGER fencedstore_fence_stays; DELETE FROM fencedstore_fence"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Inspect(t.Context(), resource); !errors.Is(err, sdk.ErrFenceRegression) {
		t.Errorf("Inspect without a fence: %v", err)
	}
	err = apply(t, s, mutation(10, 1, "op-2"), sdk.FenceRegression)
	if !errors.Is(err, sdk.ErrFenceRegression) {
		t.Error(err)
	}
	if err := s.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("Probe without its triggers: %v", err)
	}
}

// A full disk: SQLite's own limit on the file's pages stands in for it, with the
// same result code.
func TestFullDisk(t *testing.T) {
	s := open(t, tempFile(t), sdk.OpenOptions{})
	apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
	sqlitestore.LimitPages(t, s)
	big := sdk.Put("k", make([]byte, 1<<20))
	apply(t, s, mutation(1, 2, "op-2", big), sdk.NotApplied)
	apply(t, s, mutation(1, 2, "op-2"), sdk.Accepted)
}

func FuzzParseDSN(f *testing.F) {
	for _, s := range []string{"sqlite:a.db", "sqlite:///tmp/a?create=beside", "sqlite:a?b", "x", "sqlite:%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		path, err := sqlitestore.ParsePath(s)
		if err == nil && (!filepath.IsAbs(path) || strings.ContainsRune(path, 0)) {
			t.Errorf("%q is the file %q", s, path)
		}
	})
}
