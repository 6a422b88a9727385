package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/conformance/report"
	"github.com/fencedstore/fencedstore/sdk"
)

func (c *cli) adaptersCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "adapters",
		Short: "List the built-in adapters with their capabilities and limits",
		Example: `  adaptercheck adapters
  adaptercheck adapters --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := c.describe(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return c.printJSON(list)
			}
			for i := range list {
				if i > 0 {
					c.out.printf("\n")
				}
				c.printAdapter(&list[i])
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// listed is one adapter of the list; the embedded part is as in a report.
type listed struct {
	report.Adapter
	Schemes []string `json:"schemes"`
	Example string   `json:"example"`
	About   string   `json:"about"`
	Fresh   bool     `json:"fresh"` // the bare name gives a temporary store
}

// describe asks a fresh store of every adapter what it is. One that needs a
// server is listed by its name.
func (c *cli) describe(ctx context.Context) ([]listed, error) {
	out := []listed{}
	for i := range c.adapters {
		a := &c.adapters[i]
		d := sdk.Description{Name: a.Name}
		if a.Fresh != nil {
			err := target{Arg: a.Name, adapter: a}.use(ctx, func(_ *subject, store sdk.FencedStore) error {
				d = store.Describe()
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		out = append(out, listed{Adapter: report.NewAdapter(&d), Schemes: a.Schemes, Example: a.Example,
			About: a.About, Fresh: a.Fresh != nil})
	}
	return out, nil
}

func (c *cli) printAdapter(a *listed) {
	o := c.out
	o.printf("%s  %s\n", o.bold(a.Name), o.dim(strings.TrimSpace(a.Example+"  "+a.Version)))
	o.wrapped("  ", a.About)
	if !a.Fresh {
		return
	}
	o.printf("  %-16s %s\n", "backend", a.Backend+" ("+a.Environment+")")
	for _, k := range a.Capabilities {
		text := k.Support
		if k.Reason != "" {
			text += ": " + k.Reason
		}
		o.wrapped(fmt.Sprintf("  %-16s ", k.Name), text)
	}
	o.wrapped(fmt.Sprintf("  %-16s ", "effect kinds"), strings.Join(a.Kinds, ", "))
	o.wrapped(fmt.Sprintf("  %-16s ", "one mutation"), fmt.Sprintf("%s effects, %s bytes each, %s bytes together",
		most(int64(a.Limits.Effects)), most(int64(a.Limits.ValueBytes)), most(a.Limits.TotalBytes)))
	o.printf("  %-16s %s records per resource\n", "quarantine", most(int64(a.Limits.Quarantine)))
}

// most writes a limit.
func most(n int64) string {
	if n == 0 {
		return "any number of"
	}
	return "up to " + thousands(n)
}
