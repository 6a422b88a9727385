package main

import (
	"slices"
	"strings"
)

// near returns up to three of names that someone who typed word may have meant,
// the nearest first.
func near(word string, names []string) []string {
	type hit struct {
		name string
		dist int
	}
	var hits []hit
	lower := strings.ToLower(word)
	for _, name := range names {
		n := strings.ToLower(name)
		d := distance(lower, n)
		switch {
		case len(lower) >= 2 && strings.Contains(n, lower):
			d = min(d, 1)
		case d > max(1, len(n)/3):
			continue
		}
		hits = append(hits, hit{name, d})
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return a.dist - b.dist })
	var out []string
	for _, h := range hits[:min(3, len(hits))] {
		out = append(out, h.name)
	}
	return out
}

// didYouMean is the sentence for near, or nothing.
func didYouMean(word string, names []string) string {
	hits := near(word, names)
	if len(hits) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(hits, ", ") + "?"
}

// distance counts the single-byte edits and swaps of neighbours from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
