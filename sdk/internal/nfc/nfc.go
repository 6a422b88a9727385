// Package nfc tells whether text is in Unicode Normalization Form C. Resource
// IDs must be: two spellings of one visible name must not become two fences.
// It is here because package sdk imports the standard library only.
package nfc

import (
	"slices"
	"unicode/utf8"
)

//go:generate go run gen.go

// span is a run of runes; class is one with its canonical combining class.
type span struct{ lo, hi rune }

type class struct {
	lo, hi rune
	ccc    uint8
}

// IsNormal reports whether s is valid UTF-8 in Normalization Form C of
// UnicodeVersion. It allocates only for text with runes that may not stand in
// NFC everywhere, such as combining marks.
func IsNormal(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r >= 0x300 && mustCheck(r) {
			return normalized(s)
		}
	}
	return true
}

// mustCheck reports whether r cannot simply stand in NFC: it is a combining
// mark, joins with what is before it, or has another spelling. No rune below
// U+0300 is one.
func mustCheck(r rune) bool {
	_, ok := slices.BinarySearchFunc(checked, r, func(s span, r rune) int {
		switch {
		case s.hi < r:
			return -1
		case s.lo > r:
			return 1
		}
		return 0
	})
	return ok
}

func ccc(r rune) uint8 {
	i, ok := slices.BinarySearchFunc(classes, r, func(c class, r rune) int {
		switch {
		case c.hi < r:
			return -1
		case c.lo > r:
			return 1
		}
		return 0
	})
	if !ok {
		return 0
	}
	return classes[i].ccc
}

// normalized decomposes s, orders its marks, composes it and compares
// (Unicode Standard, chapter 3.11).
func normalized(s string) bool {
	d := make([]rune, 0, 2*len(s))
	for _, r := range s {
		d = decompose(d, r)
	}
	order(d)
	return string(compose(d)) == s
}

// Hangul syllables compose and decompose by arithmetic (chapter 3.12).
const (
	hangulS, hangulL, hangulV, hangulT = 0xac00, 0x1100, 0x1161, 0x11a7
	countL, countV, countT             = 19, 21, 28
	countS                             = countL * countV * countT
)

func decompose(d []rune, r rune) []rune {
	if i := r - hangulS; i >= 0 && i < countS {
		d = append(d, hangulL+i/(countV*countT), hangulV+i%(countV*countT)/countT)
		if t := i % countT; t != 0 {
			d = append(d, hangulT+t)
		}
		return d
	}
	if to, ok := decomposed[r]; ok {
		return append(d, []rune(to)...)
	}
	return append(d, r)
}

// order sorts each run of marks by combining class, keeping equals as they are.
func order(d []rune) {
	for i := 0; i < len(d); {
		j := i
		for j < len(d) && ccc(d[j]) != 0 {
			j++
		}
		slices.SortStableFunc(d[i:j], func(a, b rune) int { return int(ccc(a)) - int(ccc(b)) })
		i = j + 1
	}
}

// compose joins in place each rune with the last starter that it is not blocked
// from.
func compose(d []rune) []rune {
	out := d[:0]
	starter, last := -1, uint8(0)
	for _, r := range d {
		c := ccc(r)
		if starter >= 0 && (starter == len(out)-1 || last != 0 && last < c) {
			if to, ok := join(out[starter], r); ok {
				out[starter] = to
				continue
			}
		}
		if c == 0 {
			starter = len(out)
		}
		last = c
		out = append(out, r)
	}
	return out
}

func join(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < countL && v >= 0 && v < countV {
		return hangulS + (l*countV+v)*countT, true
	}
	if s, t := a-hangulS, b-hangulT; s >= 0 && s < countS && s%countT == 0 && t > 0 && t < countT {
		return a + t, true
	}
	to, ok := composed[[2]rune{a, b}]
	return to, ok
}
