package report

import (
	"fmt"
	"strings"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

// What became of a target.
const (
	StatusCertified  = "certified"
	StatusFallsShort = "falls_short" // a law is broken, or what is declared is not proven
	StatusTestsOnly  = "tests_only"  // no law is broken, but what is accepted need not last
	StatusPartial    = "partial"     // a selection of cases, none of which failed
	StatusIncomplete = "incomplete"  // interrupted, or could not be opened
)

// Status is one word for r.
func Status(r *conformance.Report) string {
	switch {
	case r.Certified:
		return StatusCertified
	case count(r, conformance.Failed) > 0:
		return StatusFallsShort
	case !r.Complete:
		return StatusIncomplete
	case r.Partial:
		return StatusPartial
	case r.Description.Supports(sdk.CapDurable) != sdk.Supported:
		return StatusTestsOnly
	}
	return StatusFallsShort
}

// Good reports whether r is all that was asked for: a certificate, or a
// selection of which every case passed. What is not proven is not passed.
func Good(r *conformance.Report) bool {
	return r.Certified || Status(r) == StatusPartial && count(r, conformance.Passed) == len(r.Results)
}

func count(r *conformance.Report, s conformance.Status) (n int) {
	for i := range r.Results {
		if r.Results[i].Status == s {
			n++
		}
	}
	return n
}

// Words is Status for a person.
func Words(r *conformance.Report) string {
	if Status(r) == StatusTestsOnly {
		return "for tests only"
	}
	return strings.ReplaceAll(Status(r), "_", " ")
}

// lawView is a law with what the suite found and the cases that looked.
type lawView struct {
	Text  sdk.LawText
	Line  conformance.LawLine
	Cases []*conformance.Result
}

// Mark is "failed", "open" or "passed".
func (l lawView) Mark() string {
	switch {
	case l.Line.Failed > 0:
		return "failed"
	case l.Line.NotProven > 0:
		return "open"
	}
	return "passed"
}

func lawViews(r *conformance.Report) []lawView {
	var out []lawView
	for _, line := range r.Laws() {
		v := lawView{Text: lawText(line.Law), Line: line}
		for i := range r.Results {
			if r.Results[i].Law == line.Law {
				v.Cases = append(v.Cases, &r.Results[i])
			}
		}
		out = append(out, v)
	}
	return out
}

func failed(r *conformance.Report) []*conformance.Result {
	var out []*conformance.Result
	for i := range r.Results {
		if r.Results[i].Status == conformance.Failed {
			out = append(out, &r.Results[i])
		}
	}
	return out
}

// figure is one number with its name.
type figure struct {
	Name, Value string
	Bad         bool // it must be 0 and is not
}

func figures(r *conformance.Report) []figure {
	f := r.Figures
	return []figure{
		{"schedules run", thousands(f.Schedules), false},
		{"steps", thousands(f.Steps), false},
		{"stale writes accepted", thousands(f.StaleAccepted), f.StaleAccepted > 0},
		{"accepted writes lost", thousands(f.LostAccepted), f.LostAccepted > 0},
		{"receipts unlike the model's", thousands(f.ReceiptMismatches), f.ReceiptMismatches > 0},
	}
}

// facts are the lines that say what was run on what.
func facts(r *conformance.Report) []figure {
	d := &r.Description
	var out []figure
	add := func(name, value string) { out = append(out, figure{Name: name, Value: value}) }
	add("target", r.Target)
	if d.Name != "" {
		add("adapter", strings.TrimSpace(d.Name+" "+d.Version))
		add("backend", fmt.Sprintf("%s (%s)", d.Backend, d.Environment))
	}
	add("suite", conformance.SuiteVersion)
	add("profile", string(r.Profile))
	add("seed", fmt.Sprint(r.Seed))
	add("started", r.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	add("took", seconds(r.Duration)+" s")
	return out
}

func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
