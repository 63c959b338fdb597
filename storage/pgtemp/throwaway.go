package pgtemp

import (
	"os"
	"path/filepath"
	"time"
)

const throwawayPattern = "pgtemp-*"

// newThrowawayDir makes the directory of a throwaway server, and removes those whose process is gone: a test process
// has no moment after its last test in which it could remove its own.
func newThrowawayDir(a account) (string, error) {
	base := os.TempDir()
	removeStale(base)
	dir, err := os.MkdirTemp(base, throwawayPattern)
	if err != nil {
		return "", err
	}
	return dir, a.own(dir)
}

// removeStale removes the throwaway directories that nobody holds.
func removeStale(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, throwawayPattern)) // the pattern is good
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue // another process removed it first
		}
		// A directory is there for a moment before its owner holds it.
		if time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := tryLock(filepath.Join(dir, "lock"))
		if err != nil {
			continue // held, or another user's
		}
		_ = os.RemoveAll(dir) // what stays is tried again by the next process
		_ = lock.Close()
	}
}
