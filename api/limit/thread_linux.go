package limit

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	yield  = 10 // steps of niceness: a tenth of the time of a processor that others want, too
	lowest = 19
)

// yielding gives the calling goroutine a thread of its own until it ends, and lets
// the other threads of the computer go first.
func yielding() {
	runtime.LockOSThread() // never unlocked: the thread cannot go back, and ends with the goroutine
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	niceness := 20 - raw // the system call has 40 for -20 and 1 for 19
	// In Linux 0 is the calling thread. An error leaves the priority as it was.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(lowest, niceness+yield))
}
