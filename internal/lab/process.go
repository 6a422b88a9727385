package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Required is the variable that `make test` sets: a server that is missing then
// fails the test instead of skipping it.
const Required = "FENCEDSTORE_SERVERS_REQUIRED"

// startTimeout is far above what any server needs; it ends a run that hangs.
const startTimeout = 2 * time.Minute

// Process is a server that runs.
type Process struct {
	Place
	Server *Server

	tb   testing.TB
	log  string
	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// Need returns where s is installed, or skips the test, saying how to get it;
// under make test it fails instead.
func Need(tb testing.TB, s *Server) string {
	tb.Helper()
	dir, err := s.Installed()
	switch {
	case err == nil:
		return dir
	case !errors.Is(err, fs.ErrNotExist), os.Getenv(Required) != "":
		tb.Fatalf("%v; run: go run ./internal/lab/labctl setup %s", err, s.Name)
	}
	tb.Skipf("%v; to have it: go run ./internal/lab/labctl setup %s (or make servers)", err, s.Name)
	return ""
}

// Start runs s on a free port, with data in a folder of its own, until the test
// ends. Its output is kept below .cache/lab/logs, and shown if the test fails.
func Start(tb testing.TB, s *Server) *Process {
	tb.Helper()
	p := &Process{Server: s, tb: tb, Place: Place{Install: Need(tb, s), Host: "127.0.0.1"}}
	data, err := os.MkdirTemp("", "fencedstore-lab-*")
	if err != nil {
		tb.Fatal(err)
	}
	p.Data = data
	if p.log, err = logFile(tb, s); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Kill()
		os.RemoveAll(data)
		if tb.Failed() {
			tb.Logf("%s wrote (all of it: %s):\n%s", s.Name, p.log, tail(p.log))
		}
	})
	// Between finding a port free and the server's taking it, somebody else may.
	for range 5 {
		if p.Port, err = freePort(); err != nil {
			tb.Fatal(err)
		}
		if err = p.start(); err == nil {
			return p
		}
	}
	tb.Fatalf("%s did not start: %v\n%s", s.Name, err, tail(p.log))
	return nil
}

// URL is the address as http://HOST:PORT.
func (p *Process) URL() string { return "http://" + p.Addr() }

// Kill ends the process and its children with SIGKILL, and returns when they
// are gone. A process that has ended is no error.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
	p.cmd = nil
}

// Restart starts the server again on the same data and port after Kill.
func (p *Process) Restart() {
	p.tb.Helper()
	p.Kill()
	if err := p.start(); err != nil {
		p.tb.Fatalf("%s did not start again: %v\n%s", p.Server.Name, err, tail(p.log))
	}
}

func (p *Process) start() error {
	argv, env, err := p.Server.Command(p.Place)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Data, append(os.Environ(), env...), out, out
	done, started := make(chan struct{}), make(chan error)
	go supervise(cmd, started, done)
	if err := <-started; err != nil {
		return err
	}
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	if err := p.ready(done); err != nil {
		p.Kill()
		return err
	}
	return nil
}

// ready waits until the server answers, or has ended.
func (p *Process) ready(done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return errors.New("it ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v", startTimeout)
		case <-tick.C:
		}
		if p.Server.Ready != "" {
			if answers(ctx, p.URL()+p.Server.Ready) {
				return nil
			}
		} else if c, err := net.Dial("tcp", p.Addr()); err == nil {
			c.Close()
			return nil
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

func logFile(tb testing.TB, s *Server) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "lab", "logs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := filepath.Join(dir, s.Name+"-"+unsafeInName.ReplaceAllString(tb.Name(), "_")+".log")
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return name, nil
}

// tail is the end of a log.
func tail(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(b), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
