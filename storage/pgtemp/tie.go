package pgtemp

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is by how much the kernel may delay the timers of a child, to let several of them fire at once.
const timerSlack = 500 * time.Microsecond

// StartTied starts cmd so that it gets the signal onDeath when this process ends, kill -9 included.
// exited receives the result of cmd.Wait once and is then closed. cmd runs in a process group of
// its own: a ctrl-C in the terminal reaches only the process that started it, which then stops its
// children in the right order.
//
// The kernel watches not the parent process but the parent *thread*. Go ends threads as it likes, so the child is
// forked by a goroutine that keeps its thread until the child has ended.
func StartTied(cmd *exec.Cmd, onDeath syscall.Signal) (exited <-chan error, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = onDeath
	cmd.SysProcAttr.Setpgid = true

	started := make(chan error)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		// The child inherits it. Go's monitor thread sleeps for 20 µs at a time: its wake-ups are a tenth of the processor
		// time of a program under load.
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0)  // never fails
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }() // the default again
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return done, nil
}
