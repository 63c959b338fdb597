package storage

import (
	"errors"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3/lock"
)

// isNetError reports whether the connection broke.
func isNetError(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// isUndefinedTable reports whether the schema is missing.
func isUndefinedTable(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "42P01"
}

// unreadable are the codes of a text that no column can hold, and of one that is not of
// the column's type. Other data exceptions are faults of a statement.
var unreadable = []string{"22021", "22P02", "22P05"}

// Malformed reports whether PostgreSQL refused a value that it cannot represent, such as a text
// with U+0000. A repeat fails in the same way.
func Malformed(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && slices.Contains(unreadable, pgErr.Code)
}

// TookTooLong reports whether a statement reached statement_timeout. Waiting for a lock has a
// time-out and an error code of its own.
func TookTooLong(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "57014"
}

// newMigrationLock returns a lock that waits up to a minute for another migrating process.
func newMigrationLock() (lock.SessionLocker, error) {
	return lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
}
