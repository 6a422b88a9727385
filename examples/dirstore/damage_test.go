package dirstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/examples/dirstore"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/gate"
	"github.com/fencedstore/fencedstore/sdk/gate/gatetest"
)

const resource = "reports/7"

// written returns a store in which worker-a has written once, with the gate, its
// lease and the path of the resource's record.
func written(t *testing.T) (*gate.Gate, *gatetest.Lease, sdk.FencedStore, string) {
	t.Helper()
	path := t.TempDir()
	store, err := dirstore.New(path).Open(t.Context(), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	registry, err := gatetest.New("reports")
	if err != nil {
		t.Fatal(err)
	}
	g, err := registry.Gate(store, "worker-a", nil)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := registry.Acquire(resource, "worker-a", "job")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.ApplyFencedMutation(t.Context(), lease.Request(1, "op-1", sdk.Put("k", []byte("v")))); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(path, sdk.DefaultNamespace, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("records %v, %v", files, err)
	}
	return g, lease, store, files[0]
}

func TestDeletedRecordIsNotANewResource(t *testing.T) {
	g, lease, store, file := written(t)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := g.ApplyFencedMutation(t.Context(), lease.Request(2, "op-2")); !errors.Is(err, sdk.ErrFenceRegression) {
		t.Errorf("write: %v", err)
	}
	if _, err := store.Inspect(t.Context(), resource); !errors.Is(err, sdk.ErrFenceRegression) {
		t.Errorf("inspect: %v", err)
	}
}

func TestDamagedRecordIsRefusedAndKept(t *testing.T) {
	g, lease, _, file := written(t)
	if err := os.WriteFile(file, []byte(`{"Resource":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := g.ApplyFencedMutation(t.Context(), lease.Request(2, "op-2")); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("write: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), `{"Resource":`) {
		t.Errorf("record is now %q, %v", b, err)
	}
}

func TestMarkerIsWrittenAfterACrash(t *testing.T) {
	g, lease, _, file := written(t)
	if err := os.Remove(file + ".seen"); err != nil { // as if killed before it was written
		t.Fatal(err)
	}
	if _, err := g.ApplyFencedMutation(t.Context(), lease.Request(2, "op-2")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file + ".seen"); err != nil {
		t.Error(err)
	}
}

func TestAnotherNamespaceIsRefused(t *testing.T) {
	dir := dirstore.New(t.TempDir())
	for _, ok := range []string{"", "main", "main.shadow"} {
		s, err := dir.Open(t.Context(), sdk.OpenOptions{Namespace: ok})
		if err != nil {
			t.Fatalf("%q: %v", ok, err)
		}
		s.Close()
	}
	if _, err := dir.Open(t.Context(), sdk.OpenOptions{Namespace: "other"}); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("other namespace: %v", err)
	}
}
