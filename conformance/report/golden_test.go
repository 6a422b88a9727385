package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/conformance/report"
	"github.com/fencedstore/fencedstore/sdk"
)

var update = flag.Bool("update", false, "write testdata anew")

// nasty is what a broken store may put into a failure.
const nasty = "<script>alert(1)</script> | `x` & \"q\" *b*\x00\x1b[31m\n]]> é"

func samples() []*conformance.Report {
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := sdk.Description{Name: "sqlite", Version: "1.0.0", Backend: "SQLite 3.50.4", Environment: sdk.Embedded,
		Kinds: sdk.PortableKinds(), Limits: sdk.Limits{Effects: 100, ValueBytes: 1 << 20, TotalBytes: 16 << 20},
		Capabilities: map[sdk.Capability]sdk.Declared{
			sdk.CapDurable: {Support: sdk.Supported},
			sdk.CapDial:    {Support: sdk.NotSupported, Reason: "a file needs no connection"},
		}}
	good := &conformance.Report{SuiteVersion: conformance.SuiteVersion, Target: "sqlite", Description: d,
		Profile: conformance.Standard, Seed: 1<<63 + 1, Started: started, Duration: 61234 * time.Millisecond,
		Results: []conformance.Result{
			{ID: "fence/stale-token-refused", Law: sdk.F1, Status: conformance.Passed, Duration: 12 * time.Millisecond},
			{ID: "durable/kill", Law: sdk.F9, Status: conformance.Passed, Duration: 1500 * time.Millisecond, Figures: map[string]int64{"kills": 20}},
		},
		Figures:  conformance.Figures{Schedules: 10000, Steps: 1234567},
		Complete: true, Certified: true, Verdict: "certified: sqlite keeps every law."}
	bad := &conformance.Report{SuiteVersion: conformance.SuiteVersion, Target: "sqlite:./<odd>|name.db", Description: d,
		Profile: conformance.Quick, Seed: 7, Started: started, Duration: 2 * time.Second,
		Results: []conformance.Result{
			{ID: "fence/stale-token-refused", Law: sdk.F1, Status: conformance.Failed, Duration: 3 * time.Millisecond,
				Failures: []conformance.Failure{
					{Got: "ACCEPTED", Want: "STALE_OWNER", Law: "F1 stale: a token below the highest is refused.", Where: "fence.go:42", Replay: "adaptercheck replay --seed 7 --schedule 17 sqlite"},
					{Got: nasty, Want: "the receipt", Law: "F1 stale: a token below the highest is refused.", Where: "fence.go:57"},
				}},
			{ID: "fence/replay", Law: sdk.F4, Status: conformance.Passed},
			{ID: "durable/kill", Law: sdk.F9, Status: conformance.NotProven, Reason: "the harness cannot kill a writer"},
		},
		Figures: conformance.Figures{Schedules: 1000, Steps: 40000, StaleAccepted: 3},
		Verdict: "not certified: 1 case failed, 1 is not proven.", Complete: true}
	broken := &conformance.Report{SuiteVersion: conformance.SuiteVersion, Target: "sqlite:dir", Profile: conformance.Quick,
		Seed: 7, Started: started, Verdict: "not certified: the store cannot be opened: it is a directory"}
	return []*conformance.Report{good, bad, broken}
}

func TestGolden(t *testing.T) {
	for _, f := range report.Formats() {
		t.Run(f.Name, func(t *testing.T) {
			var got bytes.Buffer
			if err := f.Write(&got, samples()...); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "golden"+f.Ext)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("differs from %s; if that is meant run 'go test ./conformance/report -update' (-want +got):\n%s", path, diff)
			}
		})
	}
}
