// Package pg is the kernel below the nouns of package storage and storage/people: how to connect, migrate, list,
// seal, and note a change in the audit log. Its only table is audit_entry.
package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Errors of Open about PgBouncer.
var (
	// ErrPooler: the URL leads to a pooler, though pooled is false. The time-outs do not
	// reach PostgreSQL, and prepared statements get lost.
	ErrPooler = errors.New("the database URL leads to a connection pooler")
	// ErrRoleSettings: the role lacks settings that PgBouncer does not pass on. The error lists the
	// statements that give it these settings.
	ErrRoleSettings = errors.New("the role of the database URL lacks settings that PgBouncer does not pass on")
)

// A setting of PostgreSQL, as SQL has it.
type setting struct{ name, value string }

// timeouts limit every statement of the service.
var timeouts = []setting{
	{"statement_timeout", "5s"}, {"lock_timeout", "3s"}, {"idle_in_transaction_session_timeout", "10s"},
}

// RoleSettings returns the statements that give a role what PgBouncer does not pass on. They hold in
// one database only. They are for connections that begin later.
func RoleSettings(role, database string) []string {
	var all []string
	for _, s := range append(timeouts[:len(timeouts):len(timeouts)], setting{"synchronous_commit", "on"}) {
		all = append(all, fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s = '%s';",
			pgx.Identifier{role}.Sanitize(), pgx.Identifier{database}.Sanitize(), s.name, s.value))
	}
	return all
}

// configure sets up connections to PostgreSQL itself, or to PgBouncer in transaction mode. The next transaction may
// have another connection of PgBouncer's to PostgreSQL. So nothing may stay behind in a session: no settings, no named
// statements. QueryExecModeCacheDescribe keeps only the types of a statement, on this side. The error never quotes the
// URL, which holds a password.
func configure(url string, pooled bool) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the database URL is malformed")
	}
	cfg.ConnConfig.Tracer = otelpgx.NewTracer()
	cfg.ConnConfig.ConnectTimeout = 3 * time.Second
	cfg.ConnConfig.RuntimeParams["application_name"] = "checkout"
	if pooled {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		return cfg, nil
	}
	for _, s := range timeouts {
		cfg.ConnConfig.RuntimeParams[s.name] = s.value
	}
	cfg.AfterConnect = commitForGood
	return cfg, nil
}

// Open makes a pool for the database at url, which leads to PgBouncer in transaction mode if it is pooled. It connects
// once, to check that the time-outs reach PostgreSQL. It returns ErrPooler and ErrRoleSettings.
func Open(ctx context.Context, url string, pooled bool, maxConns int32) (*pgxpool.Pool, error) {
	cfg, err := configure(url, pooled)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, Wrap("open database", err)
	}
	if err := checkSettings(ctx, pool, pooled); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// checkSettings returns an error if a statement could run without end, or if an answered commit could
// be lost. It is ErrPooler or ErrRoleSettings when the way to PostgreSQL is at fault.
func checkSettings(ctx context.Context, pool *pgxpool.Pool, pooled bool) error {
	var (
		role, database string
		missing        int
	)
	err := pool.QueryRow(ctx, `
		SELECT current_user, current_database(), count(*) FILTER (
			WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout') AND setting = '0'
				OR name = 'synchronous_commit' AND setting = 'off')
		FROM pg_settings`).Scan(&role, &database, &missing)
	switch {
	case refusesSettings(err):
		return fmt.Errorf("%w: %w", ErrPooler, err)
	case err != nil:
		return Wrap("open database", err)
	case missing == 0:
		return nil
	case !pooled:
		return ErrPooler
	}
	return fmt.Errorf("%w; run these, then RECONNECT in PgBouncer:\n%s",
		ErrRoleSettings, strings.Join(RoleSettings(role, database), "\n"))
}

// refusesSettings reports whether PgBouncer refused the settings of a connection.
func refusesSettings(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && strings.HasPrefix(pgErr.Message, "unsupported startup parameter")
}

// commitForGood makes an answered commit survive a crash of PostgreSQL, whatever the database or
// role sets: a lost commit could be a payment. It keeps any other value, such as remote_apply.
func commitForGood(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `
		SELECT set_config('synchronous_commit', CASE s WHEN 'off' THEN 'on' ELSE s END, false)
		FROM current_setting('synchronous_commit') s`)
	return err
}
