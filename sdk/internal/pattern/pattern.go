// Package pattern matches resource IDs: segments split by '/', where "*" stands
// for exactly one segment and "**", last only, for one or more.
package pattern

import (
	"strings"

	"github.com/fencedstore/fencedstore/sdk"
)

// Pattern is a set of resource IDs.
type Pattern struct {
	text     string
	segments []string // without the last "**"
	open     bool     // ends in "**"
}

// Parse reads a pattern: a canonical resource ID in which whole segments may be
// "*" and the last one "**". INVALID otherwise.
func Parse(text string) (Pattern, error) {
	if err := sdk.ResourceID(text).Validate(); err != nil {
		return Pattern{}, sdk.Errorf(sdk.Invalid, "pattern", "%q: %w", text, err)
	}
	p := Pattern{text: text, segments: strings.Split(text, "/")}
	if last := len(p.segments) - 1; p.segments[last] == "**" {
		p.segments, p.open = p.segments[:last], true
	}
	for _, s := range p.segments {
		if s != "*" && strings.Contains(s, "*") {
			return Pattern{}, sdk.Errorf(sdk.Invalid, "pattern", "%q: \"*\" stands for a whole segment, and \"**\" for the rest at the end", text)
		}
	}
	return p, nil
}

// String returns the text that was parsed.
func (p Pattern) String() string { return p.text }

// Match reports whether r, which is canonical, is in the set.
func (p Pattern) Match(r sdk.ResourceID) bool {
	rest, more := string(r), true
	for _, want := range p.segments {
		if !more {
			return false
		}
		var s string
		s, rest, more = strings.Cut(rest, "/")
		if want != "*" && want != s {
			return false
		}
	}
	return more == p.open
}

// Intersects reports whether some resource ID is in both sets.
func (p Pattern) Intersects(q Pattern) bool {
	n := min(len(p.segments), len(q.segments))
	for i := range n {
		if a, b := p.segments[i], q.segments[i]; a != "*" && b != "*" && a != b {
			return false
		}
	}
	switch {
	case p.open && q.open:
		return true
	case p.open:
		return len(q.segments) > len(p.segments)
	case q.open:
		return len(p.segments) > len(q.segments)
	}
	return len(p.segments) == len(q.segments)
}

// Covers reports whether every resource ID of q is in p.
func (p Pattern) Covers(q Pattern) bool {
	if len(q.segments) < len(p.segments) {
		return false
	}
	for i, want := range p.segments {
		if want != "*" && want != q.segments[i] {
			return false
		}
	}
	if p.open {
		return q.open || len(q.segments) > len(p.segments)
	}
	return !q.open && len(q.segments) == len(p.segments)
}
