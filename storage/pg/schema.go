package pg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// ErrSchemaTooOld: the schema lacks migrations of this program. Its text names the remedy.
var ErrSchemaTooOld = errors.New("the database's schema is too old for this program: run checkout setup")

// CheckSchema returns ErrSchemaTooOld when the schema is missing or lacks one of the migrations. A newer
// one is fine: migrations only add.
func CheckSchema(ctx context.Context, pool Querier, migrations fs.FS) error {
	needed, err := newestMigration(migrations)
	if err != nil {
		return err
	}
	there, err := SchemaVersion(ctx, pool)
	if err != nil && sqlState(err) != undefinedTable {
		return err
	}
	if there < needed {
		return fmt.Errorf("%w (it has version %d of %d)", ErrSchemaTooOld, there, needed)
	}
	return nil
}

// SchemaVersion returns the number of the newest migration in the database.
func SchemaVersion(ctx context.Context, from Querier) (int64, error) {
	version, err := Value[int64](ctx, from,
		`SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`)
	return version, Wrap("read the schema's version", err)
}

// newestMigration returns the version of the last migration.
func newestMigration(migrations fs.FS) (newest int64, err error) {
	files, err := fs.Glob(migrations, "*.sql")
	for _, file := range files {
		version, err := goose.NumericComponent(file)
		if err != nil {
			return 0, Wrap("read migrations", err)
		}
		newest = max(newest, version)
	}
	return newest, err
}
