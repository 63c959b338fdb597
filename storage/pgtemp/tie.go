package pgtemp

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is a program that ends with this process at the latest. Its methods may be called from several goroutines.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	exit error // read it after done
}

// timerSlack is by how much the kernel may delay the timers of a child, to let several of them fire at once.
const timerSlack = 500 * time.Microsecond

// StartTied starts cmd so that it gets the signal onDeath when this process ends, kill -9 included.
// cmd runs in a process group of its own: a ctrl-C in the terminal reaches only the process that started
// it, which then stops its children in the right order.
//
// The kernel watches not the parent process but the parent *thread*. Go ends threads as it likes, so the child is
// forked by a goroutine that keeps its thread until the child has ended.
func StartTied(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = onDeath
	cmd.SysProcAttr.Setpgid = true

	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		// The child inherits it. Go's monitor thread sleeps for 20 µs at a time: its wake-ups are a tenth of the processor
		// time of a program under load.
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0)  // never fails
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }() // the default again
		err := cmd.Start()
		started <- err
		if err == nil {
			p.exit = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns how the process ended, once it has ended.
func (p *Process) Wait() error {
	<-p.done
	return p.exit
}

// Kill ends the process with SIGKILL and returns when it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it has already ended
	<-p.done
}

// End asks the process to end, with a signal. After timeout it kills the process and returns an error.
func (p *Process) End(ask os.Signal, timeout time.Duration) error {
	_ = p.cmd.Process.Signal(ask) // an error means that it has already ended
	select {
	case <-p.done:
		return nil
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("did not stop within %v and was killed", timeout)
	}
}

// Ready repeats look until it returns nil. When the process or ctx ends first, Ready's error has look's last one.
func (p *Process) Ready(ctx context.Context, look func(context.Context) error) error {
	for {
		err := look(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended (%v): %w", p.cmd.ProcessState, err)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
