package conformance_test

import (
	"context"
	"errors"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

func only(expr string) *conformance.Options {
	return &conformance.Options{Profile: conformance.Quick, Seed: 42, Schedules: 20, Match: regexp.MustCompile(expr)}
}

// bent is memstore with one method replaced.
type bent struct {
	sdk.FencedStore
	apply func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error)
}

func (b bent) Apply(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
	return b.apply(ctx, a)
}

func bentHarness(apply func(sdk.FencedStore) func(context.Context, sdk.Admission) (sdk.Outcome, error)) conformance.Harness {
	h := memHarness()
	open := h.Open
	h.Open = func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error) {
		s, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		return bent{s, apply(s)}, nil
	}
	return h
}

func failedCases(r *conformance.Report) (out []string) {
	for i := range r.Results {
		if r.Results[i].Status == conformance.Failed {
			out = append(out, r.Results[i].ID)
		}
	}
	return out
}

func TestCasesAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	laws := map[sdk.Law]bool{}
	for _, cs := range conformance.Cases() {
		if !regexp.MustCompile(`^[a-z]+/[a-z0-9-]+$`).MatchString(cs.ID) || seen[cs.ID] {
			t.Errorf("ID %q", cs.ID)
		}
		seen[cs.ID], laws[cs.Law] = true, true
		if cs.Law.Text().Sentence == "" || cs.Run == nil || !strings.HasSuffix(cs.Explain, ".") {
			t.Errorf("%s: law %q, explained %q", cs.ID, cs.Law, cs.Explain)
		}
		for _, n := range cs.Needs {
			if !slices.Contains(sdk.Capabilities(), n) {
				t.Errorf("%s needs the unknown capability %q", cs.ID, n)
			}
		}
	}
	for _, l := range sdk.Laws() {
		if g := l.ID[0]; (g == 'F' || g == 'O') && !laws[l.ID] {
			t.Errorf("%s has no case", l.ID)
		}
	}
}

func TestMemstoreIsForTestsOnly(t *testing.T) {
	r, err := conformance.Check(t.Context(), memHarness(), &conformance.Options{Profile: conformance.Quick, Schedules: 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(failedCases(r)) > 0 || !r.Complete || r.Certified || !strings.Contains(r.Verdict, "for tests only") {
		t.Errorf("failed %v, complete %v, certified %v: %s", failedCases(r), r.Complete, r.Certified, r.Verdict)
	}
	if r.Seed == 0 || r.Figures.Schedules != 20 || r.Figures.Steps < 12*20 {
		t.Errorf("seed %d, figures %+v", r.Seed, r.Figures)
	}
}

// A store that panics fails its cases and not the suite.
func TestPanickingStore(t *testing.T) {
	h := bentHarness(func(s sdk.FencedStore) func(context.Context, sdk.Admission) (sdk.Outcome, error) {
		return func(context.Context, sdk.Admission) (sdk.Outcome, error) { panic("out of cheese") }
	})
	r, err := conformance.Check(t.Context(), h, only("^(fence/stale-token-refused|races/first-write|schedules/workers|vectors/stale)$"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(failedCases(r)); n != 4 {
		t.Fatalf("%d of 4 cases failed", n)
	}
	if f := r.Results[0].Failures[0]; !strings.Contains(f.Got, "out of cheese") || !strings.Contains(f.Got, "engine_test.go:") {
		t.Errorf("got %q", f.Got)
	}
}

// A store that never answers fails its case, and the suite goes on.
func TestHangingStore(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	h := bentHarness(func(s sdk.FencedStore) func(context.Context, sdk.Admission) (sdk.Outcome, error) {
		return func(ctx context.Context, a sdk.Admission) (sdk.Outcome, error) {
			<-release
			return s.Apply(ctx, a)
		}
	})
	o := only("^(fence/stale-token-refused|races/first-write|contract/describe)$")
	o.Stall = 200 * time.Millisecond
	r, err := conformance.Check(t.Context(), h, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := failedCases(r); !r.Complete || !slices.Equal(got, []string{"fence/stale-token-refused", "races/first-write"}) {
		t.Errorf("complete %v, failed %v", r.Complete, got)
	}
}

// A store that answers nonsense is told so.
func TestNonsense(t *testing.T) {
	for name, answer := range map[string]func() (sdk.Outcome, error){
		"nothing":           func() (sdk.Outcome, error) { return sdk.Outcome{}, nil },
		"accepted, nothing": func() (sdk.Outcome, error) { return sdk.Outcome{Code: sdk.Accepted}, nil },
		"plain error":       func() (sdk.Outcome, error) { return sdk.Outcome{}, errors.New("it did not work") },
		"unknown code":      func() (sdk.Outcome, error) { return sdk.Outcome{Code: 99}, &sdk.Error{Code: 99} },
		"a read's code":     func() (sdk.Outcome, error) { return sdk.Refusal(sdk.ErrNotFound), &sdk.Error{Code: sdk.NotFound} },
		"somebody's receipt": func() (sdk.Outcome, error) {
			return sdk.Outcome{Code: sdk.Accepted, Receipt: &sdk.Receipt{Operation: "other"}}, nil
		},
	} {
		h := bentHarness(func(sdk.FencedStore) func(context.Context, sdk.Admission) (sdk.Outcome, error) {
			return func(context.Context, sdk.Admission) (sdk.Outcome, error) { return answer() }
		})
		r, err := conformance.Check(t.Context(), h, only("^(fence/stale-token-refused|once/next-segment)$"))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(failedCases(r)); n != 2 {
			t.Errorf("%s: %d of 2 cases failed", name, n)
		}
	}
}

func TestBadHarnessAndOptions(t *testing.T) {
	if _, err := conformance.Check(t.Context(), conformance.Harness{}, nil); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("no Open: %v", err)
	}
	for _, o := range []conformance.Options{{Profile: "huge"}, {Schedules: -1}} {
		if _, err := conformance.Check(t.Context(), memHarness(), &o); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	refuse := conformance.Harness{Open: func(context.Context, sdk.OpenOptions) (sdk.FencedStore, error) {
		return nil, sdk.Errorf(sdk.Unsuitable, "file", "not ours")
	}}
	if _, err := conformance.Check(t.Context(), refuse, nil); !errors.Is(err, sdk.ErrUnsuitable) {
		t.Errorf("a store that does not open: %v", err)
	}
}

// An interrupted run says so and is no verdict.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := &conformance.Options{Profile: conformance.Quick, Schedules: 20, Progress: func(e conformance.Event) {
		if e.Case == "races/first-write" {
			cancel()
		}
	}}
	r, err := conformance.Check(ctx, memHarness(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Complete || r.Certified || len(failedCases(r)) > 0 || !strings.Contains(r.Verdict, "interrupted") {
		t.Errorf("complete %v, failed %v: %s", r.Complete, failedCases(r), r.Verdict)
	}
}

// Nothing of a run stays behind.
func TestLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	if _, err := conformance.Check(t.Context(), memHarness(), &conformance.Options{Profile: conformance.Quick, Schedules: 50}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}
