package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Error   *junitMessage `xml:"error,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit writes JUnit XML: a test suite per target, a test case per case with
// "target.law" as its class. What is not proven is skipped there, and viewers
// call that green; so each suite ends with a test case "verdict", which fails
// unless the report is [Good], and is an error if the run did not come to its
// end.
func JUnit(w io.Writer, reports ...*conformance.Report) error {
	doc := junitSuites{Name: "fencedstore conformance " + conformance.SuiteVersion}
	var total time.Duration
	for _, r := range reports {
		s := junitReport(r)
		doc.Tests += s.Tests
		doc.Failures += s.Failures
		doc.Errors += s.Errors
		doc.Skipped += s.Skipped
		doc.Suites = append(doc.Suites, s)
		total += r.Duration
	}
	doc.Time = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitReport(r *conformance.Report) junitSuite {
	class := strings.ReplaceAll(r.Target, ".", "_")
	s := junitSuite{
		Name: r.Target, Time: seconds(r.Duration), Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05"),
		Properties: []junitProperty{
			{"suite", conformance.SuiteVersion},
			{"adapter", strings.TrimSpace(r.Description.Name + " " + r.Description.Version)},
			{"backend", r.Description.Backend},
			{"profile", string(r.Profile)},
			{"seed", strconv.FormatUint(r.Seed, 10)},
			{"schedules", fmt.Sprint(r.Figures.Schedules)},
			{"staleAccepted", fmt.Sprint(r.Figures.StaleAccepted)},
			{"lostAccepted", fmt.Sprint(r.Figures.LostAccepted)},
		},
	}
	for i := range r.Results {
		res := &r.Results[i]
		c := junitCase{Class: class + "." + string(res.Law), Name: res.ID, Time: seconds(res.Duration)}
		switch res.Status {
		case conformance.Passed:
		case conformance.Failed:
			c.Failure = &junitMessage{Message: firstLine(res), Type: string(res.Law), Text: failureText(res)}
		default:
			c.Skipped = &junitMessage{Message: "not proven: " + res.Reason}
		}
		s.add(c)
	}
	c := junitCase{Class: class, Name: "verdict", Time: seconds(0)}
	switch {
	case Status(r) == StatusIncomplete:
		c.Error = &junitMessage{Message: r.Verdict, Type: StatusIncomplete}
	case !Good(r):
		c.Failure = &junitMessage{Message: r.Verdict, Type: Status(r)}
	}
	s.add(c)
	return s
}

func (s *junitSuite) add(c junitCase) {
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

func firstLine(res *conformance.Result) string {
	if len(res.Failures) == 0 {
		return res.Reason
	}
	f := res.Failures[0]
	return fmt.Sprintf("got %s, want %s", f.Got, f.Want)
}

// failureText is every failure of a case, a field per line.
func failureText(res *conformance.Result) string {
	var b strings.Builder
	b.WriteByte('\n')
	if res.Reason != "" {
		fmt.Fprintln(&b, res.Reason)
	}
	for i, f := range res.Failures {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "got    %s\nwant   %s\nlaw    %s\nat     %s\n", f.Got, f.Want, f.Law, f.Where)
		if f.Replay != "" {
			fmt.Fprintf(&b, "replay %s\n", f.Replay)
		}
	}
	return b.String()
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
