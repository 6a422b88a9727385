package nfc

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

func check(t testing.TB, s string) {
	t.Helper()
	want := utf8.ValidString(s) && norm.NFC.IsNormalString(s)
	if got := IsNormal(s); got != want {
		t.Fatalf("%+q: got %v, want %v", s, got, want)
	}
}

func TestEveryRune(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if utf8.ValidRune(r) {
			check(t, string(r))
			check(t, "a"+string(r))
			check(t, string(r)+"\u0301")
		}
	}
}

// interesting is every rune that normalization is about.
func interesting() []rune {
	var out []rune
	for _, s := range checked {
		for r := s.lo; r <= s.hi; r++ {
			out = append(out, r)
		}
	}
	for p, r := range composed {
		out = append(out, p[0], p[1], r)
	}
	return append(out, 'a', 'K', 0x1100, 0x1112, 0x1161, 0x1175, 0x11a7, 0x11a8, 0x11c2, 0xac00, 0xac01, 0xd7a3, 0xfffd)
}

func TestEveryPairThatComposes(t *testing.T) {
	for p, r := range composed {
		check(t, string(p[:]))
		check(t, string(r))
		check(t, string([]rune{p[0], 0x0323, p[1]}))
		check(t, string([]rune{p[0], 'x', p[1]}))
	}
}

func TestHangul(t *testing.T) {
	for l := rune(0x1100 - 1); l <= 0x1113; l++ {
		for v := rune(0x1160); v <= 0x1176; v++ {
			for c := rune(0x11a6); c <= 0x11c3; c++ {
				check(t, string([]rune{l, v, c}))
				check(t, string([]rune{l, v}))
			}
		}
	}
	for s := rune(0xabff); s <= 0xd7a4; s++ {
		check(t, string([]rune{s, 0x11a8}))
	}
}

func TestRandom(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay: go test ./sdk/internal/nfc -run TestRandom -seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 0))
	runes := interesting()
	for range 200_000 {
		rs := make([]rune, rng.IntN(8))
		for i := range rs {
			rs[i] = runes[rng.IntN(len(runes))]
		}
		check(t, string(rs))
		check(t, norm.NFC.String(string(rs)))
	}
}

func TestInvalidUTF8(t *testing.T) {
	for _, s := range []string{"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "e\u0301\xff"} {
		if IsNormal(s) {
			t.Errorf("%+q passes", s)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	for _, s := range []string{"invoice-batch/2026-07-19", "café/Ünïcödé", "日本語/한국어"} {
		if n := testing.AllocsPerRun(100, func() { IsNormal(s) }); n != 0 {
			t.Errorf("%q: %v allocations", s, n)
		}
	}
}

func TestGeneratedTables(t *testing.T) {
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
	for _, s := range []string{"a", "cafe\u0301", "\u1100\u1161", "\u212a", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { check(t, s) })
}

func BenchmarkIsNormal(b *testing.B) {
	const s = "invoice-batch/café/2026-07-19"
	b.Run("here", func(b *testing.B) {
		for b.Loop() {
			IsNormal(s)
		}
	})
	b.Run("x/text", func(b *testing.B) {
		for b.Loop() {
			norm.NFC.IsNormalString(s)
		}
	})
}
