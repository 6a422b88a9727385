package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/conformance/report"
	"github.com/fencedstore/fencedstore/sdk"
)

func TestStatus(t *testing.T) {
	passed := []conformance.Result{{Status: conformance.Passed}}
	failed := append(passed, conformance.Result{Status: conformance.Failed})
	open := append(passed, conformance.Result{Status: conformance.NotProven})
	durable := sdk.Description{Capabilities: map[sdk.Capability]sdk.Declared{sdk.CapDurable: {Support: sdk.Supported}}}
	for name, tc := range map[string]struct {
		r    conformance.Report
		want string
		good bool
	}{
		"certified":                {conformance.Report{Certified: true, Complete: true, Description: durable, Results: open}, report.StatusCertified, true},
		"failed":                   {conformance.Report{Complete: true, Description: durable, Results: failed}, report.StatusFallsShort, false},
		"failed, not durable":      {conformance.Report{Complete: true, Results: failed}, report.StatusFallsShort, false},
		"not certified":            {conformance.Report{Complete: true, Description: durable, Results: open}, report.StatusFallsShort, false},
		"not durable":              {conformance.Report{Complete: true, Results: passed}, report.StatusTestsOnly, false},
		"selection passed":         {conformance.Report{Complete: true, Partial: true, Results: passed}, report.StatusPartial, true},
		"selection not proven":     {conformance.Report{Complete: true, Partial: true, Results: open}, report.StatusPartial, false},
		"selection failed":         {conformance.Report{Complete: true, Partial: true, Results: failed}, report.StatusFallsShort, false},
		"interrupted":              {conformance.Report{Results: passed}, report.StatusIncomplete, false},
		"interrupted selection":    {conformance.Report{Partial: true, Results: passed}, report.StatusIncomplete, false},
		"interrupted after defeat": {conformance.Report{Results: failed}, report.StatusFallsShort, false},
		"nothing":                  {conformance.Report{}, report.StatusIncomplete, false},
	} {
		if got := report.Status(&tc.r); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if got := report.Good(&tc.r); got != tc.good {
			t.Errorf("%s: good is %t, want %t", name, got, tc.good)
		}
	}
}

// Every JUnit viewer counts by the elements; the attributes must agree.
func TestJUnitCounts(t *testing.T) {
	var b bytes.Buffer
	if err := report.JUnit(&b, samples()...); err != nil {
		t.Fatal(err)
	}
	type testcase struct {
		Name    string    `xml:"name,attr"`
		Class   string    `xml:"classname,attr"`
		Failure *struct{} `xml:"failure"`
		Error   *struct{} `xml:"error"`
		Skipped *struct{} `xml:"skipped"`
	}
	var doc struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Cases []testcase `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var got [4]int
	for _, s := range doc.Suites {
		for _, c := range s.Cases {
			got[0]++
			if c.Failure != nil {
				got[1]++
			}
			if c.Error != nil {
				got[2]++
			}
			if c.Skipped != nil {
				got[3]++
			}
			if c.Class == "" || c.Name == "" {
				t.Errorf("a test case without class or name: %+v", c)
			}
		}
	}
	attrs := [4]int{doc.Tests, doc.Failures, doc.Errors, doc.Skipped}
	if got != attrs {
		t.Errorf("elements %v, attributes %v", got, attrs)
	}
	// 5 cases and 3 verdicts; a failed case and the verdict of its target; the
	// target that could not be opened; the case that is not proven.
	if want := [4]int{8, 2, 1, 1}; got != want {
		t.Errorf("tests, failures, errors, skipped: %v, want %v", got, want)
	}
}

func TestHTMLEscapes(t *testing.T) {
	var b bytes.Buffer
	if err := report.HTML(&b, samples()...); err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{"<script", "http://", "https://", "<odd>"} {
		if strings.Contains(b.String(), never) {
			t.Errorf("the page holds %q", never)
		}
	}
	for _, id := range []string{`id="F1"`, `id="t2-F1"`, `id="durable/kill"`, `id="t2-durable/kill"`} {
		if n := strings.Count(b.String(), id); n != 1 {
			t.Errorf("%s %d times, want once", id, n)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	var b bytes.Buffer
	if err := report.JSON(&b, samples()...); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&b)
	dec.DisallowUnknownFields()
	var doc report.Document
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.Reports[0].Seed != "9223372036854775809" {
		t.Errorf("seed %s lost its exactness", doc.Reports[0].Seed)
	}
	again, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(again, []byte("null")) {
		t.Errorf("a list is null: %s", again)
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	for range 2 { // new, then replaced
		if err := report.Writable(path); err != nil {
			t.Fatal(err)
		}
		if err := report.Write(path, samples()...); err != nil {
			t.Fatal(err)
		}
	}
	var want bytes.Buffer
	if err := report.JSON(&want, samples()...); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Error(diff)
	}
	if names := list(t, dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "dir.md")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none", "r.json"), sub, filepath.Join(dir, "r.txt"), filepath.Join(dir, "r"), ""} {
		if err := report.Writable(path); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Writable(%q): %v, want INVALID", path, err)
		}
		if err := report.Write(path, samples()...); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("Write(%q): %v, want INVALID", path, err)
		}
	}
	if names := list(t, dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWriterFails(t *testing.T) {
	for _, f := range report.Formats() {
		if err := f.Write(fullDisk{}, samples()...); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %v, want the writer's error", f.Name, err)
		}
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
