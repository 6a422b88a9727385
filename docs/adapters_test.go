package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/adapters/fsstore"
	"github.com/fencedstore/fencedstore/adapters/memstore"
	"github.com/fencedstore/fencedstore/adapters/sqlitestore"
	"github.com/fencedstore/fencedstore/sdk"
)

// columns are the headings under which the tables of adapters say yes or no.
var columns = map[string]sdk.Capability{
	"durable": sdk.CapDurable, "several processes": sdk.CapShared,
	"`ApplyTx`": sdk.CapApplyTx, "native effects": sdk.CapNativeEffects,
}

// TestAdapterTables compares what the pages say of an adapter with what it
// declares; of one that needs a server they have a row at least.
func TestAdapterTables(t *testing.T) {
	mem, err := memstore.Open(t.Context(), "mem://", sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	lite, err := sqlitestore.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer lite.Close()
	files, err := fsstore.Open(t.Context(), "fs:"+filepath.Join(t.TempDir(), "a"), sdk.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	declared := map[string]sdk.Description{"memstore": mem.Describe(), "sqlitestore": lite.Describe(), "fsstore": files.Describe()}
	folders, err := os.ReadDir(filepath.Join(root, "adapters"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"README.md", "docs/adapters.md"} {
		for _, f := range folders {
			if row(read(t, p), f.Name()) == nil {
				t.Errorf("%s has no row for adapters/%s", p, f.Name())
			}
		}
		for name, d := range declared {
			said := 0
			for heading, cell := range row(read(t, p), name) {
				c, ok := columns[heading]
				if !ok {
					continue
				}
				said++
				if yes := !strings.HasPrefix(cell, "no"); cell == "" || yes != (d.Supports(c) == sdk.Supported) {
					t.Errorf("%s says of %s, %s: %q; it declares %v", p, name, heading, cell, d.Supports(c))
				}
			}
			if said < 3 {
				t.Errorf("%s: the row of %s has %d columns that are known", p, name, said)
			}
		}
	}
}

// row returns the cells of the table row whose first cell names the adapter, by
// their heading.
func row(text, adapter string) map[string]string {
	var headings []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			headings = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if headings == nil {
			headings = cells
			continue
		}
		if !strings.Contains(cells[0], adapter) {
			continue
		}
		out := map[string]string{}
		for i := range min(len(cells), len(headings)) {
			out[strings.TrimSpace(headings[i])] = strings.TrimSpace(cells[i])
		}
		return out
	}
	return nil
}
