package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

func (c *cli) checksCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "checks",
		Short: "List every case of the suite: its ID, its law and what it does",
		Example: `  adaptercheck checks
  adaptercheck checks --json`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return c.checksJSON()
			}
			c.checks()
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of {id, law, needs, explain}")
	return cmd
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, and was given %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func (c *cli) checks() {
	o := c.out
	cases := conformance.Cases()
	for i, law := range caseLaws(cases) {
		if i > 0 {
			o.printf("\n")
		}
		o.printf("%s\n", o.bold(lawName(law)))
		for j := range cases {
			if cases[j].Law != law {
				continue
			}
			o.printf("  %s%s\n", cases[j].ID, o.dim(needs(cases[j].Needs)))
			o.wrapped("      ", cases[j].Explain)
		}
	}
	o.printf("\n%s\n", o.dim(thousands(int64(len(cases)))+" cases. 'adaptercheck explain ID' says more of a case or a law."))
}

// caseLaws lists the laws that have cases, in the order of the laws.
func caseLaws(cases []conformance.Case) []sdk.Law {
	var out []sdk.Law
	for _, l := range sdk.Laws() {
		for i := range cases {
			if cases[i].Law == l.ID {
				out = append(out, l.ID)
				break
			}
		}
	}
	return out
}

func needs(caps []sdk.Capability) string {
	if len(caps) == 0 {
		return ""
	}
	var names []string
	for _, c := range caps {
		names = append(names, string(c))
	}
	return "  needs " + strings.Join(names, ", ")
}

func caseIDs() []string {
	var out []string
	for _, c := range conformance.Cases() {
		out = append(out, c.ID)
	}
	return out
}

type checkJSON struct {
	ID      string           `json:"id"`
	Law     sdk.Law          `json:"law"`
	Needs   []sdk.Capability `json:"needs"`
	Explain string           `json:"explain"`
}

func (c *cli) checksJSON() error {
	out := []checkJSON{}
	for _, k := range conformance.Cases() {
		n := k.Needs
		if n == nil {
			n = []sdk.Capability{}
		}
		out = append(out, checkJSON{k.ID, k.Law, n, k.Explain})
	}
	return c.printJSON(out)
}

func (c *cli) printJSON(v any) error {
	enc := json.NewEncoder(c.out.w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
