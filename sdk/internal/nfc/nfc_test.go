package nfc

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

// seeded returns a source that the logged command replays.
func seeded(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("replay: go test ./sdk/internal/nfc -run '^%s$' -seed %d", t.Name(), s)
	return rand.New(rand.NewPCG(s, 0))
}

// draw returns up to n of runes.
func draw(rng *rand.Rand, runes []rune, n int) string {
	rs := make([]rune, rng.IntN(n+1))
	for i := range rs {
		rs[i] = runes[rng.IntN(len(runes))]
	}
	return string(rs)
}

// interesting is what normalization is about, in an order that a seed can rely
// on: marks, what joins, what it joins into, what never stands in NFC.
func interesting() []rune {
	out := []rune{'a', 'K', 0x034f, 0x10ff, 0x1100, 0x1112, 0x1113, 0x1161, 0x1175, 0x11a7, 0x11a8, 0x11c2,
		0xac00, 0xac01, 0xd7a3, 0x212a, 0x4e00, 0xfffd, utf8.MaxRune}
	for _, x := range runs {
		for r := x.lo; r <= x.hi; r++ {
			out = append(out, r)
		}
	}
	for _, p := range pairs {
		out = append(out, p.first, p.second, p.joined)
	}
	return out
}

func TestBySight(t *testing.T) {
	for s, want := range map[string]bool{
		"":                                  true,
		"invoice-batch/2026-07-19":          true,
		"caf\u00e9":                         true,
		"cafe\u0301":                        false, // joins into U+00E9
		"\u212b":                            false, // a second code point for U+00C5
		"\u1e69":                            true,  // s with two dots
		"\u1e61\u0323":                      false, // the same, spelled by one of them
		"s\u0307\u0323":                     false, // and out of order
		"q\u0323\u0307":                     true,  // no such letter, so the marks stay, in order
		"q\u0307\u0323":                     false,
		"a\u0334\u0301":                     false, // a mark of another class does not block
		"\u00e1\u0334":                      true,
		"a\u0305\u0301":                     true, // one of the same class does
		"ax\u0301":                          true, // as does a starter
		"\u0301a":                           true, // nothing before it to join
		"\u0958":                            false,
		"\u0915\u093c":                      true, // excluded from composition
		"\u0344":                            false,
		"\ud55c\uae00":                      true,
		"\u1112\u1161\u11ab":                false,
		"\ud558\u11ab":                      false,
		"\ud55c\u11ab":                      true,
		"\uac00\u11a7":                      true, // U+11A7 is no trailing consonant
		"\uf900":                            false,
		"b" + strings.Repeat("\u0301", 100): true,
		"a" + strings.Repeat("\u0301", 100): false,
	} {
		if got := IsNormal(s); got != want {
			t.Errorf("IsNormal(%+q) = %v, want %v", s, got, want)
		}
	}
}

func TestEveryRune(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		s := string(r)
		check(t, s)
		check(t, "a"+s)
		check(t, s+"\u0301")
		if d := norm.NFD.String(s); d != s {
			check(t, d)
		}
	}
}

func TestEveryPair(t *testing.T) {
	firsts, seconds := []rune{'q'}, []rune{0x0305, 0x0334}
	for _, p := range pairs {
		firsts, seconds = append(firsts, p.first, p.joined), append(seconds, p.second)
	}
	slices.Sort(firsts)
	slices.Sort(seconds)
	for _, a := range slices.Compact(firsts) {
		for _, b := range slices.Compact(seconds) {
			check(t, string([]rune{a, b}))
			check(t, string([]rune{a, 0x0334, b})) // class 1: blocks starters alone
			check(t, string([]rune{a, 0x0305, b})) // class 230: blocks most marks
			check(t, string([]rune{a, 'x', b}))
		}
	}
}

func TestHangul(t *testing.T) {
	for l := rune(0x10ff); l <= 0x1113; l++ {
		for v := rune(0x1160); v <= 0x1176; v++ {
			check(t, string([]rune{l, v}))
			check(t, string([]rune{l, 0x0301, v}))
			for c := rune(0x11a6); c <= 0x11c3; c++ {
				check(t, string([]rune{l, v, c}))
				check(t, string([]rune{v, c}))
			}
		}
	}
	for s := rune(0xabff); s <= 0xd7a4; s++ {
		for _, c := range []rune{0x11a7, 0x11a8, 0x11c2, 0x11c3, 0x1161} {
			check(t, string([]rune{s, c}))
			check(t, string([]rune{s, 0x0301, c}))
			check(t, string([]rune{s, c, 'q', 0x0301})) // whatever c is, the mark has it normalized
		}
	}
}

func TestRandom(t *testing.T) {
	rng := seeded(t)
	runes := interesting()
	for range 100_000 {
		s := draw(rng, runes, 8)
		check(t, s)
		check(t, norm.NFC.String(s))
	}
}

