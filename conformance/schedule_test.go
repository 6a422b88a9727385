package conformance_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/conformance/internal/mutant"
	"github.com/fencedstore/fencedstore/sdk"
)

// One seed and number are one schedule, on every store and at every time.
func TestReplayIsExact(t *testing.T) {
	for _, number := range []int{0, 17, 96} { // 96 really opens new handles
		var first, second, wire bytes.Buffer
		for b, h := range map[*bytes.Buffer]conformance.Harness{&first: memHarness(), &second: memHarness(), &wire: wireHarness(t, wireHonest)} {
			if err := conformance.Replay(t.Context(), h, 42, number, b); err != nil {
				t.Errorf("schedule %d: %v", number, err)
			}
		}
		if first.String() != second.String() || first.String() != wire.String() {
			t.Errorf("schedule %d differs:\n%s\n%s\n%s", number, &first, &second, &wire)
		}
		if n := strings.Count(first.String(), "\n"); n < 12 {
			t.Errorf("schedule %d has %d lines", number, n)
		}
	}
}

// What certify finds replay finds again, at the same step.
func TestReplayFindsWhatCheckFound(t *testing.T) {
	for _, m := range mutant.All() {
		if m.Name != "stale-accepted" {
			continue
		}
		number := -1
		o := only("^schedules/workers$")
		o.ReplayCommand = func(seed uint64, schedule int) string {
			if number < 0 {
				number = schedule
			}
			return "replay"
		}
		r, err := conformance.Check(t.Context(), mutantHarness(m.Name, m.New()), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Figures.StaleAccepted == 0 || number < 0 {
			t.Fatalf("stale writes accepted %d, schedule %d", r.Figures.StaleAccepted, number)
		}
		if f := r.Results[0].Failures[0]; f.Replay != "replay" || !strings.Contains(f.Got, "of seed 42") {
			t.Errorf("%+v", f)
		}
		var b bytes.Buffer
		if err := conformance.Replay(t.Context(), mutantHarness(m.Name, m.New()), 42, number, &b); err == nil {
			t.Errorf("schedule %d passes when played again:\n%s", number, &b)
		}
		if !strings.Contains(b.String(), "(want STALE_OWNER)") && !strings.Contains(b.String(), "otherwise than the laws") {
			t.Errorf("it does not say where:\n%s", &b)
		}
		return
	}
	t.Fatal("there is no mutant stale-accepted")
}

// Schedules meet every verdict; a distribution that forgot one would prove
// nothing about it.
func TestSchedulesMeetEveryVerdict(t *testing.T) {
	seen := map[sdk.Code]int{}
	h := bentHarness(func(s sdk.FencedStore) func(context.Context, sdk.Admission) (sdk.Outcome, error) { return s.Apply })
	var log bytes.Buffer
	for number := range 120 {
		if err := conformance.Replay(t.Context(), h, 42, number, &log); err != nil {
			t.Fatal(err)
		}
	}
	for _, code := range []sdk.Code{sdk.Accepted, sdk.Replayed, sdk.StaleOwner, sdk.SegmentSkipped, sdk.RootMismatch, sdk.Quarantined, sdk.AlreadyApplied, sdk.FenceRegression} {
		if seen[code] = strings.Count(log.String(), "→ "+code.String()); seen[code] < 10 {
			t.Errorf("%s %d times in 120 schedules, want 10 at least", code, seen[code])
		}
	}
	for _, what := range []string{"arrives late", "stands still", "retries", "is duplicated", "redoes", "answer lost", "hands over", "settles", "restarts", "looks"} {
		if n := strings.Count(log.String(), what); n < 10 {
			t.Errorf("%q %d times in 120 schedules, want 10 at least", what, n)
		}
	}
	t.Logf("%v", seen)
}

func TestReplayRefuses(t *testing.T) {
	if err := conformance.Replay(t.Context(), memHarness(), 42, -1, &bytes.Buffer{}); sdk.CodeOf(err) != sdk.Invalid {
		t.Errorf("a negative schedule: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := conformance.Replay(ctx, memHarness(), 42, 1, &bytes.Buffer{}); err == nil {
		t.Error("a context that was over: no error")
	}
}
