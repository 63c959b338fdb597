package pgtemp

import (
	"os"
	"path/filepath"
	"time"
)

const throwawayPattern = "pgtemp-*"

// newThrowawayDir makes the directory of a throwaway server. It removes the directories of ended
// processes: a test process cannot run code after its last test to remove its own.
func newThrowawayDir(a account) (string, error) {
	base := os.TempDir()
	removeStale(base)
	dir, err := os.MkdirTemp(base, throwawayPattern)
	if err != nil {
		return "", err
	}
	return dir, a.own(dir)
}

// removeStale removes the throwaway directories that no process holds.
func removeStale(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, throwawayPattern)) // the pattern is valid
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue // another process removed it
		}
		// A new directory exists for a moment before its owner holds it.
		if time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := tryLock(filepath.Join(dir, "lock"))
		if err != nil {
			continue // held by a process, or another user's
		}
		_ = os.RemoveAll(dir) // the next process tries again
		_ = lock.Close()
	}
}
