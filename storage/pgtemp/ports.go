package pgtemp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The ports that FreePorts gives. All are below 32768, for two reasons. Linux uses higher ports for
// outgoing connections unless it is set up otherwise, and such a port could be taken before it is used.
// Temporal stores its membership ports in a column of 16 signed bits.
const (
	firstPort = 10000
	lastPort  = 32767
	blockSize = 64 // ports
)

// FreePorts returns n different ports of 127.0.0.1 on which nothing listens. It returns no port twice,
// neither in one process nor in two processes of one user that run at the same time: programs that
// start side by side bind their ports later.
func FreePorts(n int) ([]int, error) {
	reserved.Lock()
	defer reserved.Unlock()
	ports := make([]int, 0, n)
	for len(ports) < n {
		if len(reserved.ports) == 0 {
			if err := reserveBlock(); err != nil {
				return nil, fmt.Errorf("found only %d of %d free ports on 127.0.0.1: %w", len(ports), n, err)
			}
		}
		port := reserved.ports[0]
		reserved.ports = reserved.ports[1:]
		if CheckFree(port) == nil {
			ports = append(ports, port)
		}
	}
	return ports, nil
}

// reserved are the ports of this process's blocks that FreePorts has not given yet. The open files lock
// the blocks until the process ends, even by a kill.
var reserved struct {
	sync.Mutex
	ports []int
	files []*os.File
}

// reserveBlock takes a block of ports that no other process has.
func reserveBlock() error {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("checkout-devstack-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, block := range rand.Perm((lastPort + 1 - firstPort) / blockSize) {
		file, err := tryLock(filepath.Join(dir, strconv.Itoa(block)))
		if errors.Is(err, errLocked) {
			continue // another process has it
		}
		if err != nil {
			return err
		}
		reserved.files = append(reserved.files, file)
		for i := range blockSize {
			reserved.ports = append(reserved.ports, firstPort+block*blockSize+i)
		}
		return nil
	}
	return errors.New("other processes have all blocks of ports")
}

// Listen listens on a port that this process had open a moment ago, as CheckFree has. Another thread's
// epoll_wait, and a child process before its exec, may still have it open.
func Listen(address string) (net.Listener, error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		listener, err := net.Listen("tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > time.Second {
			return listener, err
		}
	}
}

// CheckFree returns [ErrPortTaken], wrapped, when something listens on a port of 127.0.0.1.
func CheckFree(port int) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: %w", address, ErrPortTaken)
	}
	if err != nil {
		return err
	}
	return listener.Close()
}
