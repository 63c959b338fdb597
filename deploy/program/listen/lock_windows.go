package listen

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lockFile locks a file for this process. Windows releases the lock when the process ends, even
// after a kill.
func lockFile(file *os.File) error {
	err := windows.LockFileEx(windows.Handle(file.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// syncDir does nothing: Windows cannot sync a directory.
func syncDir(string) error { return nil }
