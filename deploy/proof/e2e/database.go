package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
)

// OpenStore opens the stack's PostgreSQL as the service does.
func OpenStore(t *testing.T, stack *devstack.Stack) *storage.Store {
	var store *storage.Store
	Await(t, "PostgreSQL takes a connection", 20*time.Second, func() bool { // the service gives it three seconds
		var err error
		store, err = stack.OpenStore(t.Context(), 4)
		return err == nil
	})
	t.Cleanup(store.Close)
	return store
}

// Query reads one value of the stack's PostgreSQL.
func Query[T any](t *testing.T, stack *devstack.Stack, sql string, args ...any) T {
	pool := must.Get(poolOf(stack.DatabaseURL()))(t)
	var got T
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&got))
	return got
}

// AwaitQuery waits until a query of the stack's PostgreSQL has a value.
func AwaitQuery[T comparable](
	t *testing.T, what string, within time.Duration, stack *devstack.Stack, want T, sql string, args ...any,
) {
	Await(t, what, within, func() bool { return Query[T](t, stack, sql, args...) == want })
}

// Exec runs a statement in the stack's PostgreSQL, without arguments also several, and returns the number of rows.
func Exec(t *testing.T, stack *devstack.Stack, sql string, args ...any) int64 {
	pool := must.Get(poolOf(stack.DatabaseURL()))(t)
	done, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
	return done.RowsAffected()
}

// pools keep the connections of Query, by database, until the process ends: tests that wait ask often.
var pools = struct {
	sync.Mutex
	of map[string]*pgxpool.Pool
}{of: map[string]*pgxpool.Pool{}}

func poolOf(url string) (*pgxpool.Pool, error) {
	pools.Lock()
	defer pools.Unlock()
	if pools.of[url] == nil {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return nil, err
		}
		config.MaxConns = 4
		// The test may have killed the server since the last query.
		config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) { return conn.Ping(ctx) == nil, nil }
		if pools.of[url], err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
			return nil, err
		}
	}
	return pools.of[url], nil
}
