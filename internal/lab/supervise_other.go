//go:build !linux

package lab

import (
	"os/exec"
	"syscall"
)

// supervise starts cmd in a process group of its own and waits for it.
func supervise(cmd *exec.Cmd, started chan<- error, done chan<- struct{}) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Start()
	started <- err
	if err == nil {
		cmd.Wait()
		close(done)
	}
}
