package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

func (c *cli) explainCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Explain a law or a case: why it matters, how adapters break it, how to fix it",
		Example: `  adaptercheck explain F1
  adaptercheck explain ` + firstCase(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one law or case, for example 'adaptercheck explain F1'; 'adaptercheck checks' lists the cases")
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions(explainable(), cobra.ShellCompDirectiveNoFileComp),
		RunE:              func(_ *cobra.Command, args []string) error { return c.explain(args[0]) },
	}
}

func firstCase() string { return conformance.Cases()[0].ID }

func explainable() []string {
	var out []string
	for _, l := range sdk.Laws() {
		out = append(out, string(l.ID))
	}
	return append(out, caseIDs()...)
}

func (c *cli) explain(id string) error {
	for _, l := range sdk.Laws() {
		if strings.EqualFold(string(l.ID), id) || strings.EqualFold(l.Name, id) {
			c.explainLaw(l)
			c.casesOf(l.ID)
			return nil
		}
	}
	for _, k := range conformance.Cases() {
		if k.ID == id {
			o := c.out
			o.printf("%s%s\n\n", o.bold(k.ID), o.dim(needs(k.Needs)))
			o.wrapped("  ", k.Explain)
			o.printf("\n")
			for _, l := range sdk.Laws() {
				if l.ID == k.Law {
					c.explainLaw(l)
				}
			}
			o.printf("\n%s\n", o.dim("run it:  adaptercheck certify --run '^"+k.ID+"$' TARGET"))
			return nil
		}
	}
	return usagef("%q is neither a law nor a case%s; 'adaptercheck checks' lists them", id, didYouMean(id, explainable()))
}

func (c *cli) explainLaw(l sdk.LawText) {
	o := c.out
	o.printf("%s %s\n\n", o.bold(string(l.ID)+" "+l.Name), o.dim("kept by the "+l.Keeper))
	o.wrapped("  ", l.Sentence)
	for _, p := range []struct{ head, text string }{
		{"Why it matters", l.Why}, {"How adapters break it", l.Breaks}, {"How to fix it", l.Fix},
	} {
		if p.text != "" {
			o.printf("\n%s\n", o.bold(p.head))
			o.wrapped("  ", p.text)
		}
	}
}

func (c *cli) casesOf(law sdk.Law) {
	var ids []string
	for _, k := range conformance.Cases() {
		if k.Law == law {
			ids = append(ids, k.ID)
		}
	}
	if len(ids) > 0 {
		c.out.printf("\n%s\n", c.out.bold("Cases"))
		for _, id := range ids {
			c.out.printf("  %s\n", id)
		}
	}
}
