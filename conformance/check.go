package conformance

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// engine is one run of the suite.
type engine struct {
	h    Harness
	opts Options
	desc sdk.Description
	run  string // part of every resource's name; new in each run

	events sync.Mutex // over the callbacks of Options

	mu   sync.Mutex
	pool []sdk.FencedStore
}

func newEngine(h Harness, o *Options) (*engine, error) {
	if h.Open == nil {
		return nil, sdk.Errorf(sdk.Invalid, "Harness.Open", "missing; it opens the store under test")
	}
	e := &engine{h: h}
	if o != nil {
		e.opts = *o
	}
	switch e.opts.Profile {
	case "":
		e.opts.Profile = Standard
	case Quick, Standard, Release:
	default:
		return nil, sdk.Errorf(sdk.Invalid, "Options.Profile", "%q is none of quick, standard, release", e.opts.Profile)
	}
	if e.opts.Schedules < 0 {
		return nil, sdk.Errorf(sdk.Invalid, "Options.Schedules", "%d is below 0", e.opts.Schedules)
	}
	if e.opts.Stall <= 0 {
		e.opts.Stall = time.Minute
	}
	var b [16]byte
	rand.Read(b[:])
	e.run = strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:5]))
	for e.opts.Seed == 0 {
		e.opts.Seed = binary.BigEndian.Uint64(b[8:]) >> 1
		rand.Read(b[8:])
	}
	return e, nil
}

// Check plays the suite against h and reports what it found. The error is one
// of the harness, the options or the first opening; whatever goes wrong later
// is in the report. When ctx ends the report is returned as far as it goes,
// not Complete.
func Check(ctx context.Context, h Harness, o *Options) (*Report, error) {
	e, err := newEngine(h, o)
	if err != nil {
		return nil, err
	}
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	defer e.closePool()
	r := e.newReport()
	cases := e.selected()
	for i := range cases {
		if ctx.Err() != nil {
			break
		}
		res, counts := e.play(ctx, &cases[i])
		if ctx.Err() != nil && res.Status != Failed {
			break // what an interrupted case did not find says nothing
		}
		r.add(res, counts)
		e.event(Event{Case: res.ID, Result: &r.Results[len(r.Results)-1]})
	}
	r.finish(len(cases))
	return r, nil
}

// start opens the first handle and asks the store what it is.
func (e *engine) start(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = sdk.Errorf(sdk.Unsuitable, "open", "panic: %v", p)
		}
	}()
	s, err := e.h.Open(ctx, sdk.OpenOptions{})
	if err != nil {
		return err
	}
	if s == nil {
		return sdk.Errorf(sdk.Unsuitable, "open", "it returned neither a store nor an error")
	}
	e.desc = s.Describe()
	e.pool = append(e.pool, s)
	return nil
}

// selected are the cases to play, each with its number in the whole suite.
func (e *engine) selected() []numbered {
	var out []numbered
	for i, cs := range allCases() {
		if e.opts.Match == nil || e.opts.Match.MatchString(cs.ID) {
			out = append(out, numbered{Case: cs, n: i + 1})
		}
	}
	return out
}

type numbered struct {
	Case
	n int
}

// handle returns the i-th handle of the pool, which later cases use again.
func (e *engine) handle(ctx context.Context, i int) (sdk.FencedStore, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.pool) <= i {
		s, err := e.h.Open(ctx, sdk.OpenOptions{})
		if err != nil {
			return nil, err
		}
		e.pool = append(e.pool, s)
	}
	return e.pool[i], nil
}

// closePool closes every handle; a Close that hangs is left behind.
func (e *engine) closePool() {
	e.mu.Lock()
	pool := e.pool
	e.pool = nil
	e.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, s := range pool {
			closeQuietly(s)
		}
	}()
	t := time.NewTimer(e.opts.Stall)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

func closeQuietly(s sdk.FencedStore) {
	defer func() { _ = recover() }()
	_ = s.Close()
}

func (e *engine) event(ev Event) {
	if e.opts.Progress == nil {
		return
	}
	e.events.Lock()
	defer e.events.Unlock()
	e.opts.Progress(ev)
}

// play runs one case to its end, or gives it up when it hangs.
func (e *engine) play(ctx context.Context, cs *numbered) (Result, Figures) {
	interrupted := func() bool { return ctx.Err() != nil }
	c := &C{e: e, cs: &cs.Case, n: cs.n, over: interrupted,
		rng: mathrand.New(mathrand.NewPCG(e.opts.Seed, uint64(cs.n)<<32))}
	run, note := c.choose()
	started := time.Now()
	if run != nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		c.touch()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer c.clean()
			c.guard(func() { run(ctx, c) })
		}()
		c.await(ctx, cancel, done)
	}
	res := c.result(started)
	if res.Status == NotProven && res.Reason == "" || res.Status == Passed {
		res.Reason = note
	}
	if c.distrust {
		e.closePool()
	}
	return res, c.counts
}

// choose returns what to run for the store's capabilities, and what to say of
// it. Nil: there is nothing to run.
func (c *C) choose() (run func(context.Context, *C), note string) {
	for _, need := range c.cs.Needs {
		d := c.e.desc.Capabilities[need]
		if d.Support == sdk.Supported {
			continue
		}
		reason := d.Reason
		if reason == "" {
			reason = "no reason given"
		}
		note = fmt.Sprintf("%s is %s: %s", need, d.Support, reason)
		if c.cs.without != nil && d.Support == sdk.NotSupported {
			return c.cs.without, note
		}
		c.open = true
		return nil, note
	}
	return c.cs.Run, ""
}

// await waits for the case, until no call to the store has ended for
// Options.Stall.
func (c *C) await(ctx context.Context, cancel func(), done <-chan struct{}) {
	stall := c.e.opts.Stall
	tick := time.NewTicker(max(stall/20, time.Millisecond))
	defer tick.Stop()
	var cancelled time.Time
	for {
		select {
		case <-done:
			return
		case now := <-tick.C:
			idle := now.Sub(time.Unix(0, c.touched.Load()))
			switch {
			case cancelled.IsZero() && ctx.Err() != nil:
				cancelled = now
			case cancelled.IsZero() && idle > stall:
				c.fail(c.cs.Law, fmt.Sprintf("no answer within %v", stall), "an answer; a store that cannot give one says so when its context ends")
				cancel()
				cancelled = now
			case !cancelled.IsZero() && now.Sub(cancelled) > max(stall/4, time.Millisecond):
				c.mu.Lock()
				c.dead, c.distrust = true, true
				c.mu.Unlock()
				return
			}
		}
	}
}

func (c *C) clean() {
	c.mu.Lock()
	all := c.cleanup
	c.cleanup = nil
	c.mu.Unlock()
	for i := len(all) - 1; i >= 0; i-- {
		c.guard(all[i])
	}
}

func (c *C) result(started time.Time) Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Result{ID: c.cs.ID, Law: c.cs.Law, Status: Passed, Reason: c.reason,
		Failures: c.failures, Duration: time.Since(started), Figures: c.figures}
	switch {
	case len(c.failures) > 0:
		r.Status = Failed
		if c.dropped > 0 {
			r.Reason = fmt.Sprintf("and %d more failures", c.dropped)
		}
	case c.open:
		r.Status = NotProven
	}
	return r
}
