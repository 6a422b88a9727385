//go:build !unix

package plugins

import (
	"os"
	"os/exec"
)

// Elsewhere there are no process groups: a plug-in's own children end by
// themselves.
func ownGroup(*exec.Cmd) {}

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

func endGroup() { os.Exit(3) }

func closeOnExec(int) {}

func tryLock(*os.File) bool { return false }
