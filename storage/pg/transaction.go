package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// InTx returns the result of do, which runs in a transaction: the zero value unless the transaction is committed.
// Errors are wrapped with doing.
func InTx[T any](ctx context.Context, pool *pgxpool.Pool, doing string, do func(tx pgx.Tx) (T, error)) (T, error) {
	return inTx(ctx, pool, pgx.TxOptions{}, doing, do)
}

// InSnapshot is InTx for queries that all see the rows of one moment. It writes nothing.
func InSnapshot[T any](
	ctx context.Context, pool *pgxpool.Pool, doing string, do func(tx pgx.Tx) (T, error),
) (T, error) {
	return inTx(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, doing, do)
}

// RunInTx is InTx for a transaction without a result.
func RunInTx(ctx context.Context, pool *pgxpool.Pool, doing string, do func(tx pgx.Tx) error) error {
	return Wrap(doing, pgx.BeginFunc(ctx, pool, do))
}

func inTx[T any](
	ctx context.Context, pool *pgxpool.Pool, o pgx.TxOptions, doing string, do func(tx pgx.Tx) (T, error),
) (T, error) {
	var got, none T
	err := pgx.BeginTxFunc(ctx, pool, o, func(tx pgx.Tx) (err error) {
		got, err = do(tx)
		return err
	})
	if err != nil {
		return none, Wrap(doing, err)
	}
	return got, nil
}

// Unhurried makes the transaction of a statement commit without waiting for the disk. The statement
// must select from it. After a crash of PostgreSQL the buckets may be a second old, which is harmless.
// So a flood of refused requests does not fill the disk's queue, in which payments wait.
const Unhurried = `set_config('synchronous_commit', 'off', true)`
