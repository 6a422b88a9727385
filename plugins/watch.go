package plugins

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
)

// parentEvery is how often a plug-in looks whether its parent is the same.
const parentEvery = 500 * time.Millisecond

// watchHost ends this process and its group when the host is gone: when the
// pipe whose other end only the host holds is at its end, and, where there is no
// such pipe, when the parent is another. Both work after a SIGKILL.
func watchHost() (stop func(), err error) {
	done := make(chan struct{})
	if fd := os.Getenv(aliveEnv); fd != "" {
		n, err := strconv.ParseUint(fd, 10, 16)
		if err != nil || n < 3 {
			return nil, sdk.Errorf(sdk.Invalid, aliveEnv, "%q is not the number of a file descriptor", fd)
		}
		pipe := os.NewFile(uintptr(n), "alive")
		closeOnExec(int(n))
		go func() {
			var b [1]byte
			for {
				if _, err := pipe.Read(b[:]); err != nil {
					removePrivate()
					endGroup()
				}
			}
		}()
	}
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(parentEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if os.Getppid() != parent {
					removePrivate()
					endGroup()
				}
			}
		}
	}()
	return func() { close(done) }, nil
}

// removePrivate removes the folder that the host made for this process and
// cannot remove any more.
func removePrivate() {
	dir := os.Getenv(dirEnv)
	self, err := os.Executable()
	if err == nil && strings.HasPrefix(filepath.Base(dir), privatePrefix) && filepath.Dir(self) == dir {
		_ = os.RemoveAll(dir)
	}
}
