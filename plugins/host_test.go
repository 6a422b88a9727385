package plugins

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// hostUntilKilled is a host in a process of its own: it prints the plug-in's
// process ID and waits to be killed.
func hostUntilKilled(mode string) {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	s, err := Open(context.Background(), path, &Options{DSN: "toy:", Env: []string{modeEnv + "=" + mode}, TempDir: os.Getenv("FENCEDSTORE_TEST_TEMP")})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Plugin().PID())
	for n := sdk.Segment(1); ; n++ {
		s.Apply(context.Background(), admission(mutation(7, n, fmt.Sprint("op-", n))))
	}
}

// C33: a plug-in whose host was SIGKILLed ends within 3 s, with its children,
// whatever it is doing.
func TestHostKilled(t *testing.T) {
	for _, mode := range []string{"good", "child", "rpc:deaf"} {
		t.Run(mode, func(t *testing.T) {
			temp, err := os.MkdirTemp("", "t")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(temp) // a killed host leaves its private folder
			cmd := exec.Command(self(t))
			cmd.Env = append(os.Environ(), "FENCEDSTORE_TEST_HOST="+mode, "FENCEDSTORE_TEST_TEMP="+temp)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var pid int
			if _, err := fmt.Fscan(bufio.NewReader(out), &pid); err != nil {
				t.Fatal(err)
			}
			if !alive(pid) {
				t.Fatal("the plug-in does not run")
			}
			cmd.Process.Kill()
			cmd.Wait()
			limit := time.Now().Add(3 * time.Second)
			for alive(pid) {
				if time.Now().After(limit) {
					t.Fatalf("the plug-in is alive after 3 s")
				}
			}
			if left, _ := filepath.Glob(filepath.Join(temp, privatePrefix+"*")); len(left) > 1 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
