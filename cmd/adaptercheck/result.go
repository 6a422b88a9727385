package main

import (
	"fmt"
	"strings"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/conformance/report"
	"github.com/fencedstore/fencedstore/sdk"
)

// printReport is what stays on the screen: the laws, the failures, the figures,
// the verdict.
func (c *cli) printReport(r *conformance.Report) {
	c.printLaws(r)
	for i := range r.Results {
		if r.Results[i].Status == conformance.Failed {
			c.printFailures(&r.Results[i])
		}
	}
	c.printFigures(r)
	c.printVerdict(r)
}

func (c *cli) printLaws(r *conformance.Report) {
	o := c.out
	lines := r.Laws()
	if len(lines) == 0 {
		return
	}
	width := len("law")
	for _, l := range lines {
		width = max(width, len(lawName(l.Law)))
	}
	o.printf("\n%s\n", o.dim(fmt.Sprintf("%s  %5s  %6s  %6s  %s", pad("law", width), "cases", "passed", "failed", "not proven")))
	for _, l := range lines {
		name := pad(lawName(l.Law), width)
		failed, open := fmt.Sprintf("%6s", "-"), "-"
		switch {
		case l.Failed > 0:
			name = o.red(name)
		case l.NotProven > 0:
			name = o.yellow(name)
		}
		if l.Failed > 0 {
			failed = o.red(fmt.Sprintf("%6d", l.Failed))
		} else {
			failed = o.dim(failed)
		}
		head := fmt.Sprintf("%s  %5d  %6d  %s  ", name, l.Cases, l.Passed, failed)
		if l.NotProven == 0 {
			o.printf("%s%s\n", head, o.dim(open))
			continue
		}
		indent := width + 2 + 5 + 2 + 6 + 2 + 6 + 2
		count := fmt.Sprintf("%d: ", l.NotProven)
		text := wrap(strings.Join(l.Reasons, "; "), o.width()-indent-len(count))
		for i, t := range text {
			if i == 0 {
				o.printf("%s%s\n", head, o.yellow(count+t))
				continue
			}
			o.printf("%s%s\n", strings.Repeat(" ", indent+len(count)), o.yellow(t))
		}
	}
}

func (c *cli) printFailures(res *conformance.Result) {
	o := c.out
	o.printf("\n%s %s %s\n", o.red("failed"), o.bold(res.ID), o.dim("("+lawName(res.Law)+")"))
	if res.Reason != "" {
		o.wrapped("  ", res.Reason)
	}
	const most = 5
	for i, f := range res.Failures {
		if i == most {
			o.printf("\n  %s\n", o.dim(fmt.Sprintf("and %d more; --report FILE has them all", len(res.Failures)-most)))
			break
		}
		if i > 0 {
			o.printf("\n")
		}
		o.wrapped("  got     ", f.Got)
		o.wrapped("  want    ", f.Want)
		if i == 0 || f.Law != res.Failures[i-1].Law {
			o.wrapped("  law     ", f.Law)
		}
		o.printf("  at      %s\n", f.Where)
		if f.Replay != "" {
			o.printf("  replay  %s\n", f.Replay)
		}
	}
	o.printf("  %s\n", o.dim("more:   adaptercheck explain "+shellWord(res.ID)))
}

func (c *cli) printFigures(r *conformance.Report) {
	o, f := c.out, r.Figures
	if len(r.Results) == 0 {
		return
	}
	o.printf("\n")
	row := func(name string, n int64, zero bool) {
		value := thousands(n)
		if zero && n > 0 {
			value = o.red(value)
		}
		o.printf("%s  %s\n", pad(name, 27), value)
	}
	row("schedules run", f.Schedules, false)
	row("steps", f.Steps, false)
	row("stale writes accepted", f.StaleAccepted, true)
	row("accepted writes lost", f.LostAccepted, true)
	row("receipts unlike the model's", f.ReceiptMismatches, true)
	o.printf("%s  %.1f s\n", pad("took", 27), r.Duration.Seconds())
}

func (c *cli) printVerdict(r *conformance.Report) {
	o := c.out
	o.printf("\n")
	for _, l := range wrap(r.Verdict, o.width()) {
		o.printf("%s\n", c.paintStatus(r, l))
	}
}

func (c *cli) paintStatus(r *conformance.Report, text string) string {
	switch report.Status(r) {
	case report.StatusCertified:
		return c.out.green(text)
	case report.StatusFallsShort:
		return c.out.red(text)
	}
	return c.out.yellow(text)
}

// statusWord is the target's line in the summary of several.
func (c *cli) statusWord(r *conformance.Report) string {
	return c.paintStatus(r, pad(report.Words(r), len("for tests only")))
}

// lawName is a law's ID with its name.
func lawName(id sdk.Law) string {
	for _, l := range sdk.Laws() {
		if l.ID == id {
			return string(id) + " " + l.Name
		}
	}
	return string(id)
}
