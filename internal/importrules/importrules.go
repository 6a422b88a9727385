// Package importrules says which package may import which. The tree shows the
// architecture, and its test keeps it so: a rule is data, and carries its why.
package importrules

import (
	"fmt"
	"slices"
	"strings"
)

// Module is this module's path; patterns are written without it.
const Module = "github.com/fencedstore/fencedstore"

// Rule forbids imports to the packages that match For.
//
// A pattern is an import path; "/..." at its end also matches everything below,
// "*" one path element or a part of it. Paths of this module stand without the
// module's path; "std" is the whole standard library.
type Rule struct {
	For    string   // the packages that the rule is about
	Unless []string // but not these

	Deny   []string // never among the imports, direct or through others
	Direct bool     // of Deny: only direct imports count
	Own    int      // of Deny: a package with the same first Own elements is no stranger

	// Only, where set, lists all that may be imported directly; nothing else may.
	Only []string

	// Tests says that test files keep the rule too. Their own imports are
	// judged, and not what these import.
	Tests bool

	Why string
}

// Package is a package with its imports, as go list gives them.
type Package struct {
	Path        string   // import path
	Imports     []string // direct
	Deps        []string // all, through others too
	TestImports []string // direct, of all test files
}

// Violation is an import that a rule forbids.
type Violation struct {
	Package, Import string
	Test            bool
	Rule            Rule
}

func (v Violation) String() string {
	verb := "imports"
	if v.Test {
		verb = "imports in a test"
	}
	return fmt.Sprintf("%s %s %s: %s", v.Package, verb, v.Import, v.Rule.Why)
}

// Check returns what the rules forbid among pkgs, in the order of the rules.
func Check(rules []Rule, pkgs []Package) []Violation {
	var out []Violation
	for _, r := range rules {
		for _, p := range pkgs {
			path := local(p.Path)
			if !match(r.For, path) || matchAny(r.Unless, path) {
				continue
			}
			deps := p.Deps
			if r.Direct {
				deps = p.Imports
			}
			for _, imp := range deps {
				if r.denies(path, local(imp)) {
					out = append(out, Violation{path, local(imp), false, r})
				}
			}
			for _, imp := range p.Imports {
				if r.Only != nil && !matchAny(r.Only, local(imp)) {
					out = append(out, Violation{path, local(imp), false, r})
				}
			}
			if !r.Tests {
				continue
			}
			for _, imp := range p.TestImports {
				if i := local(imp); r.denies(path, i) || r.Only != nil && i != path && !matchAny(r.Only, i) {
					out = append(out, Violation{path, i, true, r})
				}
			}
		}
	}
	return out
}

func (r *Rule) denies(path, imp string) bool {
	return matchAny(r.Deny, imp) && path != imp && (r.Own == 0 || unit(path, r.Own) != unit(imp, r.Own))
}

// local is path without the module's; a standard package is std/path.
func local(path string) string {
	if l, ok := strings.CutPrefix(path, Module+"/"); ok {
		return l
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return "std/" + path
	}
	return path
}

func unit(path string, n int) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[:min(n, len(parts))], "/")
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, path) })
}

func match(pattern, path string) bool {
	if pattern == "std" {
		return strings.HasPrefix(path, "std/")
	}
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, w := range want {
		if w == "..." {
			return true
		}
		if i >= len(got) {
			return false
		}
		before, after, star := strings.Cut(w, "*")
		if w != got[i] && !(star && len(got[i]) >= len(w)-1 && strings.HasPrefix(got[i], before) && strings.HasSuffix(got[i], after)) {
			return false
		}
	}
	return len(got) == len(want)
}