// TestLongSequences has rows of marks beyond x/text's limit, and beyond what is
// normalized without allocating.
func TestLongSequences(t *testing.T) {
	rng := seeded(t)
	marks := []rune{0x0301, 0x0305, 0x0323, 0x0327, 0x0334, 0x0345, 0x05b0, 0x1161, 0x11a8, 0x302e}
	for range 300 {
		starter := []rune{'a', 'q', 0x00e1, 0x1100, 0xac00, 0x0301}[rng.IntN(6)]
		s := string(starter) + draw(rng, marks, 60)
		check(t, s)
		check(t, slowNFC(s))
	}
	for _, n := range []int{streamSafe - 1, streamSafe, streamSafe + 1, inline - 1, inline, inline + 1, 3 * inline} {
		for _, m := range []string{"\u0301", "\u0305", "\u0323", "\u1161", "\u302e"} {
			for _, starter := range []string{"", "a", "q", "\u00e1", "\u1ec7", "\u1100", "\uac01"} {
				check(t, starter+strings.Repeat(m, n))
				check(t, starter+strings.Repeat(m, n)+"\u0334")
			}
		}
	}
}

// TestOrderKeepsEquals is about order alone, since IsNormal gives it text that
// is almost in order.
func TestOrderKeepsEquals(t *testing.T) {
	rng := seeded(t)
	marks := []rune{0x0301, 0x0305, 0x0306, 0x0323, 0x0331, 0x0327, 0x0328, 0x0334, 0x0338, 'a'}
	for range 200 {
		s := draw(rng, marks, 200)
		got := []rune(s)
		order(got)
		if want := slowOrder([]rune(s)); !slices.Equal(got, want) {
			t.Fatalf("%+q: %+q, want %+q", s, string(got), string(want))
		}
	}
}

func TestInvalidUTF8(t *testing.T) {
	for _, s := range []string{"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "e\u0301\xff", "q\u0301\xff", "\u00e9\x80z"} {
		if IsNormal(s) {
			t.Errorf("%+q passes", s)
		}
	}
	if s := "\ufffd"; !IsNormal(s) {
		t.Errorf("%+q is valid and refused", s)
	}
}

func TestNoAllocations(t *testing.T) {
	for _, s := range []string{
		"invoice-batch/2026-07-19", "caf\u00e9/\u00dcn\u00efc\u00f6d\u00e9", "日本語/한국어",
		"\u05d0\u05b0\u05c1", // marks that join with nothing, in order
		"q\u0323\u0307",      // marks that might join, in a text that is short
	} {
		if !IsNormal(s) {
			t.Errorf("%+q is refused", s)
		}
		if n := testing.AllocsPerRun(100, func() { IsNormal(s) }); n != 0 {
			t.Errorf("%+q: %v allocations", s, n)
		}
	}
}

// TestTables has what the look-ups rely on.
func TestTables(t *testing.T) {
	if runs[0].lo < firstRun {
		t.Errorf("%#x needs a look-up and is below firstRun", runs[0].lo)
	}
	for i, x := range runs {
		if x.lo > x.hi || i > 0 && runs[i-1].hi >= x.lo {
			t.Errorf("run %d, %#x to %#x, is out of order", i, x.lo, x.hi)
		}
	}
	for i, p := range pairs {
		if i > 0 && (pairs[i-1].first > p.first || pairs[i-1].first == p.first && pairs[i-1].second >= p.second) {
			t.Errorf("pair %d, %#x and %#x, is out of order", i, p.first, p.second)
		}
		if p.second < firstRun {
			t.Errorf("%#x joins and is below firstRun", p.second)
		}
	}
	if len(byJoined) != len(pairs) {
		t.Fatalf("%d pairs, %d by what they join into", len(pairs), len(byJoined))
	}
	for i := 1; i < len(byJoined); i++ {
		if pairs[byJoined[i-1]].joined >= pairs[byJoined[i]].joined {
			t.Errorf("byJoined is out of order at %d", i)
		}
	}
}

func TestGeneratedTables(t *testing.T) {
	if norm.Version != UnicodeVersion {
		t.Fatalf("the tables are of Unicode %s, x/text of %s with this Go. "+
			"Regenerating changes which IDs are valid: go generate ./sdk/internal/nfc, and a line in the changelog", UnicodeVersion, norm.Version)
	}
	out := filepath.Join(t.TempDir(), "tables.go")
	if b, err := exec.Command("go", "run", "gen.go", "-out", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("tables_generated.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("tables_generated.go is not what gen.go writes; run go generate ./sdk/internal/nfc")
	}
}

func FuzzIsNormal(f *testing.F) {
	for _, s := range []string{"a", "cafe\u0301", "q\u0323\u0307", "\u1100\u1161", "\uac00\u11a8", "\u212a", "\xff", "b" + strings.Repeat("\u0300", 31)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { check(t, s) })
}

func BenchmarkIsNormal(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"ascii", "invoice-batch/eu-west/2026-07-19"},
		{"latin-1", "invoice-batch/caf\u00e9/2026-07-19"},
		{"cjk", "請求書/日本語/한국어/2026-07-19"},
		{"marks", "invoice-batch/q\u0323\u0307/2026-07-19"},
		{"not-normal", "invoice-batch/cafe\u0301/2026-07-19"},
	} {
		b.Run(c.name+"/here", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				IsNormal(c.text)
			}
		})
		b.Run(c.name+"/x-text", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				norm.NFC.IsNormalString(c.text)
			}
		})
	}
}
