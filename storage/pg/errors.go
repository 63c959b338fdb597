package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

func isNetError(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// Codes of PostgreSQL's errors.
const (
	undefinedTable   = "42P01"
	queryCanceled    = "57014"
	lockNotAvailable = "55P03"
	readOnly         = "25006"
	unknownDatabase  = "3D000"
)

// sqlState returns the code of PostgreSQL's error, "" for another error.
func sqlState(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}

// unreadable are the codes of a text that no column can hold, and of one that is not of
// the column's type. Other data exceptions are faults of a statement.
var unreadable = []string{"22021", "22P02", "22P05"}

// Malformed reports whether PostgreSQL refused a value that it cannot represent, such as a text
// with U+0000. A repeat fails in the same way.
func Malformed(err error) bool { return slices.Contains(unreadable, sqlState(err)) }

// TookTooLong reports whether a statement reached statement_timeout. Waiting for a lock has a
// time-out and an error code of its own.
func TookTooLong(err error) bool { return sqlState(err) == queryCanceled }

// Locked reports whether a statement waited longer than lock_timeout for a lock.
func Locked(err error) bool { return sqlState(err) == lockNotAvailable }

// Unavailable reports whether PostgreSQL could not answer now: it is down, full, read-only or refuses connections, or a
// lock or time-out ran out. It also reports true when this process stops and has closed its connections, and when
// another process sealed the value with a newer key. The same call may succeed later. Whether this call took effect is
// unknown, except when the connection failed.
func Unavailable(err error) bool {
	if err == nil {
		return false
	}
	var connectErr *pgconn.ConnectError
	if errors.As(err, &connectErr) || errors.Is(err, puddle.ErrClosedPool) || errors.Is(err, ErrWrongMasterKey) {
		return true
	}
	code := sqlState(err)
	if code == "" {
		return pgconn.Timeout(err) || pgconn.SafeToRetry(err) || errors.Is(err, context.DeadlineExceeded) || isNetError(err)
	}
	switch code[:2] {
	case "08", "53", "57", "58", "40": // connection, resources, operator, system, rollback
		return true
	}
	return code == lockNotAvailable || code == readOnly
}

// Misconfigured reports whether a setting is wrong: a master key, or a role, password or database that PostgreSQL does
// not know, or a pooler that is not configured as Open wants it. A process that gets such an error at its start must
// stop. A running process waits, because an operator may be changing the setting.
func Misconfigured(err error) bool {
	code := sqlState(err)
	return errors.Is(err, ErrWrongMasterKey) || errors.Is(err, ErrPooler) || errors.Is(err, ErrRoleSettings) ||
		strings.HasPrefix(code, "28") || code == unknownDatabase // 28: the role or its password
}

// Violates reports whether err is a violation of the named constraint.
func Violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == constraint
}

// Wrap adds what was being done to an error; nil stays nil. Words that name something need fmt.Errorf.
func Wrap(doing string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
	}
	return err
}

// ChangedError names the settings that another person changed since the editor saw them. The change
// is refused, so the editor overwrites nothing unseen.
type ChangedError struct{ Fields []string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s changed meanwhile", strings.Join(e.Fields, ", "))
}
