package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

var update = flag.Bool("update", false, "write testdata anew")

func failing() *conformance.Report {
	law := "A mutation with a token below the highest is refused, always."
	many := make([]conformance.Failure, 7)
	for i := range many {
		many[i] = conformance.Failure{Got: "ACCEPTED", Want: "STALE_OWNER", Law: law, Where: "fence.go:42"}
	}
	many[0].Replay = "adaptercheck replay --seed 7 --schedule 17 sqlite"
	many[1].Got = "a receipt with \x1b[2Jescape codes and a text that is so long that it needs a second line to fit"
	return &conformance.Report{SuiteVersion: conformance.SuiteVersion, Target: "sqlite", Profile: conformance.Quick,
		Seed: 7, Duration: 2345 * time.Millisecond, Complete: true,
		Results: []conformance.Result{
			{ID: "fence/stale-token-refused", Law: sdk.F1, Status: conformance.Failed, Failures: many},
			{ID: "fence/exact-tokens", Law: sdk.F11, Status: conformance.Passed},
			{ID: "durable/kill", Law: sdk.F9, Status: conformance.NotProven, Reason: "the harness cannot start a writer process and kill it, so nothing shows what survives"},
		},
		Figures: conformance.Figures{Schedules: 1000, Steps: 41234, StaleAccepted: 3},
		Verdict: "falls short: sqlite breaks F1, and F9 is not proven.",
	}
}

func TestReportOnScreen(t *testing.T) {
	var b bytes.Buffer
	c := &cli{out: newScreen(&b)}
	c.printReport(failing())
	golden(t, "testdata/failing.golden", b.String())
}

// Colour adds nothing but colour.
func TestReportInColour(t *testing.T) {
	var plain, coloured bytes.Buffer
	(&cli{out: newScreen(&plain)}).printReport(failing())
	s := newScreen(&coloured)
	s.color = true
	(&cli{out: s}).printReport(failing())
	stripped := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured.String(), "")
	if stripped == coloured.String() {
		t.Error("no colour was used")
	}
	if diff := cmp.Diff(plain.String(), stripped); diff != "" {
		t.Errorf("without its colour the output differs (-plain +stripped):\n%s", diff)
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s; if that is meant run 'go test ./cmd/adaptercheck -update' (-want +got):\n%s", path, diff)
	}
}
