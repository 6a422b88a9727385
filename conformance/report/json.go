package report

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

// Schema names the JSON document. Within v1 fields are only ever added; a field
// that changes its meaning would make it v2.
const Schema = "fencedstore.conformance.v1"

// Document is the JSON document, and its field comments are the schema. Lists
// are never null. Text that a store chose (a failure's got, a reason) is valid
// UTF-8.
type Document struct {
	Schema  string   `json:"schema"`  // "fencedstore.conformance.v1"
	Suite   string   `json:"suite"`   // version of the suite that judged
	Reports []Report `json:"reports"` // one per target, in the order they were given
}

// Report is one target's.
type Report struct {
	Target    string `json:"target"`
	Status    string `json:"status"`    // certified | falls_short | tests_only | partial | incomplete
	Certified bool   `json:"certified"` // status is "certified"
	Complete  bool   `json:"complete"`  // every case that was asked for ran to its end
	Verdict   string `json:"verdict"`   // one sentence for a person

	Profile  string    `json:"profile"` // quick | standard | release
	Seed     string    `json:"seed"`    // decimal, below 2^64
	Started  time.Time `json:"started"` // RFC 3339, UTC
	Duration int64     `json:"durationMillis"`

	Adapter Adapter `json:"adapter"`
	Figures Figures `json:"figures"`
	Laws    []Law   `json:"laws"`  // in the order of the laws
	Cases   []Case  `json:"cases"` // in the order of the suite
}

// Adapter is what the store said of itself.
type Adapter struct {
	Name         string       `json:"name"` // empty if it could not be opened
	Version      string       `json:"version"`
	Backend      string       `json:"backend"`
	Environment  string       `json:"environment"` // embedded | emulator | live
	Layout       string       `json:"layout"`
	Kinds        []string     `json:"kinds"`
	Capabilities []Capability `json:"capabilities"`
	Limits       Limits       `json:"limits"`
}

// Capability is one thing that stores may differ in.
type Capability struct {
	Name    string `json:"name"`
	Support string `json:"support"` // supported | unsupported | unknown
	Reason  string `json:"reason,omitempty"`
}

// Limits are the adapter's; 0 is none stated.
type Limits struct {
	Effects    int   `json:"effects"`
	ValueBytes int   `json:"valueBytes"`
	TotalBytes int64 `json:"totalBytes"`
	Quarantine int   `json:"quarantine"`
}

// Figures count what the seeded schedules and races did. The last three must
// be 0.
type Figures struct {
	Schedules         int64 `json:"schedules"`
	Steps             int64 `json:"steps"`
	StaleAccepted     int64 `json:"staleAccepted"`
	LostAccepted      int64 `json:"lostAccepted"`
	ReceiptMismatches int64 `json:"receiptMismatches"`
}

// Law sums up the cases of one law.
type Law struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Sentence  string   `json:"sentence"`
	Cases     int      `json:"cases"`
	Passed    int      `json:"passed"`
	Failed    int      `json:"failed"`
	NotProven int      `json:"notProven"`
	Reasons   []string `json:"reasons"` // why cases are not proven
}

// Case is the result of one case.
type Case struct {
	ID       string           `json:"id"`
	Law      string           `json:"law"`
	Status   string           `json:"status"` // passed | failed | not_proven
	Reason   string           `json:"reason,omitempty"`
	Duration int64            `json:"durationMillis"`
	Figures  map[string]int64 `json:"figures,omitempty"`
	Failures []Failure        `json:"failures"`
}

// Failure is one thing that went otherwise than the law says.
type Failure struct {
	Got    string `json:"got"`
	Want   string `json:"want"`
	Law    string `json:"law"`              // the law's sentence
	Where  string `json:"where"`            // file:line in the suite
	Replay string `json:"replay,omitempty"` // the command that shows it again
}

// JSON writes a [Document].
func JSON(w io.Writer, reports ...*conformance.Report) error {
	doc := Document{Schema: Schema, Suite: conformance.SuiteVersion, Reports: []Report{}}
	for _, r := range reports {
		doc.Reports = append(doc.Reports, newReport(r))
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

func newReport(r *conformance.Report) Report {
	out := Report{
		Target: r.Target, Status: Status(r), Certified: r.Certified, Complete: r.Complete, Verdict: r.Verdict,
		Profile: string(r.Profile), Seed: strconv.FormatUint(r.Seed, 10),
		Started: r.Started.UTC(), Duration: r.Duration.Milliseconds(),
		Adapter: NewAdapter(&r.Description),
		Figures: Figures(r.Figures),
		Laws:    []Law{}, Cases: []Case{},
	}
	for _, l := range r.Laws() {
		text := lawText(l.Law)
		out.Laws = append(out.Laws, Law{ID: string(l.Law), Name: text.Name, Sentence: text.Sentence,
			Cases: l.Cases, Passed: l.Passed, Failed: l.Failed, NotProven: l.NotProven, Reasons: list(l.Reasons)})
	}
	for i := range r.Results {
		res := &r.Results[i]
		c := Case{ID: res.ID, Law: string(res.Law), Status: string(res.Status), Reason: res.Reason,
			Duration: res.Duration.Milliseconds(), Figures: res.Figures, Failures: []Failure{}}
		for _, f := range res.Failures {
			c.Failures = append(c.Failures, Failure(f))
		}
		out.Cases = append(out.Cases, c)
	}
	return out
}

// NewAdapter is a store's description as it stands in the document.
func NewAdapter(d *sdk.Description) Adapter {
	out := Adapter{Name: d.Name, Version: d.Version, Backend: d.Backend, Environment: string(d.Environment),
		Layout: d.Layout, Kinds: list(d.Kinds), Capabilities: []Capability{}, Limits: Limits(d.Limits)}
	for _, c := range sdk.Capabilities() {
		said := d.Capabilities[c]
		out.Capabilities = append(out.Capabilities, Capability{Name: string(c), Support: said.Support.String(), Reason: said.Reason})
	}
	return out
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func lawText(id sdk.Law) sdk.LawText {
	for _, t := range sdk.Laws() {
		if t.ID == id {
			return t
		}
	}
	return sdk.LawText{ID: id}
}
