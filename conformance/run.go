package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// Run plays the suite inside a test, each case as a sub-test under its ID. A
// case that is not proven is skipped with its reason. Without options it runs
// Quick.
func Run(t *testing.T, h Harness, opts ...*Options) {
	t.Helper()
	o := Options{Profile: Quick}
	for _, given := range opts {
		if given != nil {
			o = *given
		}
	}
	if o.ReplayCommand == nil {
		o.ReplayCommand = func(seed uint64, schedule int) string {
			return fmt.Sprintf("conformance.Replay(ctx, harness, %d, %d, os.Stdout)", seed, schedule)
		}
	}
	e, err := newEngine(h, &o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.start(t.Context()); err != nil {
		t.Fatalf("open: %v", err)
	}
	defer e.closePool()
	t.Logf("seed %d", e.opts.Seed)
	cases := e.selected()
	for i := range cases {
		t.Run(cases[i].ID, func(t *testing.T) {
			res, _ := e.play(t.Context(), &cases[i])
			switch res.Status {
			case Failed:
				t.Error(describeFailures(&res))
			case NotProven:
				t.Skipf("not proven: %s", res.Reason)
			}
		})
	}
}

func describeFailures(r *Result) string {
	var b strings.Builder
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "\n%s\n   got: %s\n  want: %s\n   law: %s\n", f.Where, f.Got, f.Want, f.Law)
		if f.Replay != "" {
			fmt.Fprintf(&b, "replay: %s\n", f.Replay)
		}
	}
	b.WriteString(r.Reason)
	return b.String()
}
