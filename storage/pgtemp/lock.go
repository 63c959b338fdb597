package pgtemp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Lock opens a file, which it makes when it is missing, and waits for its lock until ctx ends. Then it
// returns the cause of ctx. Closing the file releases the lock. The kernel releases it as well when the
// process ends, however it ends, so a held lock has a living owner.
func Lock(ctx context.Context, path string) (*os.File, error) {
	for { // a blocked system call would not see ctx end
		file, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return file, err
		}
		if err := Pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// lockDir takes the directory for this process. It waits for patience, because another owner may be about to end.
func lockDir(ctx context.Context, dir string, patience time.Duration) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s: %w", dir, errLocked))
	defer cancel()
	return Lock(ctx, filepath.Join(dir, "lock"))
}

// errLocked: another process holds the lock.
var errLocked = errors.New("in use by another process")

// tryLock is Lock that does not wait. It returns errLocked, wrapped.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close() // report the error of the lock
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

// Pause waits d. It returns early with the error of ctx when ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
