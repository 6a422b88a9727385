package pattern

import (
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/sdk"
)

// universe is every ID of up to four segments over three names: enough to tell
// any two patterns over the same names apart.
func universe() []sdk.ResourceID {
	out := []sdk.ResourceID{}
	var grow func(prefix string, depth int)
	grow = func(prefix string, depth int) {
		for _, s := range []string{"a", "b", "c"} {
			id := strings.TrimPrefix(prefix+"/"+s, "/")
			out = append(out, sdk.ResourceID(id))
			if depth > 1 {
				grow(id, depth-1)
			}
		}
	}
	grow("", 4)
	return out
}

// all is every pattern of up to three segments over two names.
func all(t *testing.T) []Pattern {
	var out []Pattern
	var grow func(prefix string, depth int)
	grow = func(prefix string, depth int) {
		for _, s := range []string{"a", "b", "*", "**"} {
			text := strings.TrimPrefix(prefix+"/"+s, "/")
			p, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
			if depth > 1 && s != "**" {
				grow(text, depth-1)
			}
		}
	}
	grow("", 3)
	return out
}

// naive matches by definition, apart from the code under test.
func naive(pattern, id string) bool {
	p, s := strings.Split(pattern, "/"), strings.Split(id, "/")
	for i, want := range p {
		if want == "**" {
			return len(s) > i
		}
		if i >= len(s) || want != "*" && want != s[i] {
			return false
		}
	}
	return len(p) == len(s)
}

func TestSetsByEnumeration(t *testing.T) {
	ids, patterns := universe(), all(t)
	sets := make([][]bool, len(patterns))
	for i, p := range patterns {
		sets[i] = make([]bool, len(ids))
		for j, id := range ids {
			sets[i][j] = naive(p.String(), string(id))
			if p.Match(id) != sets[i][j] {
				t.Fatalf("%s matches %s: %v", p, id, !sets[i][j])
			}
		}
	}
	for i, p := range patterns {
		for j, q := range patterns {
			meet, covers := false, true
			for k := range ids {
				meet = meet || sets[i][k] && sets[j][k]
				covers = covers && (sets[i][k] || !sets[j][k])
			}
			if p.Intersects(q) != meet {
				t.Errorf("%s intersects %s: got %v", p, q, !meet)
			}
			if p.Covers(q) != covers {
				t.Errorf("%s covers %s: got %v", p, q, !covers)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{"", "/", "a//b", "a/**/b", "a*", "**a", "a/***", "a/../b", "a/%"} {
		if _, err := Parse(s); sdk.CodeOf(err) != sdk.Invalid {
			t.Errorf("%q: %v", s, err)
		}
	}
}
