package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

func killCases() []Case {
	return []Case{
		{ID: "durable/killed-writer", Law: sdk.F9, Needs: []sdk.Capability{sdk.CapDurable}, Run: killWriters,
			Explain: "A process of its own writes to four resources at once and is killed (SIGKILL) at a random instant, again and again. Afterwards every acknowledged receipt is there, no mutation is there by half, none was applied twice, and the next owner goes on."},
	}
}

// lane is one resource that killed writers wrote to.
type lane struct {
	r     sdk.ResourceID
	fence sdk.Token
	sent  sdk.Segment // under this fence
	acked sdk.Segment
	next  sdk.Segment
}

func killWriters(ctx context.Context, c *C) {
	if c.e.h.Spawn == nil {
		c.notProven("the harness has no Spawn: no writer can be killed")
	}
	rounds := map[Profile]int{Quick: 5, Standard: 20, Release: 200}[c.e.opts.Profile]
	lanes := make([]*lane, writerLanes)
	for i := range lanes {
		lanes[i] = &lane{r: c.resource(), fence: 1}
	}
	shared := c.e.desc.Supports(sdk.CapShared) == sdk.Supported
	var acks int64
	for round := range rounds {
		if ctx.Err() != nil {
			return
		}
		if round%2 == 1 || !shared {
			c.reopenAll(ctx) // nobody but the writer has the store open
		}
		if round%4 == 3 {
			for _, l := range lanes {
				*l = lane{r: l.r, fence: l.fence + 1}
			}
		}
		acks += int64(c.killOne(ctx, lanes))
		h := c.handle(ctx, round%2)
		for _, l := range lanes {
			c.afterKill(ctx, h, l)
		}
		c.progress(round+1, rounds)
		if c.failed() {
			break
		}
	}
	c.figure("kills", int64(rounds))
	c.figure("acknowledged", acks)
}

// killOne starts a writer, keeps three writes per lane on their way, and kills
// it after a number of answers. It returns how many writes were acknowledged.
func (c *C) killOne(ctx context.Context, lanes []*lane) int {
	cmd, err := c.e.h.Spawn(ctx)
	if err != nil {
		c.fatalf("a writer process", "Spawn: %v", err)
	}
	stdin, answers, errText, wait := c.startWriter(cmd)
	defer wait()
	defer stdin.Close()
	defer func() { _ = cmd.Process.Kill() }()
	enc := json.NewEncoder(stdin)
	send := func(i int) {
		l := lanes[i]
		l.sent++
		// A writer that died does not read; what it did is looked at afterwards.
		_ = enc.Encode(writerCommand{Lane: i, Resource: l.r, Fence: l.fence, Segment: l.sent})
	}
	until, acks := c.rng.IntN(80), 0
	stall := time.NewTimer(c.e.opts.Stall)
	defer stall.Stop()
	note := func(a writerAnswer) {
		l := lanes[a.Lane]
		if !a.Code.Ok() {
			c.errorf("ACCEPTED or REPLAYED", "a writer was answered %s at fence %s segment %s: %s", a.Code, a.Fence, a.Segment, a.Error)
		} else if a.Fence == l.fence {
			l.acked = max(l.acked, a.Segment)
			acks++
		}
	}
	for acks < until || until == 0 {
		select {
		case a, ok := <-answers:
			switch {
			case !ok:
				c.fatalf("a writer that lives until it is killed", "it ended by itself: %s", errText())
			case a.Ready:
				for i := range lanes {
					lanes[i].sent = lanes[i].next
					for range 3 {
						send(i)
					}
				}
				if until == 0 {
					until = -1
				}
			case a.Lane < 0 || a.Lane >= len(lanes):
				c.fatalf("an answer of the protocol", "lane %d", a.Lane)
			default:
				note(a)
				send(a.Lane)
			}
			c.touch()
		case <-ctx.Done():
			panic(stop{})
		case <-stall.C:
			c.fatalf("answers", "the writer was silent; its standard error: %s", errText())
		}
		if c.failed() {
			return acks
		}
	}
	pause(ctx, time.Duration(c.rng.IntN(3000))*time.Microsecond) // any instant will do
	_ = cmd.Process.Kill()
	for a := range answers { // what it said before it died counts
		if !a.Ready && a.Lane >= 0 && a.Lane < len(lanes) {
			note(a)
		}
	}
	return acks
}

// startWriter starts cmd with pipes. Wait ends when it is dead and read to the
// end.
func (c *C) startWriter(cmd *exec.Cmd) (stdin io.WriteCloser, answers <-chan writerAnswer, errText func() string, wait func()) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		c.fatalf("a command whose standard input is free", "%v", err)
	}
	out, in := io.Pipe()
	tail := &tail{}
	cmd.Stdout, cmd.Stderr = in, tail
	if err := cmd.Start(); err != nil {
		c.fatalf("a writer process", "start: %v", err)
	}
	lines, _ := readLines[writerAnswer](out)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // it was killed
		in.Close()
	}()
	return stdin, lines, tail.String, func() {
		out.CloseWithError(io.ErrClosedPipe) // a reader that gave up must not hold the process
		for range lines {
		}
		<-done
	}
}

// tail keeps the end of a process's standard error.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > 2000 {
		t.b = t.b[len(t.b)-1000:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}

// afterKill looks at what a killed writer left at l, and goes on where it was.
func (c *C) afterKill(ctx context.Context, h *handle, l *lane) {
	s, err := h.inspect(ctx, l.r)
	if err != nil {
		c.errorf("a fence state after the kill", "Inspect: %v", err)
		return
	}
	landed := sdk.Segment(0)
	if s.Highest == l.fence {
		landed = s.Segment
	}
	if s.Highest > l.fence || landed > l.sent || landed < l.acked {
		c.errorf(fmt.Sprintf("fence %s with segment %s (acknowledged) to %s (sent)", l.fence, l.acked, l.sent), "after a kill Inspect says %s", showState(s))
		return
	}
	before := c.found()
	c.wantLane(ctx, h, l, landed)
	// What was under way when the writer died may land after it, and while this
	// was looking: then what was seen was no single state. Look again.
	if s, err := h.inspect(ctx, l.r); err == nil && s.Highest == l.fence && s.Segment > landed && s.Segment <= l.sent {
		c.retract(before)
		c.afterKill(ctx, h, l)
		return
	}
	if landed > 0 {
		cmd := writerCommand{Resource: l.r, Fence: l.fence, Segment: landed}
		c.again(ctx, h, cmd.mutation())
	}
	l.next, l.acked, l.sent = landed, landed, landed
}

// wantLane expects the receipts and values of a lane of which landed segments
// were accepted.
func (c *C) wantLane(ctx context.Context, h *handle, l *lane, landed sdk.Segment) {
	if landed > 0 {
		c.wantValue(ctx, h, l.r, "head", []byte(writerOperation(l.fence, landed)))
	}
	for seg := l.next + 1; seg <= l.sent; seg++ {
		cmd := writerCommand{Resource: l.r, Fence: l.fence, Segment: seg}
		m := cmd.mutation()
		if seg <= landed {
			c.wantReceipt(ctx, h, m)
			c.wantValue(ctx, h, l.r, string(m.Operation), make([]byte, 700))
		} else {
			c.wantNoReceipt(ctx, h, l.r, m.Operation)
			c.wantValue(ctx, h, l.r, string(m.Operation), nil)
		}
	}
}
