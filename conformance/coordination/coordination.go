// Package coordination is the suite for coordinators: it says of a
// registry.Coordinator whether it keeps R1, R2, R4, R5 and R6.
package coordination

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/registry"
)

// SuiteVersion is the version of the cases. A new or stricter case raises it.
const SuiteVersion = "1.0.0"

// Handle is one open coordinator.
type Handle struct {
	registry.Coordinator
	Close func() error // nil where there is nothing to close
}

// Harness is the coordinator under test. Name, Open, Expire and Queued are
// required.
type Harness struct {
	Name string

	// Open opens another handle on the same data.
	Open func(ctx context.Context) (Handle, error)
	// TTL is the lease that the suite asks for; the shortest that the backend
	// takes keeps the run short. 10 s by default.
	TTL time.Duration
	// Expire returns once the lease of a record that nobody renews is over: by
	// moving a model clock, or by waiting until the backend says so.
	Expire func(ctx context.Context, r registry.Record) error
	// Queued returns how many Acquire calls stand in the queue of r.
	Queued func(ctx context.Context, r sdk.ResourceID) (int, error)

	// Advance moves the clock of leases. Nil where it cannot be moved.
	Advance func(d time.Duration)
	// Restart kills the backend and starts it on the same data; open handles go on.
	// Nil where that cannot be done.
	Restart func(ctx context.Context) error
	// Rewind puts the backend's data back to what it was when Snapshot was called;
	// open handles go on. Nil, both, where that cannot be done.
	Snapshot, Rewind func(ctx context.Context) error

	// Patience bounds a case: it fails one that hangs. 2 min by default.
	Patience time.Duration
}

// Case is one check.
type Case struct {
	// ID never changes: it is the sub-test's name and the report's key.
	ID  string
	Law sdk.Law
	// Needs says why a harness may lack what the case takes; empty if none does.
	Needs   func(*Harness) string
	Explain string
	Run     func(ctx context.Context, c *C)
}

// Failure is one thing that was found.
type Failure struct {
	Law       sdk.Law
	Got, Want string
	Where     string // file and line of the suite
}

func (f Failure) String() string {
	return fmt.Sprintf("%s: got %s, want %s\n\t%s %s", f.Where, f.Got, f.Want, f.Law, f.Law.Text().Sentence)
}

// Result is what became of a case.
type Result struct {
	Case     Case
	Failures []Failure
	Skipped  string // why it was not run; never a pass
}

// Passed reports whether the case ran and found nothing.
func (r *Result) Passed() bool { return r.Skipped == "" && len(r.Failures) == 0 }

// Check runs every case and returns what it found.
func Check(ctx context.Context, h Harness) []Result {
	out := make([]Result, 0, len(cases()))
	for _, cs := range cases() {
		out = append(out, run(ctx, &h, cs))
	}
	return out
}

// Run is Check as sub-tests of t.
func Run(t *testing.T, h Harness) {
	for _, cs := range cases() {
		t.Run(cs.ID, func(t *testing.T) {
			r := run(t.Context(), &h, cs)
			if r.Skipped != "" {
				t.Skipf("%s: %s", h.Name, r.Skipped)
			}
			for _, f := range r.Failures {
				t.Error(f)
			}
		})
	}
}

// Cases lists all, in the order in which they run.
func Cases() []Case { return cases() }

// C is a case under way.
type C struct {
	h    *Harness
	cs   Case
	name string

	mu       sync.Mutex
	next     int
	failures []Failure
	handles  []Handle
}

type stop struct{}

func run(ctx context.Context, h *Harness, cs Case) (r Result) {
	r.Case = cs
	if cs.Needs != nil {
		if r.Skipped = cs.Needs(h); r.Skipped != "" {
			return r
		}
	}
	if ctx.Err() != nil {
		r.Skipped = "the run was interrupted"
		return r
	}
	patience := h.Patience
	if patience <= 0 {
		patience = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := &C{h: h, cs: cs, name: cs.ID + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	c.guard(func() { cs.Run(ctx, c) })
	for _, h := range c.handles {
		if h.Close != nil {
			if err := h.Close(); err != nil {
				c.fail(cs.Law, "closing: "+err.Error(), "nil")
			}
		}
	}
	r.Failures = c.failures
	return r
}

// guard runs f and turns a panic into a failure.
func (c *C) guard(f func()) {
	defer func() {
		switch p := recover(); p.(type) {
		case nil, stop:
		default:
			c.fail(c.cs.Law, fmt.Sprintf("panic: %v\n%s", p, debug.Stack()), "an answer")
		}
	}()
	f()
}

// parallel runs f(0) … f(n-1) at the same time and waits for all.
func (c *C) parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { c.guard(func() { f(i) }) })
	}
	wg.Wait()
}

func (c *C) fail(law sdk.Law, got, want string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) < 20 {
		c.failures = append(c.failures, Failure{law, got, want, where()})
	}
}

// errorf records a failure of a law.
func (c *C) errorf(law sdk.Law, want, got string, args ...any) {
	c.fail(law, fmt.Sprintf(got, args...), want)
}

func (c *C) fatalf(law sdk.Law, want, got string, args ...any) {
	c.errorf(law, want, got, args...)
	panic(stop{})
}

// where names the line of a case.
func where() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		name := filepath.Base(f.File)
		if name != "coordination.go" && name != "steps.go" || !more {
			return name + ":" + strconv.Itoa(f.Line)
		}
	}
}
