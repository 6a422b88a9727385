package plugins

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxHandshake bounds the first line, which holds a certificate.
const maxHandshake = 16 << 10

// runner starts one process and is its only owner. It implements go-plugin's
// runner.Runner, so that go-plugin sees nothing but a handshake that was
// checked: its own reading of standard error can be made to panic, and its own
// kill leaves a plug-in's children behind.
type runner struct {
	cmd      *exec.Cmd
	out, err *lines
	floor    int

	alive     *os.File // the host's end; closed when the process is done with
	toPlugin  *io.PipeReader
	handshake *io.PipeWriter
	quiet     *io.PipeReader // what go-plugin takes for standard error
	quietEnd  *io.PipeWriter

	exited  chan struct{} // closed when it is gone and reaped, its group too
	drained sync.WaitGroup

	mu    sync.Mutex
	fault *Fault
	state *os.ProcessState
	gone  bool // the process's number may be another's from now on
	cut   bool // the host killed it
	pid   int  // 0 until it runs
	shook bool // the handshake was good
}

// newRunner makes the owner of a process to be; go-plugin gives it cmd.
func newRunner(out, errs *lines, floor int) *runner {
	r := &runner{out: out, err: errs, floor: floor, exited: make(chan struct{})}
	r.toPlugin, r.handshake = io.Pipe()
	r.quiet, r.quietEnd = io.Pipe()
	return r
}

func (r *runner) fail(f *Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil {
		r.fault = f
	}
}

// failed is the first fault that was seen.
func (r *runner) failed() *Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// Start starts the process.
func (r *runner) Start(context.Context) error {
	if err := r.start(); err != nil {
		f := startFault(err)
		r.fail(f)
		r.handshake.CloseWithError(io.EOF)
		r.quietEnd.Close()
		close(r.exited)
		return f
	}
	return nil
}

func startFault(err error) *Fault {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return faultf(NotExecutable, "this machine cannot execute it: %w", err)
	case errors.Is(err, os.ErrPermission):
		return faultf(NotExecutable, "the copy may not be executed; the folder (from TMPDIR or Options.TempDir) may be mounted noexec: %w", err)
	case errors.Is(err, os.ErrNotExist):
		return faultf(NotExecutable, "its interpreter or loader is missing: %w", err)
	}
	return faultf(NotExecutable, "it cannot be started: %w", err)
}

func (r *runner) start() error {
	aliveRead, aliveWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return errors.Join(err, aliveRead.Close(), aliveWrite.Close())
	}
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return errors.Join(err, aliveRead.Close(), aliveWrite.Close(), outRead.Close(), outWrite.Close())
	}
	r.cmd.Stdin = nil // the null device
	r.cmd.Stdout, r.cmd.Stderr = outWrite, errWrite
	r.cmd.ExtraFiles = []*os.File{aliveRead} // 3
	r.cmd.Env = append(r.cmd.Env, aliveEnv+"=3")
	ownGroup(r.cmd)
	r.mu.Lock()
	if err = startBusy(r.cmd); err == nil {
		r.pid = r.cmd.Process.Pid
		if r.cut { // while it was being started
			killGroup(r.pid)
		}
	}
	r.mu.Unlock()
	_ = errors.Join(aliveRead.Close(), outWrite.Close(), errWrite.Close())
	if err != nil {
		return errors.Join(err, aliveWrite.Close(), outRead.Close(), errRead.Close())
	}
	r.alive = aliveWrite
	r.drained.Go(func() { r.readStdout(outRead) })
	r.drained.Go(func() { r.err.drain(errRead) })
	go r.reap(outRead, errRead)
	return nil
}

// startBusy starts cmd. A process that another goroutine forks at the wrong
// moment holds the copy open for writing until it executes (Go issue 22315).
func startBusy(cmd *exec.Cmd) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := cmd.Start()
		if !errors.Is(err, syscall.ETXTBSY) || wait > time.Second {
			return err
		}
		again := exec.Cmd{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, Stdin: cmd.Stdin, Stdout: cmd.Stdout,
			Stderr: cmd.Stderr, ExtraFiles: cmd.ExtraFiles, SysProcAttr: cmd.SysProcAttr}
		*cmd = again
		time.Sleep(wait)
	}
}

