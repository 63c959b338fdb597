package devstack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"example.com/checkout/storage/pgtemp"
)

const lockFile = "devstack.lock"

// ourEntries are the files and directories that a stack leaves. -fresh removes only these.
var ourEntries = []string{
	"postgres", "temporal", "temporal-ui", demoFile, chainFile, bitcoinDir, bitcoinPassword, "environment",
	"api.log", "api.log.old", "worker.log", "worker.log.old", receiverLog, receiverLog + ".old",
}

// openDataDir makes the directory of a stack and locks it: the kernel releases the lock when it is closed, and when the
// process ends, even after a kill. With fresh it empties the directory, but only if no
// other stack uses it and it holds only files of a stack.
func openDataDir(ctx context.Context, path string, fresh bool) (lock *os.File, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if fresh {
		if err := checkOurs(path); err != nil {
			return nil, err
		}
	}

	// Try for a while: a process that is just being forked holds every lock of its parent until it
	// starts another program.
	taken := fmt.Errorf("another devstack runs on %s: end it, or choose another directory with -data", path)
	soon, stop := context.WithTimeoutCause(ctx, 2*time.Second, taken)
	defer stop()
	lock, err = pgtemp.Lock(soon, filepath.Join(path, lockFile))
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}

	if fresh {
		for _, name := range ourEntries {
			if err := os.RemoveAll(filepath.Join(path, name)); err != nil {
				_ = lock.Close() // nothing was written to it
				return nil, fmt.Errorf("-fresh: %w", err)
			}
		}
	}
	return lock, nil
}

// checkOurs returns an error if the directory holds anything that a stack does not make.
func checkOurs(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("-fresh: %w", err)
	}
	for _, e := range entries {
		if e.Name() != lockFile && !slices.Contains(ourEntries, e.Name()) {
			return fmt.Errorf(
				"-fresh: %s holds %q, which is not the stack's; choose another directory with -data",
				path, e.Name(),
			)
		}
	}
	return nil
}
