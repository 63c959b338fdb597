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

// errLocked: another process holds the directory.
var errLocked = errors.New("in use by another process")

// lockDir takes the directory for this process. The kernel releases the lock when the process ends,
// however it ends, so a held lock has a living owner. lockDir waits for patience, because the owner
// may be about to end. It returns errLocked, wrapped, or the error of ctx.
func lockDir(ctx context.Context, dir string, patience time.Duration) (*os.File, error) {
	deadline := time.Now().Add(patience)
	for {
		lock, err := tryLock(filepath.Join(dir, "lock"))
		if err == nil || !errors.Is(err, errLocked) || time.Now().After(deadline) {
			return lock, err
		}
		if err := Pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close() // report the error of the lock
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", filepath.Dir(path), errLocked)
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
