package devstack

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

	"golang.org/x/sys/unix"
)

// The ports that Free gives. All are below 32768, for two reasons. Linux uses higher ports for
// outgoing connections, so such a port could be taken before it is used. Temporal stores its
// membership ports in a column of 16 signed bits. Those from 28000 on are of package pgtemp.
const (
	firstPort = 10000
	lastPort  = 27999
	blockSize = 64 // ports
)

// Free returns n different ports of 127.0.0.1 on which nothing listens. It returns no port twice,
// neither in one process nor in two processes of one user that run at the same time: stacks that
// start side by side bind their ports later.
func Free(n int) ([]int, error) {
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
		if CheckFree(loopback(port), "") == nil {
			ports = append(ports, port)
		}
	}
	return ports, nil
}

// reserved are the ports of this process's blocks that Free has not given yet. The open files lock
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
	for _, block := range rand.Perm((lastPort - firstPort + 1) / blockSize) {
		file, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(block)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = file.Close() // nothing was written
			continue         // another process has it
		}
		reserved.files = append(reserved.files, file)
		for i := range blockSize {
			reserved.ports = append(reserved.ports, firstPort+block*blockSize+i)
		}
		return nil
	}
	return errors.New("other processes have all blocks of ports")
}

// CheckFree returns an error when something listens on addr. The error names the address and flag,
// the command's option for another port.
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

// listen listens on a port that this process had open a moment ago, as CheckFree has. Another thread's epoll_wait, and
// a child process before its exec, may still have it open.
func listen(addr string) (net.Listener, error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		listener, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > time.Second {
			return listener, err
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
