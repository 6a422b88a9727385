// Command labctl installs, lists and runs the servers that tests need.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"github.com/fencedstore/fencedstore/internal/lab"
)

const usage = `usage: labctl list                 the servers, with what each cannot prove
       labctl setup [NAME…]        install them below .cache/lab; all of them without names
       labctl run NAME [PORT]      run one in the foreground, with data in .cache/lab/data/NAME`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "labctl:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "list":
		for _, s := range lab.Servers() {
			fmt.Printf("%-12s %-8s %s\n%22scannot prove: %s\n", s.Name, s.Version, s.About, "", s.Cannot)
		}
		return nil
	case len(args) >= 1 && args[0] == "setup":
		return setup(ctx, args[1:])
	case (len(args) == 2 || len(args) == 3) && args[0] == "run":
		return serve(ctx, args[1], append(args[2:], "8000")[0])
	}
	return fmt.Errorf("%s", usage)
}

// setup installs two at a time: most of it is waiting for the network.
func setup(ctx context.Context, names []string) error {
	list := lab.Servers()
	if len(names) > 0 {
		list = nil
		for _, n := range names {
			s := lab.Find(n)
			if s == nil {
				return fmt.Errorf("there is no server %q; see: labctl list", n)
			}
			list = append(list, s)
		}
	}
	errs := make([]error, len(list))
	slots := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for i, s := range list {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if errs[i] = s.Setup(ctx); errs[i] == nil {
				fmt.Printf("ok    %s %s\n", s.Name, s.Version)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func serve(ctx context.Context, name, port string) error {
	s := lab.Find(name)
	if s == nil {
		return fmt.Errorf("there is no server %q; see: labctl list", name)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("port %q is not 1 to 65535", port)
	}
	if err := s.Setup(ctx); err != nil {
		return err
	}
	at := lab.Place{Host: "127.0.0.1", Port: int(n)}
	if at.Install, err = s.Installed(); err != nil {
		return err
	}
	if at.Data, err = lab.DataDir(name); err != nil {
		return err
	}
	argv, env, err := s.Command(at)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = at.Data, append(os.Environ(), env...), os.Stdout, os.Stderr
	fmt.Printf("%s %s at %s, data in %s; ctrl-c ends it\n", s.Name, s.Version, at.Addr(), at.Data)
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
