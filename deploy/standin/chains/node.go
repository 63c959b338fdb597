package chains

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"example.com/checkout/storage/pgtemp"
)

// A node is the process of a node, which can be started again. Its methods may be called from several goroutines.
type node struct {
	mu      sync.Mutex
	process *pgtemp.Process
}

// start starts cmd and returns when look returns nil. The process gets the signal onDeath when this one ends.
func (n *node) start(
	ctx context.Context, cmd *exec.Cmd, onDeath syscall.Signal, look func(context.Context) error,
) error {
	var said bytes.Buffer // a node prints next to nothing
	cmd.Stdout, cmd.Stderr = &said, &said
	process, err := pgtemp.StartTied(cmd, onDeath)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.process = process
	n.mu.Unlock()

	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("it does not answer within 30 s"))
	defer cancel()
	if err := process.Ready(ctx, look); err != nil {
		process.Kill() // nothing writes to said afterwards
		return fmt.Errorf("%w\n%s", err, &said)
	}
	return nil
}

// current returns the process of the last start, nil if there was none.
func (n *node) current() *pgtemp.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// PID returns the process id.
func (n *node) PID() int { return n.current().PID() }

// Done returns a channel that is closed when the process has ended.
func (n *node) Done() <-chan struct{} { return n.current().Done() }

func (n *node) kill() {
	if process := n.current(); process != nil {
		process.Kill()
	}
}
