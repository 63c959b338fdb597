package pgtemp_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
)

var migrations atomic.Int32

func migrate(ctx context.Context, url string) error {
	migrations.Add(1)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `CREATE TABLE item (id int PRIMARY KEY)`)
	return err
}

func TestForTest_EveryTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	var urls []string
	t.Run("group", func(t *testing.T) {
		for range 3 {
			url := pgtemp.ForTest(t, migrate)
			urls = append(urls, url)
			t.Run("insert", func(t *testing.T) {
				t.Parallel()
				_, err := connect(t, url).Exec(t.Context(), `INSERT INTO item VALUES (1)`)
				require.NoError(t, err, "the same key in every database")
			})
		}
	})
	require.EqualValues(t, 1, migrations.Load(), "migrated once")
	for _, url := range urls {
		_, err := pgx.Connect(t.Context(), url)
		require.ErrorContains(t, err, "does not exist", "dropped after its test")
	}
}

func TestForTest_WithoutMigrationIsEmpty(t *testing.T) {
	t.Parallel()
	var tables int
	require.NoError(t, connect(t, pgtemp.ForTest(t, nil)).QueryRow(t.Context(),
		`SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables))
	require.Zero(t, tables)
}

// TestStopTime_RowsHaveOneTime checks rows that are inserted and rows that meet one that is there.
func TestStopTime_RowsHaveOneTime(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, nil)
	conn := connect(t, url)
	exec := func(sql string) {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(`CREATE TABLE bucket (id int PRIMARY KEY, at timestamptz)`)
	pgtemp.StopTime(t, url, "bucket", "at")
	exec(`INSERT INTO bucket VALUES (1, clock_timestamp())`)
	exec(`INSERT INTO bucket VALUES (2, clock_timestamp() + interval '1 hour')`)
	exec(`INSERT INTO bucket AS b VALUES (1, clock_timestamp()) ON CONFLICT (id) DO UPDATE SET at = excluded.at`)
	var times int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(DISTINCT at) FROM bucket`).Scan(&times))
	require.Equal(t, 1, times)
	exec(`UPDATE bucket SET at = at - interval '1 hour' WHERE id = 1`)
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(DISTINCT at) FROM bucket`).Scan(&times))
	require.Equal(t, 2, times, "a test may still change a time itself")
}
