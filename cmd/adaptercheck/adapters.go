package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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

// adapterJSON is one adapter as listed.
type adapterJSON struct {
	Name         string           `json:"name"`
	Schemes      []string         `json:"schemes"`
	Example      string           `json:"example"`
	About        string           `json:"about"`
	Fresh        bool             `json:"fresh"` // the bare name gives a temporary store
	Version      string           `json:"version"`
	Backend      string           `json:"backend"`
	Environment  string           `json:"environment"`
	Kinds        []string         `json:"kinds"`
	Capabilities []capabilityJSON `json:"capabilities"`
	Limits       limitsJSON       `json:"limits"`
}

type capabilityJSON struct {
	Name    string `json:"name"`
	Support string `json:"support"`
	Reason  string `json:"reason,omitempty"`
}

type limitsJSON struct {
	Effects    int   `json:"effects"` // 0: none stated
	ValueBytes int   `json:"valueBytes"`
	TotalBytes int64 `json:"totalBytes"`
	Quarantine int   `json:"quarantine"`
}

// describe asks a fresh store of every adapter what it is. One that needs a
// server is listed without.
func (c *cli) describe(ctx context.Context) ([]adapterJSON, error) {
	out := []adapterJSON{}
	for i := range c.adapters {
		a := &c.adapters[i]
		entry := adapterJSON{Name: a.Name, Schemes: a.Schemes, Example: a.Example, About: a.About, Fresh: a.Fresh != nil,
			Kinds: []string{}, Capabilities: []capabilityJSON{}}
		if a.Fresh != nil {
			d, err := a.describe(ctx)
			if err != nil {
				return nil, err
			}
			entry.Version, entry.Backend, entry.Environment = d.Version, d.Backend, string(d.Environment)
			entry.Kinds, entry.Limits = d.Kinds, limitsJSON(d.Limits)
			for _, k := range sdk.Capabilities() {
				said := d.Capabilities[k]
				entry.Capabilities = append(entry.Capabilities, capabilityJSON{string(k), said.Support.String(), said.Reason})
			}
		}
		out = append(out, entry)
	}
	return out, nil
}

func (a *adapter) describe(ctx context.Context) (d sdk.Description, err error) {
	s, err := target{Arg: a.Name, adapter: a}.bind()
	if err != nil {
		return d, err
	}
	defer func() {
		if rerr := s.remove(); err == nil {
			err = rerr
		}
	}()
	store, err := s.open(ctx, sdk.OpenOptions{})
	if err != nil {
		return d, err
	}
	d = store.Describe()
	return d, store.Close()
}

func (c *cli) printAdapter(a *adapterJSON) {
	o := c.out
	o.printf("%s  %s\n", o.bold(a.Name), o.dim(strings.TrimSpace(a.Example+"  "+a.Version)))
	o.wrapped("  ", a.About)
	if a.Backend != "" {
		o.printf("  %-16s %s\n", "backend", a.Backend+" ("+a.Environment+")")
	}
	for _, k := range a.Capabilities {
		text := k.Support
		if k.Reason != "" {
			text += ": " + k.Reason
		}
		o.wrapped(fmt.Sprintf("  %-16s ", k.Name), text)
	}
	if len(a.Kinds) > 0 {
		o.wrapped(fmt.Sprintf("  %-16s ", "effect kinds"), strings.Join(a.Kinds, ", "))
		o.wrapped(fmt.Sprintf("  %-16s ", "one mutation"), fmt.Sprintf("%s effects, %s bytes each, %s bytes together",
			most(int64(a.Limits.Effects)), most(int64(a.Limits.ValueBytes)), most(a.Limits.TotalBytes)))
		o.printf("  %-16s %s records per resource\n", "quarantine", most(int64(a.Limits.Quarantine)))
	}
}

// most writes a limit.
func most(n int64) string {
	if n == 0 {
		return "any number of"
	}
	return "up to " + thousands(n)
}
