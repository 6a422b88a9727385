package sdk_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

// declaredLaws reads the law constants from the source, so that a new one
// without a text fails.
func declaredLaws(t *testing.T) []sdk.Law {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "laws.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []sdk.Law
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			id, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if id != v.Names[0].Name {
				t.Errorf("const %s is %q", v.Names[0].Name, id)
			}
			out = append(out, sdk.Law(id))
		}
	}
	return out
}

func TestEveryLawHasAText(t *testing.T) {
	laws := declaredLaws(t)
	if len(laws) < 37 {
		t.Fatalf("only %d law constants found in laws.go", len(laws))
	}
	texts := sdk.Laws()
	for i, l := range laws {
		if i >= len(texts) || texts[i].ID != l {
			t.Fatalf("text %d is not that of %s; texts stand in the order of the constants", i, l)
		}
		if l.Text() != texts[i] {
			t.Errorf("%s.Text() is another text", l)
		}
	}
	for _, x := range texts[len(laws):] {
		t.Errorf("text %q belongs to no law constant", x.ID)
	}
	if x := sdk.Law("F99").Text(); x != (sdk.LawText{}) {
		t.Errorf("unknown law has the text %+v", x)
	}
}

func TestLawTextsAreComplete(t *testing.T) {
	keepers := map[string]bool{"gate": true, "store": true, "adapter and gate": true, "registry": true,
		"worker": true, "gate and store": true, "operator and gate": true}
	names := map[string]sdk.Law{}
	for _, x := range sdk.Laws() {
		if other, ok := names[x.Name]; ok || x.Name == "" {
			t.Errorf("%s: name %q (also %s)", x.ID, x.Name, other)
		}
		names[x.Name] = x.ID
		if !keepers[x.Keeper] {
			t.Errorf("%s: keeper %q", x.ID, x.Keeper)
		}
		for part, s := range map[string]string{"Sentence": x.Sentence, "Why": x.Why, "Breaks": x.Breaks, "Fix": x.Fix} {
			if len(s) < 40 || !strings.HasSuffix(s, ".") || s != strings.Join(strings.Fields(s), " ") {
				t.Errorf("%s: %s is not one paragraph of whole sentences: %q", x.ID, part, s)
			}
		}
	}
}