// reap waits for the end, kills what is left of the group, and closes up.
func (r *runner) reap(outRead, errRead *os.File) {
	pid := r.process()
	awaitExit(pid)
	killGroup(pid)
	r.mu.Lock()
	r.gone = true
	r.mu.Unlock()
	_ = r.cmd.Wait()
	// A process that left the group may still hold the pipes: it is not waited
	// for longer than it takes to read what was written.
	done := make(chan struct{})
	go func() { r.drained.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	_ = errors.Join(outRead.Close(), errRead.Close(), r.alive.Close())
	<-done
	r.mu.Lock()
	r.state = r.cmd.ProcessState
	r.mu.Unlock()
	r.handshake.Close()
	r.quietEnd.Close()
	close(r.exited)
}

// readStdout checks the handshake, passes it on, and logs what follows.
func (r *runner) readStdout(f *os.File) {
	in := bufio.NewReaderSize(f, maxHandshake)
	line, err := in.ReadSlice('\n')
	if f := r.checkHandshake(line, err); f != nil {
		if f.Reason != Exited && !(err != nil && r.was(&r.cut)) { // told better where they are seen
			r.fail(f)
		}
		_, _ = r.out.Write(line)
		if f.Reason == Exited { // it is about to; reap closes the handshake
			time.AfterFunc(time.Second, func() { r.end(false) })
		} else {
			r.handshake.Close()
			r.kill()
		}
	} else {
		r.mu.Lock()
		r.shook = true
		r.mu.Unlock()
		_, _ = r.handshake.Write(bytes.Clone(line))
	}
	r.out.drain(in)
}

// checkHandshake reads CORE|VERSION|NETWORK|ADDRESS|PROTOCOL|CERTIFICATE.
func (r *runner) checkHandshake(line []byte, err error) *Fault {
	if err != nil && len(line) == 0 {
		return faultf(Exited, "it closed its standard output")
	}
	text := strings.TrimRight(string(line), "\r\n")
	parts := strings.Split(text, "|")
	core, cerr := strconv.Atoi(parts[0])
	if err != nil || len(parts) < 4 || cerr != nil {
		return faultf(StdoutNoise, "it wrote %s to its standard output before the handshake; a plug-in logs to standard error", strconv.Quote(printable([]byte(clipText(text, 200)))))
	}
	version, verr := strconv.Atoi(parts[1])
	switch {
	case core != 1:
		return faultf(WrongProtocol, "version %d of go-plugin's own protocol; this host speaks 1", core)
	case verr != nil || version < r.floor || version > ProtocolVersion:
		return faultf(WrongVersion, "it speaks version %s of the protocol; this host speaks %d and takes nothing below %d", printable([]byte(clipText(parts[1], 20))), ProtocolVersion, r.floor)
	case len(parts) < 5 || parts[4] != "grpc":
		return faultf(WrongProtocol, "it serves something other than gRPC")
	case parts[2] != "unix" && parts[2] != "tcp":
		return faultf(WrongProtocol, "an address of the kind %s", strconv.Quote(clipText(parts[2], 20)))
	case parts[2] == "tcp" && !loopback(parts[3]):
		return faultf(WrongProtocol, "an address that is not on the loopback")
	case len(parts) < 6 || len(parts[5]) <= 50:
		return faultf(NoTLS, "it offers no certificate; there is no way without TLS")
	}
	return nil
}

func loopback(addr string) bool { return strings.HasPrefix(addr, "127.0.0.1:") }

func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}

func (r *runner) was(flag *bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *flag
}

// kill ends the process and its group at once.
func (r *runner) kill() { r.end(true) }

func (r *runner) end(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return
	}
	r.cut = r.cut || cut
	if r.pid != 0 {
		killGroup(r.pid)
	}
}

// Wait waits until the process, and its group, are gone.
func (r *runner) Wait(ctx context.Context) error {
	select {
	case <-r.exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill kills the group and waits for its end.
func (r *runner) Kill(ctx context.Context) error {
	r.kill()
	return r.Wait(ctx)
}

// ending says how the process ended and what it said last.
func (r *runner) ending() string {
	r.mu.Lock()
	state := r.state
	r.mu.Unlock()
	text := "it ended"
	if state != nil {
		text = "it ended with " + state.String()
	}
	if tail := r.err.tail(); tail != "" {
		text += "; its last words: " + strconv.Quote(tail)
	}
	return text
}

// Stdout gives go-plugin the handshake and nothing else.
func (r *runner) Stdout() io.ReadCloser { return r.toPlugin }

// Stderr gives go-plugin nothing until the process ends.
func (r *runner) Stderr() io.ReadCloser { return r.quiet }

// Name is the file's name.
func (r *runner) Name() string { return filepath.Base(r.cmd.Path) }

// ID is the process ID.
func (r *runner) ID() string {
	return fmt.Sprint(r.process())
}

func (r *runner) process() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pid
}

// Diagnose has nothing that the fault does not say.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost and HostToPlugin: both are on one machine.
func (r *runner) PluginToHost(n, a string) (string, string, error) { return n, a, nil }
func (r *runner) HostToPlugin(n, a string) (string, string, error) { return n, a, nil }
