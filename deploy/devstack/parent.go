package devstack

import (
	"context"
	"os"
	"strconv"
	"time"
)

// DieWithParent returns a context that ends when ctx ends or when the `go run` that started this process is gone.
// When this process was started in another way the context is ctx with a cancel function.
//
// `go run` does not pass a SIGKILL on, and SIGTERM ends it alone, so its program would live on and hold the ports.
// The kernel's PR_SET_PDEATHSIG is no help: it fires when the parent's *thread* that forked this process ends, which
// in a Go program may be long before the parent itself. A look each second is slow and right.
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
