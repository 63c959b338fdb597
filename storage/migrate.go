package storage

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"

	"example.com/checkout/storage/pg"
)

//go:embed migrations/*.sql
var migrations embed.FS

func schema() fs.FS {
	files, _ := fs.Sub(migrations, "migrations") // fails for a malformed path only
	return files
}

// SchemaDigest changes with every migration.
func SchemaDigest() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(schema(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(schema(), path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// Migrate updates the schema at url, which must not lead to a pooler, and begins an era of the feed of events in a
// database that was restored into another cluster. When several processes call it at once, one works and the others
// wait.
func Migrate(ctx context.Context, url string) error {
	return pg.Migrate(ctx, url, schema(), beginFeedEra)
}
