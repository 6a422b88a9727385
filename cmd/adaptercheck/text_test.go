package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNear(t *testing.T) {
	names := []string{"certify", "checks", "explain", "fence/stale-token-refused", "F1", "F10", "O2"}
	for word, want := range map[string][]string{
		"certfy":      {"certify"},
		"chekcs":      {"checks"},
		"stale-token": {"fence/stale-token-refused"},
		"STALE":       {"fence/stale-token-refused"},
		"F11":         {"F1", "F10"},
		"x":           nil,
		"":            nil,
		"redis":       nil,
	} {
		if diff := cmp.Diff(want, near(word, names)); diff != "" {
			t.Errorf("near(%q) (-want +got):\n%s", word, diff)
		}
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string][]string{
		"one two three":         {"one two", "three"},
		"averyveryverylongword": {"averyveryverylongword"},
		"a averyverylongword b": {"a", "averyverylongword", "b"},
		"one\ntwo  two":         {"one", "two two"},
		"":                      {""},
		"é é é é é":             {"é é é é", "é"},
		"x\x1b[2Jy\x00":         {"x\uFFFD[2Jy\uFFFD"},
	} {
		if diff := cmp.Diff(want, wrap(text, 8)); diff != "" {
			t.Errorf("wrap(%q) (-want +got):\n%s", text, diff)
		}
	}
}

func TestClipAndThousands(t *testing.T) {
	if got := clip("ééééé", 4); got != "ééé…" {
		t.Errorf("clip: %q", got)
	}
	if got := clip("éééé", 4); got != "éééé" {
		t.Errorf("clip: %q", got)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d): %s, want %s", n, got, want)
		}
	}
}

func TestRedactAndQuote(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://app:secret@db/x?a=b": "postgres://app:xxxxx@db/x?a=b",
		"postgres://app@db/x":            "postgres://app@db/x",
		"sqlite:./my.db":                 "sqlite:./my.db",
		"sqlite:%zz":                     "sqlite:%zz",
	} {
		if got := redact(dsn); got != want {
			t.Errorf("redact(%q): %q, want %q", dsn, got, want)
		}
	}
	for word, want := range map[string]string{
		"sqlite:./my.db": "sqlite:./my.db",
		"sqlite:a b":     "'sqlite:a b'",
		"it's":           `'it'\''s'`,
		"":               "''",
		"~x":             "'~x'",
	} {
		if got := shellWord(word); got != want {
			t.Errorf("shellWord(%q): %s, want %s", word, got, want)
		}
	}
}
