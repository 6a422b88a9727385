package conformance

import (
	"context"
	"os/exec"
	"regexp"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// SuiteVersion is the version of the cases. A new or stricter case raises it.
const SuiteVersion = "1.0.0"

// Harness is the store under test.
type Harness struct {
	// Name is the adapter or DSN, for reports.
	Name string

	// Open opens a handle. Each call opens the same data; handles are used at
	// the same time and closed by the suite.
	Open func(ctx context.Context, o sdk.OpenOptions) (sdk.FencedStore, error)

	// Spawn returns a command, not yet started, that opens the same data and
	// calls [ServeWriter] with its standard input and output. The suite starts it
	// and kills it. Nil where there is no such process.
	Spawn func(ctx context.Context) (*exec.Cmd, error)

	// Damage removes the fence of r behind the adapter's back; receipts stay
	// (F7). Nil where that cannot be done.
	Damage func(ctx context.Context, r sdk.ResourceID) error

	// Native returns effects of the store's own kinds for r (F12). Nil where the
	// store has none.
	Native func(r sdk.ResourceID) Native

	// Network says that the store is behind a network: seeded schedules get a
	// time budget in place of a number.
	Network bool
}

// Native is a set of native effects with which the suite tries the scope.
type Native struct {
	// Scope goes into OpenOptions.Scope: it permits Inside and refuses Outside.
	Scope func(sdk.ResourceID, sdk.Effect) error
	// Inside changes what Count reads by one each time it is applied.
	Inside sdk.Effect
	// Outside is well formed and lies beyond Scope.
	Outside sdk.Effect
	// Own name the adapter's own tables or keys, or its transaction control; a
	// store refuses them whatever Scope says.
	Own []sdk.Effect
	// Failing is in scope and well formed, and the store refuses to carry it out
	// (a violated constraint, say). Kind is empty where there is none.
	Failing sdk.Effect
	// Count reads how often Inside was applied, past the adapter.
	Count func(ctx context.Context) (int, error)
}

// Profile says how much is run.
type Profile string

const (
	// Quick takes seconds: 1,000 schedules, or 20 s behind a network.
	Quick Profile = "quick"
	// Standard is the default: 10,000 schedules, or 2 min behind a network.
	Standard Profile = "standard"
	// Release is for a release of an adapter: 100,000 schedules, or 30 min
	// behind a network, and 200 killed writers.
	Release Profile = "release"
)

// Options are what may be chosen of a run. Nil is fine, the zero value is
// useful.
type Options struct {
	Profile Profile // Standard if empty

	// Seed of races and schedules; 0 draws one, which the report names.
	Seed uint64
	// Schedules is the number of seeded schedules; 0 leaves it to the profile.
	Schedules int
	// Match selects cases by ID; nil is all. A selection is never certified.
	Match *regexp.Regexp
	// Progress is called as cases advance and end.
	Progress func(Event)
	// ReplayCommand returns the command that plays a schedule again, for
	// failures. It and Progress are called one at a time.
	ReplayCommand func(seed uint64, schedule int) string
	// Stall is how long a case may go without any call to the store ending
	// before it is failed as hanging; 0 is one minute. A cancelled call has a
	// tenth of it to return (O4).
	Stall time.Duration
}

// Event is one step of progress.
type Event struct {
	Case string
	// Done and Total count within the case; Total 0 if it is not known.
	Done, Total int
	// Result is set once, when the case ended.
	Result *Result
}

// Case is one check.
type Case struct {
	// ID never changes: it is the sub-test's name and the report's key.
	ID string
	// Law is the one that the case proves.
	Law sdk.Law
	// Needs are capabilities without which there is nothing to prove.
	Needs []sdk.Capability
	// Explain says for a person what is done and what must come of it.
	Explain string
	// Run plays the case.
	Run func(ctx context.Context, c *C)

	// without is played in place of Run where one of Needs is declared as
	// unsupported; nil leaves the case not proven.
	without func(ctx context.Context, c *C)
}

// Status is what became of a case.
type Status string

const (
	// Passed: the case ran to its end and found nothing wrong.
	Passed Status = "passed"
	// Failed: the store broke the law.
	Failed Status = "failed"
	// NotProven: the case could not be run; Reason says why.
	NotProven Status = "not_proven"
)

// Failure is one thing that went otherwise than the law says.
type Failure struct {
	Got    string
	Want   string
	Law    string // the law's ID and sentence
	Where  string // file:line in the suite
	Replay string // the command that shows it again, for random cases
}

// Result is what became of one case.
type Result struct {
	ID       string
	Law      sdk.Law
	Status   Status
	Reason   string // why it is not proven, or what was checked in its place
	Failures []Failure
	Duration time.Duration
	Figures  map[string]int64
}

// Figures count what seeded schedules did. The last three must be 0.
type Figures struct {
	Schedules         int64
	Steps             int64
	StaleAccepted     int64 // writes below the highest fence that were accepted
	LostAccepted      int64 // accepted writes without receipt or value
	ReceiptMismatches int64 // receipts, values, fences or quarantine unlike the model's
}

// Report is what the suite found of one store.
type Report struct {
	SuiteVersion string
	Target       string
	Description  sdk.Description
	Profile      Profile
	Seed         uint64
	Started      time.Time
	Duration     time.Duration
	Results      []Result
	Figures      Figures

	// Partial says that Options.Match selected cases.
	Partial bool
	// Complete says that every case that was asked for ran to its end.
	Complete bool
	// Certified says that the whole suite ran, that nothing failed, that
	// accepted mutations are durable, and that every declared capability was
	// proven. What else is not proven is in Verdict, with its reason.
	Certified bool
	// Verdict is one sentence for a person.
	Verdict string
}

// LawLine sums up the cases of one law.
type LawLine struct {
	Law                              sdk.Law
	Cases, Passed, Failed, NotProven int
	Reasons                          []string // why cases are not proven
}

// Cases returns every case in a stable order.
func Cases() []Case { return allCases() }
