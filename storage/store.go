// Package storage keeps the service's tables in PostgreSQL. Each noun has a file. Every query names
// the merchant and the mode; a query that cannot do so (by a key's hash, by the hosted page's
// session id) says why.
//
// PostgreSQL's clock alone decides when a session's time is over. Times are cut to milliseconds,
// the precision that answers show.
package storage

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// Options of Open.
type Options struct {
	URL string // postgres://…
	// DirectURL leads to PostgreSQL itself. It says that URL leads to PgBouncer in transaction mode;
	// "" means that URL leads to PostgreSQL. Only the feed of deliveries uses it.
	DirectURL string
	Keys      *Keyring // seals webhook secrets
	MaxConns  int32    // 0 means 20
}

// Store is the service's database. It is safe for concurrent use.
type Store struct {
	Accounts
	keys   *Keyring
	listen *pgx.ConnConfig // for a connection that listens, which no pooler may share
	// creates limits the connections that wait for Temporal inside CreateSession. So reads still
	// get a connection while Temporal is slow.
	creates chan struct{}
}

const defaultMaxConns = 20

// Open connects to the database. It checks that opts.Keys holds every key that sealed a value in
// this database, and returns ErrWrongMasterKey otherwise. It returns ErrSchemaTooOld when the schema is
// missing or old, and ErrOtherCluster: see Migrate. It returns ErrPooler and ErrRoleSettings.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if opts.MaxConns == 0 {
		opts.MaxConns = defaultMaxConns
	}
	listen, err := direct(cmp.Or(opts.DirectURL, opts.URL))
	if err != nil {
		return nil, err
	}
	pool, err := newPool(ctx, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{Accounts: Accounts{pool}, keys: opts.Keys, listen: listen.ConnConfig,
		creates: make(chan struct{}, max(1, opts.MaxConns/2))}
	err = s.checkSchema(ctx)
	if err == nil {
		err = s.checkFeed(ctx)
	}
	if err == nil {
		err = s.checkKeys(ctx)
	}
	if err == nil {
		err = useCell(ctx, pool)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// commitForGood makes an answered commit survive a crash of PostgreSQL, whatever the database or
// role sets: a lost commit could be a payment. It keeps any other value, such as remote_apply.
func commitForGood(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `
		SELECT set_config('synchronous_commit', CASE s WHEN 'off' THEN 'on' ELSE s END, false)
		FROM current_setting('synchronous_commit') s`)
	return err
}

// Ping reports whether PostgreSQL answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// Unavailable reports whether PostgreSQL could not answer now: it is down, full, read-only or
// refuses connections, or a lock or time-out ran out. It also reports true when this process stops
// and has closed its connections, and when another process sealed the value with a newer key. The
// same call may succeed later. Whether this call took effect is unknown, except when the connection
// failed.
func Unavailable(err error) bool {
	if err == nil {
		return false
	}
	var (
		connectErr *pgconn.ConnectError
		pgErr      *pgconn.PgError
	)
	switch {
	case errors.As(err, &connectErr), errors.Is(err, puddle.ErrClosedPool), errors.Is(err, ErrWrongMasterKey):
		return true
	case !errors.As(err, &pgErr):
		return pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
			errors.Is(err, context.DeadlineExceeded) || isNetError(err)
	}
	switch pgErr.Code[:2] {
	case "08", "53", "57", "58", "40": // connection, resources, operator, system, rollback
		return true
	}
	return pgErr.Code == "55P03" || pgErr.Code == "25006" // lock not available, read-only
}

// Misconfigured reports whether a setting is wrong: a master key, or a role, password or database
// that PostgreSQL does not know, or a pooler that is not configured as Open wants it. A process that
// gets such an error at its start must stop. A running process waits, because an operator may be
// changing the setting.
func Misconfigured(err error) bool {
	var pgErr *pgconn.PgError
	return errors.Is(err, ErrWrongMasterKey) || errors.Is(err, ErrPooler) || errors.Is(err, ErrRoleSettings) ||
		errors.As(err, &pgErr) &&
			(pgErr.Code[:2] == "28" || pgErr.Code == "3D000")
}

// violates reports whether err is a violation of the named constraint.
func violates(err error, constraint string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.ConstraintName == constraint
}
