package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

func scheduleCases() []Case {
	return []Case{
		{ID: "schedules/workers", Law: sdk.F1, Run: playSchedules,
			Explain: "Seeded schedules: two to four workers with grants from a model registry write, pause beyond their lease, are superseded, retry, duplicate, reorder, resume, hand over and restart, and lose answers. Every answer is held against the laws; after each schedule fence, receipts, values and quarantine are exactly the model's: no stale write accepted, no accepted write lost."},
	}
}

const (
	scheduleHandles = 4
	scheduleWidth   = 64 // schedules at the same time, so that they share the store's syncs
	reopenEvery     = 97 // one schedule in so many really opens new handles
	keepEvery       = 53 // and one is looked at again after everything was closed
	excerptSteps    = 12
)

// scheduleBudget is how many schedules to play, or for how long.
func (e *engine) scheduleBudget() (n int, d time.Duration) {
	if e.opts.Schedules > 0 {
		return e.opts.Schedules, 0
	}
	p := e.opts.Profile
	if e.h.Network {
		return 1 << 30, map[Profile]time.Duration{Quick: 20 * time.Second, Standard: 2 * time.Minute, Release: 30 * time.Minute}[p]
	}
	return map[Profile]int{Quick: 1_000, Standard: 10_000, Release: 100_000}[p], 0
}

func playSchedules(ctx context.Context, c *C) {
	n, d := c.e.scheduleBudget()
	total := n
	playing := ctx
	if d > 0 {
		var cancel context.CancelFunc
		playing, cancel = context.WithTimeout(ctx, d)
		defer cancel()
		total = 0
	}
	var handles []*handle
	for i := range scheduleHandles {
		handles = append(handles, c.handle(ctx, i))
	}
	var done, broken atomic.Int64
	kept := make(chan *schedule, 2048)
	began := time.Now()
	c.spread(playing, n, scheduleWidth, func(i int) {
		if broken.Load() >= maxFailures {
			return // a store that is broken this much is not going to be certified
		}
		s := newSchedule(c, c.e.opts.Seed, i, handles)
		if i%reopenEvery == reopenEvery-1 {
			s.reopen = c.reopener(handles)
		}
		s.run(ctx)
		if ctx.Err() != nil {
			return
		}
		c.addCounts(s.counts)
		if s.broken != nil {
			broken.Add(1)
			c.failure(c.scheduleFailure(s))
		} else if i%keepEvery == 0 {
			select {
			case kept <- s:
			default:
			}
		}
		if k := done.Add(1); k%50 == 0 || int(k) == total {
			c.progress(int(k), total)
		}
	})
	c.figure("schedules", done.Load())
	c.figure("schedules per second", int64(float64(done.Load())/max(time.Since(began).Seconds(), 0.001)))
	if ctx.Err() == nil && c.e.desc.Supports(sdk.CapDurable) == sdk.Supported {
		c.verifyKept(ctx, kept)
	}
}

// verifyKept looks at a sample of the schedules again after every handle was
// closed.
func (c *C) verifyKept(ctx context.Context, kept chan *schedule) {
	close(kept)
	c.reopenAll(ctx)
	h := c.fresh(ctx, sdk.OpenOptions{})
	for s := range kept {
		before := s.counts
		s.verify(ctx, h)
		if s.broken != nil {
			s.broken.got = "after everything was closed and opened again: " + s.broken.got
			c.failure(c.scheduleFailure(s))
		}
		c.addCounts(Figures{LostAccepted: s.counts.LostAccepted - before.LostAccepted, ReceiptMismatches: s.counts.ReceiptMismatches - before.ReceiptMismatches})
	}
}

// reopener closes the handles that it gave, and gives a new one each time.
func (c *C) reopener(shared []*handle) func(context.Context, *handle) *handle {
	return func(ctx context.Context, old *handle) *handle {
		for _, h := range shared {
			if h == old {
				return c.fresh(ctx, sdk.OpenOptions{})
			}
		}
		if err := old.close(); err != nil {
			c.errorf("nil", "Close: %v", err)
		}
		return c.fresh(ctx, sdk.OpenOptions{})
	}
}

func (c *C) addCounts(f Figures) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Schedules += f.Schedules
	c.counts.Steps += f.Steps
	c.counts.StaleAccepted += f.StaleAccepted
	c.counts.LostAccepted += f.LostAccepted
	c.counts.ReceiptMismatches += f.ReceiptMismatches
}

// scheduleFailure tells what went wrong with the steps that led there.
func (c *C) scheduleFailure(s *schedule) Failure {
	steps := s.steps
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nschedule %d of seed %d, after %d steps:", s.broken.got, s.number, c.e.opts.Seed, len(steps))
	if len(steps) > excerptSteps {
		fmt.Fprintf(&b, "\n  … %d steps", len(steps)-excerptSteps)
		steps = steps[len(steps)-excerptSteps:]
	}
	for _, st := range steps {
		b.WriteString("\n  " + st.String())
	}
	f := Failure{Got: b.String(), Want: s.broken.want, Law: lawSentence(s.broken.law), Where: s.broken.where}
	if c.e.opts.ReplayCommand != nil {
		c.e.events.Lock()
		defer c.e.events.Unlock()
		f.Replay = c.e.opts.ReplayCommand(c.e.opts.Seed, s.number)
	}
	return f
}
