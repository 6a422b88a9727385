package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// maxFailures bounds what one case reports; the rest is counted.
const maxFailures = 25

// C is a case under way: the handles that it uses and what it found.
type C struct {
	e   *engine
	cs  *Case
	n   int // the case's number, part of its resources' names
	rng *rand.Rand
	// over reports that the run was interrupted: what is found from then on may
	// be the interruption's doing and is not recorded.
	over func() bool

	resources atomic.Int64
	touched   atomic.Int64 // when a call to the store last ended, Unix ns

	mu       sync.Mutex
	failures []Failure
	dropped  int
	reason   string
	open     bool // not proven
	figures  map[string]int64
	counts   Figures
	cleanup  []func()
	dead     bool // the case was given up; nothing is recorded any more
	distrust bool // the handles may be stuck: later cases get new ones
}

// stop ends the case's goroutine; recovered in run and parallel.
type stop struct{}

// Description is the store's.
func (c *C) Description() *sdk.Description { return &c.e.desc }

// resource returns a name that no run used before.
func (c *C) resource() sdk.ResourceID {
	return sdk.ResourceID(fmt.Sprintf("conformance/%s/%d/%05d", c.e.run, c.n, c.resources.Add(1)))
}

func (c *C) touch() { c.touched.Store(time.Now().UnixNano()) }

// patience is how long a call that must be prompt may take. It bounds a wait
// that ends at once on every store that keeps O4.
func (c *C) patience() time.Duration { return c.e.opts.Stall / 10 }

// fail records a failure of law at the caller in a file of cases.
func (c *C) fail(law sdk.Law, got, want string) {
	c.failure(Failure{Got: got, Want: want, Law: lawSentence(law), Where: where()})
}

func (c *C) failure(f Failure) {
	if c.over() {
		return
	}
	f.Got, f.Want = printable(f.Got), printable(f.Want)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead:
	case len(c.failures) < maxFailures:
		c.failures = append(c.failures, f)
	default:
		c.dropped++
	}
}

// errorf records a failure of the case's own law.
func (c *C) errorf(want, got string, args ...any) {
	c.fail(c.cs.Law, fmt.Sprintf(got, args...), want)
}

// fatalf is errorf and ends the case.
func (c *C) fatalf(want, got string, args ...any) {
	c.errorf(want, got, args...)
	panic(stop{})
}

// failed reports whether anything was found so far.
func (c *C) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.failures) > 0
}

// notProven ends the case without a verdict.
func (c *C) notProven(format string, args ...any) {
	c.mu.Lock()
	c.open, c.reason = true, fmt.Sprintf(format, args...)
	c.mu.Unlock()
	panic(stop{})
}

// found is how many failures were recorded so far.
func (c *C) found() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.failures)
}

// retract forgets the failures after the first n: they were found while what was
// looked at still moved, as it may.
func (c *C) retract(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < len(c.failures) {
		c.failures = c.failures[:n]
	}
}

func (c *C) figure(name string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.figures == nil {
		c.figures = map[string]int64{}
	}
	c.figures[name] += n
}

func (c *C) progress(done, total int) { c.e.event(Event{Case: c.cs.ID, Done: done, Total: total}) }

func (c *C) onEnd(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleanup = append(c.cleanup, f)
}

// guard runs f and turns a panic into a failure.
func (c *C) guard(f func()) {
	defer func() {
		switch p := recover(); p.(type) {
		case nil, stop:
		default:
			c.mu.Lock()
			c.distrust = true
			c.mu.Unlock()
			c.fail(c.cs.Law, fmt.Sprintf("panic: %v, at %s", p, panicSite()), "an answer")
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

// spread runs f(0) … f(n-1), at most width at the same time.
func (c *C) spread(ctx context.Context, n, width int, f func(i int)) {
	var next atomic.Int64
	c.parallel(min(width, n), func(int) {
		for {
			i := int(next.Add(1)) - 1
			if i >= n || ctx.Err() != nil {
				return
			}
			c.guard(func() { f(i) })
		}
	})
}

func lawSentence(l sdk.Law) string {
	if t := l.Text(); t.Sentence != "" {
		return string(l) + " " + t.Name + ": " + t.Sentence
	}
	return string(l)
}

// plumbing are the files whose lines say nothing about a failure.
var plumbing = map[string]bool{"c.go": true, "expect.go": true, "handle.go": true, "check.go": true, "mint.go": true}

// where names the innermost line of the suite outside the plumbing.
func where() string {
	pcs := make([]uintptr, 24)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		name := filepath.Base(f.File)
		if !plumbing[name] && strings.Contains(f.Function, "/conformance.") {
			return "conformance/" + name + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return "conformance"
		}
	}
}

// panicSite is the line that panicked, as far as the stack tells.
func panicSite() string {
	lines := strings.Split(string(debug.Stack()), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") && i+3 < len(lines) {
			site, _, _ := strings.Cut(strings.TrimSpace(lines[i+3]), " ")
			return filepath.Base(site)
		}
	}
	return "an unknown place"
}

// printable keeps what a broken store says short and on one screen.
func printable(s string) string {
	const most = 2000
	s = strings.ToValidUTF8(s, "\ufffd")
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return '\ufffd'
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
