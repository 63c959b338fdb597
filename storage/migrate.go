package storage

import (
	"context"
	"embed"
	"io/fs"

	"example.com/checkout/storage/pg"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema returns the migrations, by the names of their files.
func schema() fs.FS {
	files, _ := fs.Sub(migrations, "migrations") // fails for a malformed path only
	return files
}

// Migrate updates the schema at url, which must not lead to a pooler, and begins an era of the feed of events in a
// database that was restored into another cluster. When several processes call it at once, one works and the others
// wait.
func Migrate(ctx context.Context, url string) error {
	return pg.Migrate(ctx, url, schema(), beginFeedEra)
}
