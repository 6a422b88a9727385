package conformance

import (
	"context"
	"fmt"
	"io"

	"github.com/fencedstore/fencedstore/sdk"
)

// Replay plays one seeded schedule again and prints it to w step by step: who
// did what, what the store answered, and, where that is not what the laws say,
// what they say. The same seed and number give the same schedule on every
// store. The error says what went otherwise; nil is a schedule as it must be.
func Replay(ctx context.Context, h Harness, seed uint64, number int, w io.Writer) error {
	if number < 0 {
		return sdk.Errorf(sdk.Invalid, "schedule", "%d is below 0", number)
	}
	e, err := newEngine(h, &Options{Seed: seed})
	if err != nil {
		return err
	}
	if err := e.start(ctx); err != nil {
		return err
	}
	defer e.closePool()
	fmt.Fprintf(w, "seed %d, schedule %d\n", e.opts.Seed, number)
	var played *schedule
	cs := numbered{Case: Case{ID: "schedules/workers", Law: sdk.F1, Run: func(ctx context.Context, c *C) {
		played = c.replay(ctx, number, w)
	}}}
	res, _ := e.play(ctx, &cs)
	if err := ctx.Err(); err != nil {
		return err
	}
	if res.Status == Failed {
		f := res.Failures[0]
		return fmt.Errorf("schedule %d of seed %d went otherwise than the laws have it: got %s, want %s (%s)", number, e.opts.Seed, f.Got, f.Want, f.Law)
	}
	if played != nil {
		fmt.Fprintf(w, "at the end: fence %s segment %s, %d receipts, %d values, %d quarantine records, exactly as the laws have it\n",
			played.model.state.Highest, played.model.state.Segment, len(played.model.receipts), len(played.model.values), len(played.model.quarantine))
	}
	return nil
}

func (c *C) replay(ctx context.Context, number int, w io.Writer) *schedule {
	var handles []*handle
	for i := range scheduleHandles {
		handles = append(handles, c.handle(ctx, i))
	}
	s := newSchedule(c, c.e.opts.Seed, number, handles)
	if number%reopenEvery == reopenEvery-1 {
		s.reopen = c.reopener(handles)
	}
	s.trace = func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	s.run(ctx)
	if s.broken != nil {
		c.fail(s.broken.law, s.broken.got, s.broken.want)
	}
	return s
}
