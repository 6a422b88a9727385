package lab

import (
	"os/exec"
	"runtime"
	"syscall"
)

// supervise starts cmd in a process group of its own and waits for it. The
// kernel kills it when the thread that started it ends, so this goroutine keeps
// its thread: a test process that is killed leaves no server behind.
func supervise(cmd *exec.Cmd, started chan<- error, done chan<- struct{}) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	started <- err
	if err == nil {
		cmd.Wait()
		close(done)
	}
}
