package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// InTx returns the result of do, which runs in a transaction: the zero value unless the transaction is committed.
// Errors are wrapped with doing.
func InTx[T any](
	ctx context.Context, pool *pgxpool.Pool, doing string, do func(tx pgx.Tx) (T, error),
) (T, error) {
	var got, none T
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		got, err = do(tx)
		return err
	})
	if err != nil {
		return none, Wrap(doing, err)
	}
	return got, nil
}
