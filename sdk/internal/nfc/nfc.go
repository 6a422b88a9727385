// Package nfc tells whether text is in Unicode Normalization Form C. Resource
// IDs must be: two spellings of one visible name must not become two fences.
// It is here because package sdk imports the standard library only.
//
// The tables are fixed when they are generated and do not come with the Go
// toolchain, so that two builds of one release agree on every ID.
package nfc

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

//go:generate go run gen.go

// answer is what the quick check of UAX #15 says of a rune.
type answer uint8

const (
	yes   answer = iota // stands in NFC
	maybe               // may join with what is before it
	no                  // never stands in NFC
)

// run is consecutive runes of one canonical combining class and quick check.
type run struct {
	lo, hi rune
	class  uint8
	quick  answer
}

// pair is two runes and the one that they join into.
type pair struct{ first, second, joined rune }

// firstRun is below every rune in runs: ASCII and Latin-1 need no look-up.
const firstRun = 0x300

// inline is how many decomposed runes are normalized without allocating.
const inline = 128

// IsNormal reports whether s is valid UTF-8 in Normalization Form C of
// UnicodeVersion. Form C is the standard's, without the limit on the number of
// marks that stream-safe implementations add. Code points that UnicodeVersion
// does not assign count as runes that stand in NFC.
//
// It allocates only for text that holds a rune which may join with what is
// before it, and only if that text is long, because IDs are checked on every
// call.
func IsNormal(s string) bool {
	i := 0
	for i < len(s) && s[i] < utf8.RuneSelf {
		i++
	}
	unsure, last := false, uint8(0)
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			return false
		}
		i += size
		if r < firstRun {
			last = 0
			continue
		}
		class, quick := lookup(r)
		if quick == no || class != 0 && class < last {
			return false
		}
		unsure = unsure || quick == maybe
		last = class
	}
	return !unsure || normalized(s)
}

// lookup returns r's canonical combining class and quick check.
func lookup(r rune) (uint8, answer) {
	i, j := 0, len(runs)
	for i < j {
		m := int(uint(i+j) / 2)
		switch x := &runs[m]; {
		case x.hi < r:
			i = m + 1
		case x.lo > r:
			j = m
		default:
			return x.class, x.quick
		}
	}
	return 0, yes
}

func class(r rune) uint8 {
	if r < firstRun {
		return 0
	}
	c, _ := lookup(r)
	return c
}

// normalized reports whether s stays itself when it is decomposed, ordered and
// composed (The Unicode Standard, section 3.11). No rune of s is one that never
// stands in NFC: the tables do not say how to decompose those.
func normalized(s string) bool {
	var buf [inline]rune
	d := buf[:0]
	for _, r := range s {
		d = decompose(d, r)
	}
	order(d)
	d = compose(d)
	for _, r := range s {
		if len(d) == 0 || d[0] != r {
			return false
		}
		d = d[1:]
	}
	return len(d) == 0
}

// Hangul syllables join and decompose by arithmetic (section 3.12). hangulT is
// the trailing consonant that stands for none.
const (
	hangulS, hangulL, hangulV, hangulT = 0xac00, 0x1100, 0x1161, 0x11a7
	countL, countV, countT             = 19, 21, 28
	countS                             = countL * countV * countT
)

// decompose appends to d what r fully decomposes to.
func decompose(d []rune, r rune) []rune {
	if r < utf8.RuneSelf {
		return append(d, r)
	}
	if i := r - hangulS; i >= 0 && i < countS {
		d = append(d, hangulL+i/(countV*countT), hangulV+i%(countV*countT)/countT)
		if t := i % countT; t != 0 {
			d = append(d, hangulT+t)
		}
		return d
	}
	i, ok := slices.BinarySearchFunc(byJoined[:], r, func(i uint16, r rune) int {
		return cmp.Compare(pairs[i].joined, r)
	})
	if !ok {
		return append(d, r)
	}
	p := pairs[byJoined[i]]
	return append(decompose(d, p.first), p.second)
}

// order sorts each sequence of marks by class, keeping equals as they are.
func order(d []rune) {
	for i := 0; i < len(d); {
		j := i
		for j < len(d) && class(d[j]) != 0 {
			j++
		}
		if j-i > 1 {
			slices.SortStableFunc(d[i:j], func(a, b rune) int { return cmp.Compare(class(a), class(b)) })
		}
		i = j + 1
	}
}

// compose joins, in place, each rune with the last starter unless something
// between the two blocks it.
func compose(d []rune) []rune {
	out := d[:0]
	starter, last := -1, uint8(0)
	for _, r := range d {
		c := class(r)
		if starter >= 0 && (starter == len(out)-1 || last < c) {
			if joined, ok := join(out[starter], r); ok {
				out[starter] = joined
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

// join returns the rune that a and b compose to.
func join(a, b rune) (rune, bool) {
	if b < firstRun {
		return 0, false
	}
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < countL && v >= 0 && v < countV {
		return hangulS + (l*countV+v)*countT, true
	}
	if s, t := a-hangulS, b-hangulT; s >= 0 && s < countS && s%countT == 0 && t > 0 && t < countT {
		return a + t, true
	}
	i, ok := slices.BinarySearchFunc(pairs[:], pair{first: a, second: b}, func(p, want pair) int {
		return cmp.Or(cmp.Compare(p.first, want.first), cmp.Compare(p.second, want.second))
	})
	if !ok {
		return 0, false
	}
	return pairs[i].joined, true
}
