package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/sdk"
)

func (c *cli) demoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [TARGET]",
		Short: "Why a lock is not enough: two workers, one pause, two endings",
		Long: `Demo plays one story twice, side by side. Worker A holds a lease and freezes in
the middle of a write; worker B takes over; A wakes up and finishes its write.
On the left every write goes through the gate to a fenced store, on the right
to a file that trusts whoever holds the lock.

Both sides really happen: grants are signed with a throw-away key and pass
through the real gate to the store, and the file is a real file. Only the clock
is a model, so nobody waits two minutes. Given a DSN, the story leaves its
resource "adaptercheck/demo" in that store for ever, as receipts are.`,
		Example: `  adaptercheck demo
  adaptercheck demo mem://
  adaptercheck demo sqlite:./scratch.db`,
		Args:              atMostOne,
		ValidArgsFunction: c.completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"sqlite"}
			}
			t, err := c.parseTarget(args[0])
			if err != nil {
				return err
			}
			return c.demo(cmd.Context(), t)
		},
	}
}

func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%d targets; %s takes one", len(args), cmd.CommandPath())
	}
	return nil
}

func (c *cli) demo(ctx context.Context, t target) error {
	return t.use(ctx, func(_ *subject, store sdk.FencedStore) error { return c.tell(ctx, t, store) })
}

// tell plays the story on both sides, scene by scene.
func (c *cli) tell(ctx context.Context, t target, store sdk.FencedStore) error {
	fenced, err := newFencedSide(ctx, store)
	if err != nil {
		return usagef("%s: %w", t.Name(), err)
	}
	plain, err := newPlainSide()
	if err != nil {
		return usagef("the plain lock needs a temporary directory; set TMPDIR: %w", err)
	}
	defer plain.remove()

	name := t.adapter.Name
	tl := newTimeline(c.out, "a fenced store ("+name+")", "a plain lock (a file)")
	for _, scene := range story() {
		left, err := scene.fenced(fenced, ctx)
		var right []line
		if err == nil {
			right, err = scene.plain(plain)
		}
		if err != nil {
			return &exitError{Code: exitShort, Err: fmt.Errorf("the story stops at %s: %w", clock(scene.at), err)}
		}
		tl.scene(scene.at, left, right)
	}
	tl.end()
	return c.moral(name, fenced, plain)
}

// moral says what came of the two sides, as it was read from them.
func (c *cli) moral(name string, f *fencedSide, p *plainSide) error {
	o := c.out
	o.printf("\n")
	switch {
	case !f.refused:
		o.wrapped(o.red("✗ "), fmt.Sprintf("%s took the late write of a worker that had lost its lease. It is not a fenced store; run 'adaptercheck certify %s' and see which law it breaks.", name, name))
		return &exitError{Code: exitShort}
	case !f.intact:
		o.wrapped(o.red("✗ "), fmt.Sprintf("%s refused the late write and B's result is gone all the same. Run 'adaptercheck certify %s'.", name, name))
		return &exitError{Code: exitShort}
	case p.intact:
		return &exitError{Code: exitShort, Err: fmt.Errorf("the file kept B's result, which a plain lock cannot do; has something else written to it?")}
	}
	o.wrapped("", "On both sides the lock service did its job, and on both sides A believed that it still held the lease. Only the store can know better, and only if every write carries the token of its lease.")
	o.printf("\n%s\n", o.dim("next:  adaptercheck certify sqlite     does a store keep every law?"))
	o.printf("%s\n", o.dim("       adaptercheck explain F1         the law that refused A"))
	return nil
}

// line is one line of a cell.
type line struct {
	kind lineKind
	text string
}

type lineKind uint8

const (
	act  lineKind = iota // someone does something
	note                 // what comes of it
	good
	bad
)

// scene is one moment of the story, on both sides.
type scene struct {
	at     time.Duration
	fenced func(f *fencedSide, ctx context.Context) ([]line, error)
	plain  func(p *plainSide) ([]line, error)
}

// clock writes a moment of the model time.
func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
