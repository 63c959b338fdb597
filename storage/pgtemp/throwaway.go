package pgtemp

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const throwawayPattern = "pgtemp-*"

// newThrowawayDir makes the directory of a throwaway server. It removes the directories of ended
// processes: a test process cannot run code after its last test to remove its own.
func newThrowawayDir(u osUser) (string, error) {
	for _, base := range []string{memory, os.TempDir()} {
		removeStale(base)
	}
	dir, err := os.MkdirTemp(throwawayBase(), throwawayPattern)
	if err != nil { // this user may not write there
		dir, err = os.MkdirTemp("", throwawayPattern)
	}
	if err != nil {
		return "", err
	}
	return dir, u.own(dir)
}

// memory is where Linux keeps files in memory, and enough is the free space in bytes that a throwaway server may want
// there.
const (
	memory = "/dev/shm"
	enough = 2 << 30
)

// throwawayBase returns the directory for throwaway servers: in memory when there is room. On a disk, a database of
// some hundred files takes five times as long to create and drop.
func throwawayBase() string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(memory, &s); err != nil || s.Bavail*uint64(s.Bsize) < enough {
		return os.TempDir()
	}
	return memory
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
