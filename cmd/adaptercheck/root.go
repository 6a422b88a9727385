package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fencedstore/fencedstore/sdk"
)

// Exit codes. Of several targets the highest counts.
const (
	exitOK         = 0 // certified, or the command did what it was asked
	exitShort      = 1 // a law is broken or not proven
	exitUsage      = 2 // a flag or an argument is wrong, or a store cannot be opened
	exitIncomplete = 3 // interrupted, or cases did not get to run
)

// cli is what every command shares.
type cli struct {
	adapters []adapter
	stdin    io.Reader
	out, err *screen
	noColor  bool
}

// exitError ends the program with a code of its own. With a nil Err all has
// been said.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

// usagef is an error of the person at the keyboard: what is wrong and what to
// do.
func usagef(format string, args ...any) error {
	return &exitError{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}

// exit prints err unless that was done and returns the exit code.
func (c *cli) exit(err error) int {
	if err == nil {
		return exitOK
	}
	code := exitUsage
	var e *exitError
	if errors.As(err, &e) {
		code = e.Code
		if e.Err == nil {
			return code
		}
	}
	c.err.printf("%s %s\n", c.err.red("adaptercheck:"), plainError(err))
	return code
}

// plainError leaves out the code of an INVALID: the field and the text say it.
func plainError(err error) string {
	var e *sdk.Error
	if errors.As(err, &e) && e.Code == sdk.Invalid && err == error(e) {
		return e.Field + ": " + e.Msg
	}
	return err.Error()
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "adaptercheck",
		Short: "Certify that a store accepts writes from its newest owner only",
		Long: `Adaptercheck certifies an adapter of fencedstore: it plays every law that a
store must keep against the real store, races and kills real writers, and says
in one sentence whether the store can be trusted with fenced writes.`,
		Example: `  adaptercheck demo                      why a lock is not enough, in two seconds
  adaptercheck certify sqlite            the durable store that comes with fencedstore
  adaptercheck certify sqlite:./my.db    a store of your own
  adaptercheck explain F1                what a law says and how adapters break it`,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
		Args:                  noCommand,
		RunE:                  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			if c.noColor {
				c.out.color, c.err.color = false, false
			}
		},
	}
	root.PersistentFlags().BoolVar(&c.noColor, "no-color", false, "no colour, as with NO_COLOR in the environment")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see '%s --help'", err, cmd.CommandPath())
	})
	root.AddCommand(c.certifyCmd(), c.demoCmd(), c.checksCmd(), c.explainCmd(), c.replayCmd(),
		c.schemaCmd(), c.verifyCmd(), c.newCmd(), c.adaptersCmd(), c.versionCmd(), c.writerCmd())
	return root
}

// noCommand refuses a word that is no command and names the near ones.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return usagef("%q is not a command%s; see 'adaptercheck --help'", args[0], didYouMean(args[0], names))
}
