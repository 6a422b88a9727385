package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

func (c *cli) replayCmd() *cobra.Command {
	var seed string
	var schedule int
	var plugin pluginFlags
	cmd := &cobra.Command{
		Use:                   "replay --seed S --schedule N TARGET",
		Short:                 "Play one seeded schedule again, step by step",
		DisableFlagsInUseLine: true,
		Long: `Replay plays one of certify's seeded schedules again and prints every step: who
did what, what the store answered, what the laws say. A failure of certify
prints the command that replays it. The same seed and number give the same
schedule on every store.`,
		Example: `  adaptercheck replay --seed 42 --schedule 17 sqlite`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one target, for example 'adaptercheck replay --seed 42 --schedule 17 sqlite'")
			}
			return nil
		},
		ValidArgsFunction: c.completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			if seed == "" || !cmd.Flags().Changed("schedule") {
				return usagef("give --seed and --schedule, as certify printed them with the failure")
			}
			n, err := parseSeed(seed)
			if err != nil {
				return err
			}
			if schedule < 0 {
				return usagef("--schedule %d: give the schedule's number, 0 or more", schedule)
			}
			ref, err := plugin.ref()
			if err != nil {
				return err
			}
			t, err := c.parseAny(args[0], ref)
			if err != nil {
				return err
			}
			return c.replay(cmd.Context(), t, n, schedule)
		},
	}
	plugin.add(cmd.Flags())
	cmd.Flags().StringVar(&seed, "seed", "", "the seed `S` that certify printed")
	cmd.Flags().IntVar(&schedule, "schedule", 0, "the number `N` of the schedule under that seed")
	return cmd
}

func (c *cli) replay(ctx context.Context, t target, seed uint64, schedule int) error {
	return t.use(ctx, func(s *subject, _ sdk.FencedStore) error {
		err := conformance.Replay(ctx, s.harness(), seed, schedule, c.out.w)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return &exitError{Code: exitIncomplete, Err: err}
		}
		return &exitError{Code: exitShort, Err: err}
	})
}
