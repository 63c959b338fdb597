package pg

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/checkout/workflows/checkout"
)

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Collect returns the rows of a query, whose columns have the names of T's fields: an empty slice when there are none.
func Collect[T any](ctx context.Context, from Querier, query string, args ...any) ([]T, error) {
	return CollectBy(ctx, from, pgx.RowToStructByName[T], query, args...)
}

// Values is Collect for a query of one column.
func Values[T any](ctx context.Context, from Querier, query string, args ...any) ([]T, error) {
	return CollectBy(ctx, from, pgx.RowTo[T], query, args...)
}

// CollectBy is Collect with another way to read a row.
func CollectBy[T any](
	ctx context.Context, from Querier, read pgx.RowToFunc[T], query string, args ...any,
) ([]T, error) {
	rows, _ := from.Query(ctx, query, args...) // CollectRows returns the error
	return pgx.CollectRows(rows, read)
}

// Queue is Collect in a batch, which fills in to.
func Queue[T any](batch *pgx.Batch, to *[]T, query string, args ...any) {
	batch.Queue(query, args...).Query(func(rows pgx.Rows) (err error) {
		*to, err = pgx.CollectRows(rows, pgx.RowToStructByName[T])
		return err
	})
}

// One returns the one row of a query. It returns checkout.ErrNotFound when there is none.
func One[T any](ctx context.Context, from Querier, query string, args ...any) (T, error) {
	return oneBy(ctx, from, pgx.RowToStructByName[T], query, args...)
}

// Value is One for a query of one column.
func Value[T any](ctx context.Context, from Querier, query string, args ...any) (T, error) {
	return oneBy(ctx, from, pgx.RowTo[T], query, args...)
}

func oneBy[T any](ctx context.Context, from Querier, read pgx.RowToFunc[T], query string, args ...any) (T, error) {
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

// Exec runs a statement, whose error is wrapped with doing.
func Exec(ctx context.Context, to Executor, doing, statement string, args ...any) error {
	_, err := to.Exec(ctx, statement, args...)
	return Wrap(doing, err)
}

// Changed is the error of a statement, but checkout.ErrNotFound when it changed no row.
func Changed(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.RowsAffected() == 0 {
		return checkout.ErrNotFound
	}
	return err
}

// Optional is err, but nil when a query has no row.
func Optional(err error) error {
	if errors.Is(Found(err), checkout.ErrNotFound) {
		return nil
	}
	return err
}
