package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

func (e *engine) newReport() *Report {
	return &Report{SuiteVersion: SuiteVersion, Target: e.h.Name, Description: e.desc, Profile: e.opts.Profile,
		Seed: e.opts.Seed, Started: time.Now().UTC(), Partial: e.opts.Match != nil}
}

func (r *Report) add(res Result, f Figures) {
	r.Results = append(r.Results, res)
	r.Figures.Schedules += f.Schedules
	r.Figures.Steps += f.Steps
	r.Figures.StaleAccepted += f.StaleAccepted
	r.Figures.LostAccepted += f.LostAccepted
	r.Figures.ReceiptMismatches += f.ReceiptMismatches
}

// Laws sums the results up by law, in the order of the laws.
func (r *Report) Laws() []LawLine {
	by := map[sdk.Law]*LawLine{}
	for i := range r.Results {
		res := &r.Results[i]
		l := by[res.Law]
		if l == nil {
			l = &LawLine{Law: res.Law}
			by[res.Law] = l
		}
		l.Cases++
		switch res.Status {
		case Passed:
			l.Passed++
		case Failed:
			l.Failed++
		default:
			l.NotProven++
			if !slices.Contains(l.Reasons, res.Reason) {
				l.Reasons = append(l.Reasons, res.Reason)
			}
		}
	}
	var out []LawLine
	for _, t := range sdk.Laws() {
		if l := by[t.ID]; l != nil {
			out = append(out, *l)
		}
	}
	return out
}

// finish draws the conclusions; cases is how many were asked for.
func (r *Report) finish(cases int) {
	r.Duration = time.Since(r.Started)
	r.Complete = len(r.Results) == cases
	name := r.Description.Name
	if name == "" {
		name = r.Target
	}
	var broken, open []string
	for _, l := range r.Laws() {
		if l.Failed > 0 {
			broken = append(broken, lawName(l.Law))
		}
		if l.NotProven > 0 {
			open = append(open, fmt.Sprintf("%s (%s)", lawName(l.Law), strings.Join(l.Reasons, "; ")))
		}
	}
	unproven := r.unprovenCapabilities()
	durable := r.Description.Supports(sdk.CapDurable) == sdk.Supported
	switch {
	case len(broken) > 0:
		r.Verdict = fmt.Sprintf("falls short: %s breaks %s", name, enumerate(broken))
		if len(open) > 0 {
			r.Verdict += "; not proven: " + strings.Join(open, ", ")
		}
	case !r.Complete:
		r.Verdict = fmt.Sprintf("not certified: interrupted after %d of %d cases, of which none failed", len(r.Results), cases)
	case r.Partial:
		r.Verdict = fmt.Sprintf("partial: %s was put to %d selected cases and none failed; a certificate takes the whole suite", name, cases)
	case !durable:
		d := r.Description.Capabilities[sdk.CapDurable]
		r.Verdict = fmt.Sprintf("for tests only: %s keeps every law that it was put to, but durability is %s: %s", name, d.Support, d.Reason)
	case len(unproven) > 0:
		r.Verdict = fmt.Sprintf("falls short: %s broke no law, but what it declares is not proven: %s", name, strings.Join(unproven, "; "))
	default:
		r.Certified = true
		r.Verdict = fmt.Sprintf("certified: %s keeps every law (%d cases, %d schedules, seed %d)", name, cases, r.Figures.Schedules, r.Seed)
		if len(open) > 0 {
			r.Verdict += "; not proven: " + strings.Join(open, ", ")
		}
	}
	r.Verdict += "."
}

// unprovenCapabilities are the cases that stayed open although the store
// declares what they need: the harness lacks a hook.
func (r *Report) unprovenCapabilities() []string {
	needs := map[string][]sdk.Capability{}
	for _, cs := range allCases() {
		needs[cs.ID] = cs.Needs
	}
	var out []string
	for i := range r.Results {
		res := &r.Results[i]
		if res.Status != NotProven {
			continue
		}
		declared := len(needs[res.ID]) > 0
		for _, n := range needs[res.ID] {
			declared = declared && r.Description.Supports(n) == sdk.Supported
		}
		if declared {
			out = append(out, fmt.Sprintf("%s (%s)", res.ID, res.Reason))
		}
	}
	return out
}

func lawName(l sdk.Law) string { return strings.TrimSpace(string(l) + " " + l.Text().Name) }

func enumerate(s []string) string {
	if len(s) < 2 {
		return strings.Join(s, "")
	}
	return strings.Join(s[:len(s)-1], ", ") + " and " + s[len(s)-1]
}
