package devstack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// dataDir is the directory of a running stack. The kernel gives its lock back
// when the process ends, however it ends.
type dataDir struct{ lock *os.File }

const lockFile = "devstack.lock"

// ourEntries are what a stack leaves in its directory; -fresh removes these and
// nothing else.
var ourEntries = []string{"postgres", "temporal", "temporal-ui", "demo.json", "environment", "api.log", "api.log.old", "worker.log", "worker.log.old"}

// openDataDir makes and locks the directory. fresh empties it, once it is sure
// that no other stack runs on it and that a stack and nobody else filled it.
func openDataDir(path string, fresh bool) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if fresh {
		if err := checkOurs(path); err != nil {
			return nil, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := lockSoon(lock); err != nil {
		_ = lock.Close() // the lock's error is the one to report
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another devstack runs on %s: end it, or choose another directory with -data", path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	d := &dataDir{lock}
	if fresh {
		for _, name := range ourEntries {
			if err := os.RemoveAll(filepath.Join(path, name)); err != nil {
				d.close()
				return nil, fmt.Errorf("-fresh: %w", err)
			}
		}
	}
	return d, nil
}

// lockSoon locks the file, patiently: a process that is just being forked holds
// every lock of its parent until it becomes another program.
func lockSoon(file *os.File) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Since(began) > 2*time.Second {
			return err
		}
	}
}

// checkOurs refuses a directory that holds anything a stack does not make.
func checkOurs(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("-fresh: %w", err)
	}
	for _, e := range entries {
		if e.Name() != lockFile && !slices.Contains(ourEntries, e.Name()) {
			return fmt.Errorf("-fresh: %s holds %q, which is not the stack's; choose another directory with -data", path, e.Name())
		}
	}
	return nil
}

func (d *dataDir) close() { _ = d.lock.Close() }
