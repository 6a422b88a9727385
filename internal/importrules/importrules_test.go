package importrules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// load asks the go command for every package of the module.
func load(t *testing.T) []Package {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,Deps,TestImports,XTestImports", Module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	var pkgs []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath                               string
			Imports, Deps, TestImports, XTestImports []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, Package{p.ImportPath, p.Imports, p.Deps, slices.Concat(p.TestImports, p.XTestImports)})
	}
}

func TestImports(t *testing.T) {
	pkgs := load(t)
	if len(pkgs) < 10 {
		t.Fatalf("go list names %d packages", len(pkgs))
	}
	for _, v := range Check(Rules(), pkgs) {
		t.Error(v)
	}
}

func TestEveryRuleIsWhole(t *testing.T) {
	for _, r := range Rules() {
		if r.For == "" || r.Why == "" || r.Deny == nil && r.Only == nil {
			t.Errorf("rule without packages, reason or imports: %+v", r)
		}
	}
}

// full is the inverse of local.
func full(imp string) string {
	if p, ok := strings.CutPrefix(imp, "std/"); ok {
		return p
	}
	if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") {
		return imp
	}
	return Module + "/" + imp
}

// TestChecker breaks every rule, so that one that cannot fail fails here.
func TestChecker(t *testing.T) {
	broken := []struct {
		path, imp string
		test      bool
	}{
		{"sdk", "github.com/google/uuid", false},
		{"sdk", "adapters/memstore", false},
		{"sdk/gate", "adapters/memstore", false},
		{"sdk/gate", "cmd/adaptercheck", true},
		{"sdk/trust", "google.golang.org/grpc/codes", false},
		{"sdk/lease", "github.com/gorilla/mux", false},
		{"sdk/cas", "github.com/aws/aws-sdk-go-v2/service/s3", false},
		{"sdk/internal/pattern", "sdk/gate", false},
		{"adapters/dynamodbstore", "adapters/s3store", false},
		{"adapters/dynamodbstore", "adapters/s3store", true},
		{"adapters/mongostore", "github.com/hashicorp/go-plugin", false},
		{"adapters/mongostore", "conformance", false},
		{"adapters/mongostore", "plugins/host", true},
		{"adapters/memstore", "github.com/google/btree", false},
		{"adapters/memstore", "internal/seal", false},
		{"adapters/sqlitestore", "github.com/mattn/go-sqlite3", false},
		{"conformance", "cloud.google.com/go/spanner", false},
		{"conformance", "adapters/sqlitestore", false},
		{"conformance", "plugins/host", true},
		{"conformance/report", "modernc.org/sqlite", false},
		{"conformance/internal/mutant", "conformance", false},
		{"conformance/internal/mutant", "conformance", true},
		{"plugins/host", "adapters/spannerstore", false},
		{"plugins/host", "adapters/spannerstore", true},
		{"plugins/fencedstore-dynamodb", "cmd/adaptercheck", false},
		{"cmd/adaptercheck", "examples/gate", false},
		{"cmd/adaptercheck", "std/unsafe", false},
		{"internal/seal", "std/fmt", false},
		{"sdk/grant", "std/testing", false},
		{"sdk/registry", "std/flag", false},
		{"conformance", "std/math/rand", true},
		{"sdk/grant", "std/encoding/gob", false},
	}
	reported := map[int]bool{}
	for _, b := range broken {
		p := Package{Path: full(b.path)}
		if b.test {
			p.TestImports = []string{full(b.imp)}
		} else {
			p.Imports, p.Deps = []string{full(b.imp)}, []string{full(b.imp)}
		}
		found := Check(Rules(), []Package{p})
		if !slices.ContainsFunc(found, func(v Violation) bool { return v.Import == b.imp && v.Test == b.test }) {
			t.Errorf("%s may import %s (test file: %v); reported: %v", b.path, b.imp, b.test, found)
		}
		for _, v := range found {
			for i, r := range Rules() {
				reported[i] = reported[i] || cmp.Equal(r, v.Rule)
			}
		}
	}
	for i, r := range Rules() {
		if !reported[i] {
			t.Errorf("no synthetic package breaks the rule for %s: %s", r.For, r.Why)
		}
	}
}

func TestCheckerLetsThrough(t *testing.T) {
	allowed := []Package{
		{Path: Module + "/sdk", Imports: []string{"fmt", Module + "/internal/seal"}, Deps: []string{"fmt", "unsafe", Module + "/internal/seal"},
			TestImports: []string{"testing", "github.com/google/go-cmp/cmp"}},
		{Path: Module + "/adapters/s3store", Deps: []string{Module + "/adapters/s3store/internal/sign", "google.golang.org/grpc"},
			TestImports: []string{Module + "/adapters/s3store", Module + "/conformance"}},
		{Path: Module + "/plugins/fencedstore-s3", Deps: []string{Module + "/adapters/s3store"}},
		{Path: Module + "/cmd/adaptercheck", Deps: []string{Module + "/adapters/s3store", Module + "/cmd/adaptercheck/internal/timeline"}},
		{Path: Module + "/conformance", Imports: []string{"testing"}, TestImports: []string{Module + "/adapters/memstore"}},
	}
	if got := Check(Rules(), allowed); got != nil {
		t.Errorf("forbidden: %v", got)
	}
}

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, path string
		want          bool
	}{
		{"sdk", "sdk", true},
		{"sdk", "sdk/gate", false},
		{"sdk/...", "sdk", true},
		{"sdk/...", "sdk/gate", true},
		{"sdk/...", "sdkx/gate", false},
		{"plugins/fencedstore-*/...", "plugins/fencedstore-s3", true},
		{"plugins/fencedstore-*", "plugins/fencedstore-s3", true},
		{"plugins/fencedstore-*", "plugins/host", false},
		{"std", "std/net/http", true},
		{"std", "stdx/net", false},
		{"...", "a", true},
	}
	for _, x := range tests {
		if got := match(x.pattern, x.path); got != x.want {
			t.Errorf("match(%q, %q) = %v", x.pattern, x.path, got)
		}
	}
}
