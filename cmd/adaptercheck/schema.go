package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/sdk"
)

func (c *cli) schemaCmd() *cobra.Command {
	var asJSON, apply bool
	cmd := &cobra.Command{
		Use:   "schema TARGET",
		Short: "Print what a store needs before it is opened: definitions, policies, grants",
		Long: `Schema prints what the store that a DSN names needs: the definition of its
tables or its bucket, and the policies or grants that leave write access to the
gate alone. Names in capitals are yours to fill in.

With --apply it creates what can be created by the credentials at hand (policies
and grants are left to you), opens the store and probes it.`,
		Example: `  adaptercheck schema s3://BUCKET/PREFIX?region=eu-central-1
  adaptercheck schema sqlite:./my.db --apply`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("schema takes one DSN, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := c.parseTarget(args[0])
			if err != nil {
				return err
			}
			if t.dsn == "" {
				return usagef("schema needs a DSN, for example %s", t.adapter.Example)
			}
			if t.adapter.Schema == nil {
				return usagef("%s needs nothing before it is opened", t.adapter.Name)
			}
			parts, err := t.adapter.Schema(t.dsn)
			if err != nil {
				return usagef("%s: %w", t.Name(), err)
			}
			if apply {
				return c.applySchema(cmd.Context(), t)
			}
			if asJSON {
				return c.printJSON(schemaJSON(parts))
			}
			for i, p := range parts {
				if i > 0 {
					c.out.printf("\n")
				}
				c.out.printf("%s %s\n\n%s", c.out.bold("#"), c.out.bold(p.Title), p.Text)
			}
			return nil
		},
		ValidArgsFunction: c.completeTarget,
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "create what is missing, then probe the store")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.MarkFlagsMutuallyExclusive("apply", "json")
	return cmd
}

// applySchema creates what is missing, and proves that the store works.
func (c *cli) applySchema(ctx context.Context, t target) error {
	if t.adapter.Create != nil {
		if err := t.adapter.Create(ctx, t.dsn, sdk.OpenOptions{}); err != nil {
			return usagef("%s: %w", t.Name(), err)
		}
	}
	return t.use(ctx, func(_ *subject, store sdk.FencedStore) error {
		if err := store.Probe(ctx); err != nil {
			return usagef("%s was created, and its probe failed: %w", t.Name(), err)
		}
		c.out.printf("%s: created, or there already; the probe passed\n", t.Name())
		return nil
	})
}

type schemaPart struct {
	Title  string `json:"title"`
	Format string `json:"format"`
	Text   string `json:"text"`
}

func schemaJSON(parts []sdk.SchemaPart) []schemaPart {
	out := make([]schemaPart, 0, len(parts))
	for _, p := range parts {
		out = append(out, schemaPart{p.Title, p.Format, strings.TrimRight(p.Text, "\n") + "\n"})
	}
	return out
}
