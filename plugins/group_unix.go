//go:build unix

package plugins

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives cmd a process group of its own.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// killGroup kills a process and everything in its group.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// endGroup ends this process, and its group where it leads one.
func endGroup() {
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
	}
	os.Exit(3)
}

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }

// tryLock locks f for this process, unless another has.
func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
