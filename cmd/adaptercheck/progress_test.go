package main

import (
	"bytes"
	"strings"
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

// On a terminal only failures stay, and the last line is cleared.
func TestProgressOnATerminal(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&screen{w: &b, fd: -1, live: true}, 3)
	p.shown = p.shown.Add(-liveEvery)
	p.event(conformance.Event{Case: "schedules/" + strings.Repeat("x", 100), Done: 1, Total: 1000})
	p.event(conformance.Event{Case: "fence/x", Result: &conformance.Result{ID: "fence/x", Status: conformance.Passed}})
	p.event(conformance.Event{Case: "fence/y", Result: &conformance.Result{ID: "fence/y", Status: conformance.Failed}})
	p.end()
	const again = "\r\x1b[K"
	want := again + "1/3 schedules/" + strings.Repeat("x", 64) + "…" + again + "failed  fence/y\n" + again
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAbilities(t *testing.T) {
	for _, tc := range []struct {
		env         map[string]string
		color, live bool
	}{
		{map[string]string{"TERM": "xterm"}, true, true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true, true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false, true},
		{map[string]string{"TERM": "dumb"}, false, false},
		{nil, true, true},
	} {
		if color, live := abilities(func(k string) string { return tc.env[k] }); color != tc.color || live != tc.live {
			t.Errorf("%v: colour %t, live %t, want %t, %t", tc.env, color, live, tc.color, tc.live)
		}
	}
	var b bytes.Buffer
	if s := newScreen(&b); s.color || s.live {
		t.Error("a buffer is no terminal")
	}
}
