package devstack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Free returns n different ports of 127.0.0.1 on which nothing listens. All are below 32768: from there on Linux takes
// the ports of outgoing connections, so one of those could be gone again before it is used, and Temporal keeps its
// membership ports in a column of 16 signed bits. No port comes twice in one process: stacks that start side by side
// bind theirs only later.
func Free(n int) ([]int, error) {
	given.Lock()
	defer given.Unlock()
	ports := make([]int, 0, n)
	for tries := 0; len(ports) < n; tries++ {
		if tries > 100*n {
			return nil, fmt.Errorf("found only %d of %d free ports on 127.0.0.1", len(ports), n)
		}
		port := 10000 + rand.IntN(32768-10000)
		if given.ports[port] || CheckFree(loopback(port), "") != nil {
			continue
		}
		given.ports[port] = true
		ports = append(ports, port)
	}
	return ports, nil
}

// given are the ports that Free has returned.
var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// CheckFree returns an error when something listens on addr. The error names the address and flag, the option of the
// command that chooses another port.
func CheckFree(addr, flag string) error {
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken by another program: end it, or choose another port with %s", addr, flag)
	}
	if err != nil {
		return err
	}
	return listener.Close()
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
