package pg

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
)

// migratorOf has one migration for each text.
func migratorOf(url string, texts ...string) migrator {
	files := fstest.MapFS{}
	for i, text := range texts {
		files["000"+string(rune('1'+i))+"_test.sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	return migrator{url: url, files: files, tries: 2, pause: time.Millisecond}
}

func connect(t *testing.T, url string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // a test's connection
	return conn
}

// Once, an ALTER TABLE that waited behind a pg_dump stopped every statement that came after it.
func TestMigrate_BehindADumpGivesUpAndStopsNobody(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, nil)
	create := "-- +goose Up\nCREATE TABLE shop (id text);"
	require.NoError(t, migratorOf(url, create).run(t.Context()))
	dump, reader := connect(t, url), connect(t, url)
	tx, err := dump.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM shop`)
	require.NoError(t, err)

	alter := migratorOf(url, create, "-- +goose Up\nALTER TABLE shop ADD COLUMN name text;")
	done := make(chan error, 1)
	go func() { done <- alter.run(context.WithoutCancel(t.Context())) }()
	_, err = reader.Exec(t.Context(), `SET lock_timeout = '3s'`) // as the service's own statements
	require.NoError(t, err)
	for waits := true; waits; {
		_, err = reader.Exec(t.Context(), `SELECT FROM shop`)
		require.NoError(t, err, "it does not wait for as long as the dump takes")
		select {
		case err = <-done:
			waits = false
		default:
		}
	}
	require.ErrorContains(t, err, "such as pg_dump. It was tried 2 times")

	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, alter.run(t.Context()), "it goes on where it was")
	_, err = reader.Exec(t.Context(), `SELECT name FROM shop`)
	require.NoError(t, err)
}

// A build that fails leaves an index that takes part in every write and answers no query.
func TestMigrate_AnIndexThatFailedIsBuiltAgain(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, nil)
	m := migratorOf(url, "-- +goose Up\nCREATE TABLE shop (id text);\nINSERT INTO shop VALUES ('a'), ('a');",
		`-- +goose NO TRANSACTION
-- +goose Up
SET lock_timeout = '30min';
DROP INDEX CONCURRENTLY IF EXISTS shop_id_key;
CREATE UNIQUE INDEX CONCURRENTLY shop_id_key ON shop (id);
RESET lock_timeout;`, "-- +goose Up\nCREATE TABLE timeout AS SELECT current_setting('lock_timeout') AS value;")
	require.ErrorContains(t, m.run(t.Context()), "could not create unique index")
	conn := connect(t, url)
	valid := func() (is bool) {
		require.NoError(t, conn.QueryRow(t.Context(),
			`SELECT indisvalid FROM pg_index WHERE indexrelid = 'shop_id_key'::regclass`).Scan(&is))
		return is
	}
	require.False(t, valid())
	_, err := conn.Exec(t.Context(), `DELETE FROM shop WHERE ctid = '(0,1)'`)
	require.NoError(t, err)
	require.NoError(t, m.run(t.Context()))
	require.True(t, valid())
	var timeout string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT value FROM timeout`).Scan(&timeout))
	require.Equal(t, migrationLockTimeout, timeout, "the next migration waits as shortly as ever")
}
