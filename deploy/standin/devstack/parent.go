package devstack

import (
	"context"
	"os"
	"strconv"
	"time"
)

// DieWithParent returns a context that ends when ctx ends or when the `go run` that started this process has ended. If
// this process was started in another way, the context is ctx with a cancel function.
//
// `go run` passes neither SIGKILL nor SIGTERM on, so its program would live on and hold the ports. The kernel's
// PR_SET_PDEATHSIG does not help: it fires when the parent's *thread* that forked this process ends, which in a Go
// program may be long before the parent itself. So DieWithParent looks once a second.
func DieWithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	if !isGoCommand(parent) {
		return ctx, cancel
	}
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, cancel
}

// isGoCommand reports whether process pid is the go command.
func isGoCommand(pid int) bool {
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && string(comm) == "go\n"
}
