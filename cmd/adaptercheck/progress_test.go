package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fencedstore/fencedstore/conformance"
)

// Where lines cannot be written over there is one for each finished case and
// none for its steps.
func TestProgressInALog(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(newScreen(&b), 12)
	for i := range 1000 {
		p.event(conformance.Event{Case: "schedules/mixed", Done: i, Total: 1000})
	}
	p.event(conformance.Event{Case: "schedules/mixed", Result: &conformance.Result{ID: "schedules/mixed", Status: conformance.Passed}})
	p.event(conformance.Event{Case: "durable/kill", Result: &conformance.Result{ID: "durable/kill", Status: conformance.NotProven}})
	p.event(conformance.Event{Case: "fence/x", Result: &conformance.Result{ID: "fence/x", Status: conformance.Failed}})
	p.end()
	want := " 1/12 passed      schedules/mixed\n 2/12 not proven  durable/kill\n 3/12 failed      fence/x\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
