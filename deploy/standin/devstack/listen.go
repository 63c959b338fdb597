package devstack

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"example.com/checkout/storage/pgtemp"
)

// checkFree returns an error when something listens on the port. The error names flag, the command's option for
// another port.
func checkFree(port int, flag string) error {
	err := pgtemp.CheckFree(port)
	if errors.Is(err, pgtemp.ErrPortTaken) {
		return fmt.Errorf("%w: end the program that has it, or choose another port with %s", err, flag)
	}
	return err
}

// listen listens on a port that this process had open a moment ago, as pgtemp.CheckFree has. Another thread's
// epoll_wait, and a child process before its exec, may still have it open.
func listen(addr string) (net.Listener, error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		listener, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > time.Second {
			return listener, err
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
