package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/conformance"
	"github.com/fencedstore/fencedstore/sdk"
)

const (
	writerCommand = "serve-writer"
	writerEnv     = "ADAPTERCHECK_WRITER_DSN"
)

// writerCmd is the process that certify kills: it writes what the suite tells
// it on stdin and answers on stdout, until stdin ends.
func (c *cli) writerCmd() *cobra.Command {
	return &cobra.Command{
		Use:    writerCommand,
		Short:  "Write to a store as told on stdin (certify starts this itself, and kills it)",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dsn := os.Getenv(writerEnv)
			if dsn == "" {
				return usagef("%s is not set; 'adaptercheck certify' starts this command, it is of no use by hand", writerEnv)
			}
			t, err := c.parseAny(dsn, spawnedRef())
			if err != nil {
				return err
			}
			if !t.adapter.Kill {
				return usagef("%s: no other process can open this store", t.Name())
			}
			return t.use(cmd.Context(), func(_ *subject, store sdk.FencedStore) error {
				return conformance.ServeWriter(cmd.Context(), store, c.stdin, c.out.w)
			})
		},
	}
}
