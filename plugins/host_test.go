package plugins

import (
	"bufio"
	"context"
	"errors"
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
			defer os.RemoveAll(temp)
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
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left in the temporary folder: %v %v", left, err)
			}
		})
	}
}

// A private folder whose host was killed, and whose plug-in could not remove it,
// goes with the next start; one that is in use stays.
func TestSweep(t *testing.T) {
	s, _ := open(t, "good")
	temp := s.plugin.opts.TempDir
	dead := filepath.Join(temp, privatePrefix+"123")
	if err := os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, lockName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := s.plugin.opts
	second, err := Open(t.Context(), self(t), &o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead folder is there: %v", err)
	}
	if _, err := os.Stat(s.plugin.im.path); err != nil {
		t.Errorf("the folder in use is gone: %v", err)
	}
}
