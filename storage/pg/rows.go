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
	rows, _ := from.Query(ctx, query, args...) // CollectRows returns the error
	return pgx.CollectRows(rows, read)
}

// One returns the one row of a query. It returns checkout.ErrNotFound when there is none.
func One[T any](ctx context.Context, from Querier, query string, args ...any) (T, error) {
	return OneBy(ctx, from, pgx.RowToStructByName[T], query, args...)
}

// OneBy is One with another way to read a row.
func OneBy[T any](
	ctx context.Context, from Querier, read pgx.RowToFunc[T], query string, args ...any,
) (T, error) {
	rows, _ := from.Query(ctx, query, args...) // CollectExactlyOneRow returns the error
	got, err := pgx.CollectExactlyOneRow(rows, read)
	return got, Found(err)
}

// Found is err, but checkout.ErrNotFound when a query has no row.
func Found(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return checkout.ErrNotFound
	}
	return err
}

// OptionalRow returns nil when there is no row.
func OptionalRow[T any](rows pgx.Rows) (*T, error) {
	got, err := pgx.CollectOneRow(rows, pgx.RowToAddrOfStructByNameLax[T])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return got, err
}
