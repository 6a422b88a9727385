package open

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

func TestOpen(t *testing.T) {
	s, err := Store(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "s.db"), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	c, err := OpenCoordinator(t.Context(), "sqlitecoord:"+filepath.Join(t.TempDir(), "c.db"), CoordinatorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if at, err := c.Highest(t.Context(), "r"); at != 0 || err != nil {
		t.Errorf("a new coordinator is at %s, %v", at, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnknownScheme(t *testing.T) {
	for _, dsn := range []string{"", "sqlite", "redis://user:secret@h", "etcd:/x"} {
		_, err := Store(t.Context(), dsn, sdk.OpenOptions{})
		c, cerr := OpenCoordinator(t.Context(), dsn, CoordinatorOptions{})
		for _, err := range []error{err, cerr} {
			if !errors.Is(err, sdk.ErrInvalid) || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%q: %v", dsn, err)
			}
		}
		if c != nil {
			t.Errorf("%q: a coordinator beside an error: %v", dsn, c)
		}
	}
}
