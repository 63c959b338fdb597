package pg

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// Querier is a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Collect returns the rows of a query: an empty slice when there are none.
func Collect[T any](ctx context.Context, from Querier, query string, args ...any) ([]T, error) {
	return CollectBy(ctx, from, pgx.RowToStructByName[T], query, args...)
}

// CollectBy is Collect with another way to read a row.
func CollectBy[T any](
	ctx context.Context, from Querier, read pgx.RowToFunc[T], query string, args ...any,
) ([]T, error) {
	rows, err := from.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, read)
}

// RowBy is scan, which also reads a single row, for CollectBy.
func RowBy[T any](scan func(pgx.Row) (T, error)) pgx.RowToFunc[T] {
	return func(row pgx.CollectableRow) (T, error) { return scan(row) }
}

// ExactlyOne returns the one row. It returns checkout.ErrNotFound when there is none.
func ExactlyOne[T any](rows pgx.Rows, doing string) (T, error) {
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
	if errors.Is(err, pgx.ErrNoRows) {
		return got, checkout.ErrNotFound
	}
	return got, Wrap(doing, err)
}

// OptionalRow returns nil when there is no row.
func OptionalRow[T any](rows pgx.Rows) (*T, error) {
	got, err := pgx.CollectOneRow(rows, pgx.RowToAddrOfStructByNameLax[T])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return got, err
}
