// Package docs tests the pages that people read: commands run and print what
// the page shows, code is code that compiles, links lead somewhere.
package docs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

const root = ".."

// page is a Markdown file with its path from the root.
type page struct{ name, text string }

func pages(t *testing.T) []page {
	t.Helper()
	var out []page
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, page{filepath.ToSlash(name), string(b)})
		}
	}
	if len(out) < 8 {
		t.Fatalf("only %d pages found", len(out))
	}
	return out
}

// block is a fenced block with the HTML comment right before it.
type block struct {
	line                int
	comment, lang, text string
}

func blocks(text string) []block {
	var out []block
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		lang, ok := strings.CutPrefix(lines[i], "```")
		if !ok {
			continue
		}
		b := block{line: i + 1, lang: lang}
		if i > 0 {
			if c, ok := strings.CutPrefix(lines[i-1], "<!-- "); ok {
				b.comment = strings.TrimSuffix(c, " -->")
			}
		}
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			b.text += lines[i] + "\n"
		}
		out = append(out, b)
	}
	return out
}

// TestCodeIsCompiled compares a block under "<!-- file: PATH -->" with the file,
// which the compiler and its tests have seen: the block is a part of it.
func TestCodeIsCompiled(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		for _, b := range blocks(p.text) {
			file, ok := strings.CutPrefix(b.comment, "file: ")
			if !ok {
				continue
			}
			found++
			src, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Errorf("%s:%d: %v", p.name, b.line, err)
			} else if strings.TrimSpace(b.text) == "" || !strings.Contains("\n"+string(src), "\n"+b.text) {
				t.Errorf("%s:%d: the block is not a part of %s", p.name, b.line, file)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d blocks name a file", found)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		out[strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(p.text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, fragment, _ := strings.Cut(m[1], "#")
			text := p.text
			if file != "" {
				target := filepath.Join(root, filepath.Dir(p.name), file)
				info, err := os.Stat(target)
				if err != nil {
					t.Errorf("%s: %s leads nowhere", p.name, m[1])
					continue
				}
				if info.IsDir() {
					continue
				}
				b, err := os.ReadFile(target)
				if err != nil {
					t.Fatal(err)
				}
				text = string(b)
			}
			if fragment != "" && !anchors(text)[fragment] {
				t.Errorf("%s: %s: no such heading", p.name, m[1])
			}
		}
	}
}

func TestEveryCodeHasAnAnswer(t *testing.T) {
	text := read(t, "docs/operations.md")
	for _, c := range sdk.Codes() {
		if n := strings.Count(text, "\n| `"+c.String()+"` |"); n != 1 {
			t.Errorf("docs/operations.md has %d rows for %v", n, c)
		}
	}
}

func TestDesignShowsTheInterface(t *testing.T) {
	text := read(t, "docs/design.md")
	store := reflect.TypeFor[sdk.FencedStore]()
	for i := range store.NumMethod() {
		if name := store.Method(i).Name; !strings.Contains(text, "\n\t"+name+"(") {
			t.Errorf("docs/design.md lacks the method %s", name)
		}
	}
	for _, l := range sdk.Laws() {
		if !strings.Contains(text, "**"+string(l.ID)+"**") && !strings.Contains(text, "**"+string(l.ID)+" "+l.Name+"**") {
			t.Errorf("docs/design.md lacks %s %s", l.ID, l.Name)
		}
	}
}

func TestMakeTargetsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	mention := regexp.MustCompile("`make ([a-z]+)")
	for _, p := range pages(t) {
		for _, m := range mention.FindAllStringSubmatch(p.text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: the Makefile has no target %s", p.name, m[1])
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
