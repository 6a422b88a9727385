package docs

import (
	"path/filepath"
	"strings"
	"testing"

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
// declares.
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
	for _, p := range []string{"README.md", "docs/adapters.md"} {
		for name, d := range map[string]sdk.Description{"memstore": mem.Describe(), "sqlitestore": lite.Describe()} {
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
