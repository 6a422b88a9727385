package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
	"github.com/google/go-cmp/cmp"
)

func TestPagesAreCurrent(t *testing.T) {
	for name, want := range pages() {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("docs/%s is not what the code says; run make generate (-want +got):\n%s", name, diff)
		}
	}
}

func TestEveryLawIsOnThePage(t *testing.T) {
	page := laws()
	for _, l := range sdk.Laws() {
		if n := strings.Count(page, "\n### "+string(l.ID)+" "+l.Name+"\n"); n != 1 {
			t.Errorf("%s has %d headings", l.ID, n)
		}
	}
}

func TestEveryCheckIsOnThePage(t *testing.T) {
	page := checks()
	for _, c := range conformance.Cases() {
		if n := strings.Count(page, "\n### "+c.ID+"\n"); n != 1 {
			t.Errorf("%s stands on the page %d times", c.ID, n)
		}
	}
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 60)
	for _, line := range strings.Split(wrap(long, "> "), "\n") {
		if len(line) > 100 || !strings.HasPrefix(line, "> word") || strings.HasSuffix(line, " ") {
			t.Errorf("line %q", line)
		}
	}
	if got := wrap("is STALE_OWNER, see sdk.ParseToken", ""); got != "is `STALE_OWNER`, see `sdk.ParseToken`" {
		t.Error(got)
	}
}
