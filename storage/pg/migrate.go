package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrate runs the migrations that the database at url lacks, and then calls then. url must not lead to a
// pooler. When several processes call it at once, one works and the others wait. A migration that waits for a lock
// holds up everybody who comes after it, so it gives up after a moment, lets the others go, and is tried again.
func Migrate(ctx context.Context, url string, files fs.FS, then func(context.Context, *sql.DB) error) error {
	return migrator{url: url, files: files, then: then, tries: 20, pause: 3 * time.Second}.run(ctx)
}

// migrationLockTimeout is shorter than the lock_timeout of the service's own statements, which wait behind a migration.
const migrationLockTimeout = "2s"

type migrator struct {
	url   string
	files fs.FS
	then  func(context.Context, *sql.DB) error // runs when the schema is there; may be nil
	tries int
	pause time.Duration // between two tries: the statements that waited go first
}

func (m migrator) run(ctx context.Context) error {
	for try := 1; ; try++ {
		err := m.once(ctx)
		if sqlState(err) != lockNotAvailable {
			return err
		}
		if try == m.tries {
			return fmt.Errorf("%w\nAnother session holds a lock on a table that this migration changes, such as "+
				"pg_dump. It was tried %d times. What is done stays; run it again when that session has ended", err, try)
		}
		slog.WarnContext(ctx, "a migration waits for a table that another session uses", "try", try, "error", err)
		select {
		case <-time.After(m.pause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (m migrator) once(ctx context.Context) error {
	cfg, err := pgx.ParseConfig(m.url)
	if err != nil {
		// The parser's error may quote the password.
		return errors.New("the database URL is malformed")
	}
	for _, s := range timeouts {
		cfg.RuntimeParams[s.name] = "0" // the role's own are for the service: an index takes longer
	}
	cfg.RuntimeParams["lock_timeout"] = migrationLockTimeout // to which RESET in a migration returns

	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }() // nothing is left to write

	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60)) // for another migrating process, in s
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, m.files, goose.WithSessionLocker(locker))
	if err != nil {
		return Wrap("read migrations", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return Wrap("migrate", err)
	}
	if m.then == nil {
		return nil
	}
	return Wrap("migrate", m.then(ctx, db))
}
