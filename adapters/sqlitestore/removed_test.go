package sqlitestore_test

import (
	"errors"
	"os"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/sdk"
)

// F7, F9: a handle whose file was removed or replaced still has the old one
// open. What it wrote there nobody would ever see; whoever opens the path has
// other fences.
func TestFileRemovedOrReplaced(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(path string) error
	}{
		{"removed", os.Remove},
		{"log removed", func(path string) error { return os.Remove(path + "-wal") }},
		{"replaced", func(path string) error {
			old, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+".new", old, 0o600), os.Rename(path+".new", path))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := tempFile(t)
			s := open(t, path, sdk.OpenOptions{})
			apply(t, s, mutation(1, 1, "op-1"), sdk.Accepted)
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			apply(t, s, mutation(1, 2, "op-2"), sdk.Unsuitable)
			if _, err := s.Inspect(t.Context(), resource); !errors.Is(err, sdk.ErrUnsuitable) {
				t.Errorf("Inspect: %v; want UNSUITABLE", err)
			}
			if err := s.Probe(t.Context()); !errors.Is(err, sdk.ErrUnsuitable) {
				t.Errorf("Probe: %v; want UNSUITABLE", err)
			}
		})
	}
}

// Other handles that come and go, and move the log into the file, are none of
// this.
func TestOtherHandlesCloseMeanwhile(t *testing.T) {
	path := tempFile(t)
	s := open(t, path, sdk.OpenOptions{})
	for i := sdk.Segment(1); i <= 5; i++ {
		other, err := sqlitestore.Open(t.Context(), "sqlite:"+path, sdk.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		apply(t, other, mutation(1, 2*i-1, "a"+i.String()), sdk.Accepted)
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		apply(t, s, mutation(1, 2*i, "b"+i.String()), sdk.Accepted)
	}
}
