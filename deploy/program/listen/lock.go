package listen

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lockFile locks a file for this process. The kernel releases the lock when the process ends, even
// after a kill.
func lockFile(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// syncDir makes a rename in a directory survive a crash of the computer.
func syncDir(path string) error {
	dir, err := os.Open(path) // #nosec G304 -- the user's own choice
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
