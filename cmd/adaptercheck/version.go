package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/conformance"
)

func (c *cli) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of adaptercheck and of the suite",
		Example: "  adaptercheck version",
		Args:    noArguments,
		Run: func(*cobra.Command, []string) {
			c.out.printf("adaptercheck %s, conformance suite %s, %s %s/%s\n",
				buildVersion(), conformance.SuiteVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

// buildVersion is the module's version, with the commit where it was built from
// a checkout.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
