//go:build !linux

package pgtemp

import (
	"os/exec"
	"syscall"
)

// StartTied starts cmd in a process group of its own. Only Linux can end cmd together with this process: elsewhere a
// kill -9 of this process leaves cmd running, and the next [Start] on the same directory stops it.
// exited receives the result of cmd.Wait once and is then closed.
func StartTied(cmd *exec.Cmd, _ syscall.Signal) (exited <-chan error, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		defer close(done)
		done <- cmd.Wait()
	}()
	return done, nil
}
