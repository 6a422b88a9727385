package nfc

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// streamSafe is how many runes in a row that are no boundary x/text lets pass;
// into a longer row it puts a U+034F, which Form C does not.
const streamSafe = 30

// check compares IsNormal with x/text, and where x/text answers for its
// stream-safe form instead of Form C, with slowNFC.
func check(t testing.TB, s string) {
	t.Helper()
	want := utf8.ValidString(s)
	if want && longestRow(s) <= streamSafe {
		want = norm.NFC.IsNormalString(s)
	} else if want {
		want = slowNFC(s) == s
	}
	if got := IsNormal(s); got != want {
		t.Fatalf("IsNormal(%+q) = %v, want %v (tables of Unicode %s, x/text of %s)", s, got, want, UnicodeVersion, norm.Version)
	}
}

// longestRow returns the length of the longest row of runes in s, decomposed,
// before which there is no boundary; for a short s, an upper bound.
func longestRow(s string) int {
	if n := 4 * utf8.RuneCountInString(s); n <= streamSafe {
		return n // no rune decomposes to more than four
	}
	row, longest := 0, 0
	for _, r := range decomposed(s) {
		row++
		if norm.NFC.PropertiesString(string(r)).BoundaryBefore() {
			row = 0
		}
		longest = max(longest, row)
	}
	return longest
}

func decomposed(s string) []rune {
	var out []rune
	for _, r := range s {
		out = append(out, []rune(norm.NFD.String(string(r)))...)
	}
	return out
}

// slowNFC returns s in Form C. It takes from x/text what that says of one rune
// and of two, and shares neither tables nor code with this package.
func slowNFC(s string) string {
	d := slowOrder(decomposed(s))
	// A rune is blocked from the last starter before it if one between has a
	// class of 0 or one as high.
	for i := 1; i < len(d); i++ {
		at := i - 1
		for at > 0 && ccc(d[at]) != 0 {
			at--
		}
		between := d[at+1 : i]
		if ccc(d[at]) != 0 || slices.ContainsFunc(between, func(m rune) bool { return ccc(m) >= ccc(d[i]) }) {
			continue
		}
		if joined, ok := slowJoin(d[at], d[i]); ok {
			d[at] = joined
			d = slices.Delete(d, i, i+1)
			i--
		}
	}
	return string(d)
}

func ccc(r rune) uint8 { return norm.NFC.PropertiesString(string(r)).CCC() }

// slowOrder is the Canonical Ordering Algorithm, to the letter.
func slowOrder(d []rune) []rune {
	for swapped := true; swapped; {
		swapped = false
		for i := 1; i < len(d); i++ {
			if a, b := ccc(d[i-1]), ccc(d[i]); a > b && b > 0 {
				d[i-1], d[i], swapped = d[i], d[i-1], true
			}
		}
	}
	return d
}

func slowJoin(a, b rune) (rune, bool) {
	pair := string(a) + string(b)
	joined := []rune(norm.NFC.String(pair))
	if len(joined) != 1 || norm.NFD.String(string(joined)) != norm.NFD.String(string(a))+string(b) {
		return 0, false
	}
	return joined[0], true
}

func TestSlowNFCAgreesWithXText(t *testing.T) {
	rng := seeded(t)
	runes := interesting()
	for range 20_000 {
		s := draw(rng, runes, 8)
		if longestRow(s) > streamSafe {
			continue
		}
		if got, want := slowNFC(s), norm.NFC.String(s); got != want {
			t.Fatalf("%+q: %+q, x/text has %+q", s, got, want)
		}
	}
}

func TestXTextIsStreamSafe(t *testing.T) {
	// If x/text comes to answer for Form C itself, check needs no slowNFC.
	s := "b" + strings.Repeat("\u0300", streamSafe)
	if !norm.NFC.IsNormalString(s) || norm.NFC.IsNormalString(s+"\u0300") {
		t.Errorf("x/text's limit is no longer %d marks", streamSafe)
	}
}
