// Adaptercheck certifies an adapter of fencedstore against every law that a
// store must keep, and shows a person what the laws are for.
//
//	adaptercheck certify sqlite
//	adaptercheck demo
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program; it returns the exit code. The first SIGINT or
// SIGTERM ends the run in order, a second one at once.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	c := &cli{adapters: builtin(), stdin: stdin, out: newScreen(stdout), err: newScreen(stderr)}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return c.exit(root.ExecuteContext(ctx))
}
