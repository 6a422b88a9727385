package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// interrupt SIGNAL N args... runs adaptercheck and sends it SIGNAL as soon as
// it reports its first finished case; it must end with exit code N.
func interruptCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: interrupt SIGNAL N args...")
	}
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM}[args[0]]
	self, err := os.Executable()
	ts.Check(err)
	cmd := exec.Command(self, args[2:]...)
	cmd.Args[0] = "adaptercheck"
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"TMPDIR", "HOME", "PATH", "WORK"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	var out strings.Builder
	cmd.Stdout = &out
	ts.Check(cmd.Start())
	lines := bufio.NewReader(stderr)
	first, err := lines.ReadString('\n')
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		ts.Fatalf("ended before its first case: %v\n%s", err, out.String())
	}
	ts.Logf("first: %s", first)
	ts.Check(cmd.Process.Signal(sig))
	rest, err := io.ReadAll(lines)
	ts.Check(err)
	cmd.Wait()
	ts.Logf("%s%s", rest, out.String())
	ts.Check(os.WriteFile(ts.MkAbs("interrupted.txt"), []byte(out.String()), 0o644))
	if got := cmd.ProcessState.ExitCode(); args[1] != string(rune('0'+got)) {
		ts.Fatalf("exit code %d, want %s", got, args[1])
	}
}
