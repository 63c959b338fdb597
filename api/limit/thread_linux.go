package limit

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	yield  = 10 // steps of niceness: about a tenth of a busy processor's time
	lowest = 19
)

// lowerPriority gives the calling goroutine its own thread until the goroutine ends. It lowers the
// thread's priority, so that other threads go first.
func lowerPriority() {
	runtime.LockOSThread() // never unlocked: the low priority cannot be undone, so the thread must end with the goroutine
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	niceness := 20 - raw // the system call returns 40 for -20 and 1 for 19
	// On Linux, 0 is the calling thread. After an error the priority stays as it was.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(lowest, niceness+yield))
}
