package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

func promptCases() []Case {
	return []Case{
		{ID: "prompt/done-before", Law: sdk.O4, Run: promptDone,
			Explain: "Every method called with a context that is cancelled or expired already returns at once, with an error, and nothing is written."},
		{ID: "prompt/cancelled-while-held", Law: sdk.O4, Needs: []sdk.Capability{sdk.CapApplyTx}, Run: promptHeld, without: hookUnsupported,
			Explain: "While caller's code stands still inside a resource's transaction, another write to the resource is cancelled: it returns promptly, with NOT_APPLIED or MUTATION_UNKNOWN, and what it said is true afterwards. The same with a deadline, and for reads."},
	}
}

// prompt runs f, which must return within the suite's patience.
func (c *C) prompt(ctx context.Context, what string, f func(ctx context.Context) error) {
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := errors.New("panicked")
		defer func() { done <- err }()
		c.guard(func() { err = f(ctx) })
	}()
	t := time.NewTimer(c.patience())
	defer t.Stop()
	select {
	case err := <-done:
		if err != nil {
			c.errorf("an answer", "%s: %v", what, err)
		}
	case <-t.C:
		c.errorf("an answer that nobody else holds up", "%s: none within %v", what, c.patience())
		cancel()
		select {
		case <-done:
		case <-time.After(c.patience()):
		}
	}
}

// held runs f while caller's code stands still inside r's transaction. f says
// whether another mutation of r was accepted meanwhile: a store may hold others
// back, or let them through, and then the code that stood still has lost.
func (c *C) held(ctx context.Context, h *handle, r sdk.ResourceID, f func() (overtaken bool)) {
	inside, release := make(chan struct{}, 1), make(chan struct{})
	done := make(chan sdk.Outcome, 1)
	holding := ownerOf(r, 7, "").hooked(1, "holder", func(ctx context.Context, _ any) ([]byte, error) {
		select {
		case inside <- struct{}{}:
		default:
		}
		select {
		case <-release:
			return []byte("held"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	go func() {
		var out sdk.Outcome
		defer func() { done <- out }()
		c.guard(func() { out, _ = h.apply(ctx, holding) })
	}()
	overtaken := false
	select {
	case <-inside:
		c.guard(func() { overtaken = f() })
	case out := <-done:
		close(release)
		c.fatalf("the code runs", "%s without running it", out.Code)
	case <-ctx.Done():
	}
	close(release)
	select {
	case out := <-done:
		switch {
		case ctx.Err() != nil, overtaken && out.Code != sdk.Accepted && out.Code != sdk.Replayed, !overtaken && out.Code == sdk.Accepted:
		case overtaken:
			c.errorf("a refusal for the code that stood still while another was accepted", "%s", out.Code)
		default:
			c.errorf("ACCEPTED for the code that stood still", "%s", out.Code)
		}
	case <-ctx.Done():
		<-done
	}
}

// endSoon is a context that is "expired" or "cancelled" after d.
func endSoon(ctx context.Context, how string, d time.Duration) (context.Context, context.CancelFunc) {
	if how == "expired" {
		return context.WithTimeout(ctx, d)
	}
	ctx, cancel := context.WithCancel(ctx)
	t := time.AfterFunc(d, cancel)
	return ctx, func() { t.Stop(); cancel() }
}

// ended is a context that is over, and how.
type ended struct {
	name string
	ctx  context.Context
}

func endedContexts(ctx context.Context) []ended {
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	expired, cancel2 := context.WithDeadline(ctx, time.Unix(0, 0))
	cancel2()
	return []ended{{"cancelled", cancelled}, {"expired", expired}}
}

func promptDone(ctx context.Context, c *C) {
	h := c.handle(ctx, 0)
	t := c.takeover(ctx, h)
	before := c.view(ctx, h, t.r, takeoverOps, []string{"k"})
	for _, e := range endedContexts(ctx) {
		c.prompt(ctx, "calls with a context that is "+e.name, func(context.Context) error {
			out, err := h.apply(e.ctx, t.b.put(2, "late", "k", "late"))
			if out.Code != sdk.NotApplied && out.Code != sdk.MutationUnknown {
				c.errorf("NOT_APPLIED", "%s: %s", e.name, describeAnswer(out, err))
			}
			_, err = h.inspect(e.ctx, t.r)
			c.wantCode("Inspect, "+e.name, err, sdk.NotApplied)
			_, err = h.receipt(e.ctx, t.r, "op-a")
			c.wantCode("Receipt, "+e.name, err, sdk.NotApplied)
			_, err = h.read(e.ctx, t.r, "k")
			c.wantCode("Read, "+e.name, err, sdk.NotApplied)
			_, err = h.quarantined(e.ctx, t.r)
			c.wantCode("Quarantined, "+e.name, err, sdk.NotApplied)
			c.wantCode("Probe, "+e.name, h.s.Probe(e.ctx), sdk.NotApplied)
			return nil
		})
	}
	c.unchanged(before, c.view(ctx, h, t.r, takeoverOps, []string{"k"}), "calls whose contexts were over")
	c.accept(ctx, h, t.b.put(2, "late", "k", "late"))
}

func promptHeld(ctx context.Context, c *C) {
	h, other := c.handle(ctx, 0), c.handle(ctx, 1)
	r := c.resource()
	waiting := ownerOf(r, 8, "").put(1, "waits", "k", "v")
	var codes []sdk.Code
	c.held(ctx, h, r, func() (overtaken bool) {
		for _, st := range []*handle{h, other} {
			for _, how := range []string{"cancelled", "expired"} {
				c.prompt(ctx, "a write that is "+how+" while another holds the resource", func(ctx context.Context) error {
					ctx, cancel := endSoon(ctx, how, c.patience()/100)
					defer cancel()
					out, err := st.apply(ctx, waiting)
					codes = append(codes, out.Code)
					switch {
					case out.Code == sdk.Accepted, out.Code == sdk.Replayed && overtaken:
						overtaken = true
					case out.Code != sdk.NotApplied && out.Code != sdk.MutationUnknown:
						c.errorf("NOT_APPLIED or MUTATION_UNKNOWN", "%s: %s", how, describeAnswer(out, err))
					}
					return nil
				})
				if c.failed() {
					return overtaken
				}
			}
		}
		return overtaken
	})
	if c.failed() || slices.Contains(codes, sdk.Accepted) {
		return
	}
	proved := true
	for _, code := range codes {
		proved = proved && code == sdk.NotApplied
	}
	if got, err := h.receipt(ctx, r, "waits"); proved && sdk.CodeOf(err) != sdk.NotFound {
		c.fail(sdk.O1, "NOT_APPLIED, and afterwards "+showReceipt(&got), "NOT_APPLIED only where nothing was or will be applied")
	}
	out, err := other.settle(ctx, waiting, sdk.Accepted)
	if out.Code != sdk.Accepted && (proved || out.Code != sdk.Replayed) {
		c.errorf("ACCEPTED", "%s", describeAnswer(out, err))
	}
}
