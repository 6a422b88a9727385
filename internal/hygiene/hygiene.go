// Package hygiene holds the habits of this repository that no linter knows, as
// checks over the text and the syntax of its files.
package hygiene

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
)

// MaxLines is the longest Go file that a person still reads; generated files
// may be longer.
const MaxLines = 450

// textRule is a text that no file holds.
type textRule struct {
	pattern *regexp.Regexp
	why     string
}

// The patterns are written so that they do not match themselves.
var textRules = []textRule{
	{regexp.MustCompile(`(^|[^\w.~])/(wor[k]|roo[t]|home/[a-z]|User[s]|opt/[a-z])\b`), "a path of one machine; make it relative or a temporary one"},
	{regexp.MustCompile(`(?i)\b(proxy\.golan[g]|sum\.golan[g]|registry\.npmj[s]|pypi\.or[g]|crates\.i[o]|deb\.debia[n]|repo1?\.mave[n]|ghcr\.i[o]|registry-1\.docke[r])\b`), "the host of a registry; name the package, the client knows the host"},
	{regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[0-9A-Za-z]{36}|\bxox[abprs]-[0-9A-Za-z-]{10}|-----BEGI[N] [A-Z ]*PRIVATE KEY`), "looks like a secret; tests make throw-away keys when they run"},
	{regexp.MustCompile(`\b(TOD[O]|FIXM[E]|XX[X])\b`), "unfinished; do it or file an issue"},
}

// badNames are package names that say nothing.
var badNames = map[string]bool{"util": true, "utils": true, "common": true, "helper": true, "helpers": true, "misc": true, "shared": true, "base": true}

// Check returns what is wrong with a file, one "name:line: reason" each. Name
// is its path from the root of the repository, with slashes.
func Check(name string, src []byte) []string {
	var out []string
	if bytes.IndexByte(src, 0) >= 0 {
		return nil // not text
	}
	for i, line := range strings.Split(string(src), "\n") {
		for _, r := range textRules {
			if m := r.pattern.FindString(line); m != "" {
				out = append(out, fmt.Sprintf("%s:%d: %q: %s", name, i+1, m, r.why))
			}
		}
	}
	if path.Ext(name) == ".go" {
		out = append(out, checkGo(name, src)...)
	}
	return out
}

func checkGo(name string, src []byte) []string {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	if ast.IsGenerated(f) {
		return nil
	}
	var out []string
	report := func(at token.Pos, reason string) {
		out = append(out, fmt.Sprintf("%s:%d: %s", name, fset.Position(at).Line, reason))
	}
	if n := bytes.Count(src, []byte("\n")); n > MaxLines {
		report(f.Pos(), fmt.Sprintf("%d lines; split the file by topic, %d are the most", n, MaxLines))
	}
	if badNames[strings.TrimSuffix(f.Name.Name, "_test")] {
		report(f.Name.Pos(), fmt.Sprintf("package %s says nothing; name it after what it holds", f.Name.Name))
	}
	test := strings.HasSuffix(name, "_test.go")
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				report(n.Pos(), "init: nothing happens by import; construct it where it is used")
			}
		case *ast.CallExpr:
			if reason := checkCall(n, test); reason != "" {
				report(n.Pos(), reason)
			}
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (isMessage(n.X) || isMessage(n.Y)) {
				report(n.Pos(), "compares an error's text; act on its code with errors.Is or sdk.CodeOf")
			}
		}
		return true
	})
	return out
}

func checkCall(c *ast.CallExpr, test bool) string {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg := ""
	if id, ok := sel.X.(*ast.Ident); ok {
		pkg = id.Name
	}
	switch {
	case sel.Sel.Name == "SkipNow":
		return "skips without a reason; use Skip or Skipf"
	case (sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf") && test && len(c.Args) < 2 && emptyReason(c.Args):
		return "skips without a reason"
	case pkg == "time" && sel.Sel.Name == "Sleep" && test:
		return "sleeps in a test; wait for what is to happen"
	case pkg == "strings" || pkg == "regexp":
		for _, a := range c.Args {
			if isMessage(a) {
				return "reads an error's text; act on its code with errors.Is or sdk.CodeOf"
			}
		}
	}
	return ""
}

func emptyReason(args []ast.Expr) bool {
	if len(args) == 0 {
		return true
	}
	lit, ok := args[0].(*ast.BasicLit)
	return ok && len(strings.Trim(lit.Value, "\"` ")) < 5
}

// isMessage reports whether e is a call of a method Error without arguments.
func isMessage(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) > 0 {
		return false
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Error"
}
