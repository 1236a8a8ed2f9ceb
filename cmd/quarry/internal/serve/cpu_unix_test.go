//go:build unix

package serve

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the processor time that this process has had.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // its arguments are good
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
