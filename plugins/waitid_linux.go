package plugins

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitExit returns when the process has ended and before it is reaped, so that
// its number still names its group and nobody else's.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
