package storage

import (
	"errors"
	"io"
	"net"

	"github.com/pressly/goose/v3/lock"
)

// isNetError reports whether the connection broke.
func isNetError(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// newMigrationLock waits up to a minute for another process that migrates.
func newMigrationLock() (lock.SessionLocker, error) {
	return lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
}
