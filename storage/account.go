package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Accounts is the part of the store that seals and unseals nothing: merchants
// and their API keys. It needs no master key.
type Accounts struct {
	pool *pgxpool.Pool
}

const accountConns = 2 // of a command, which asks one thing after the other

// OpenAccounts connects to the database at url for a command that does one
// thing. The schema must be there: see Migrate.
func OpenAccounts(ctx context.Context, url string) (*Accounts, error) {
	pool, err := newPool(ctx, url, accountConns)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, `SELECT FROM merchant, api_key, token_bucket LIMIT 0`)
	if err != nil {
		pool.Close()
	}
	if isUndefinedTable(err) {
		return nil, errors.New("the database has no schema yet, or an old one: run checkout migrate first")
	}
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return &Accounts{pool}, nil
}

// Close gives the connections back.
func (a *Accounts) Close() { a.pool.Close() }

// inTx runs f in one transaction and commits when f returns nil.
func (a *Accounts) inTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, a.pool, f)
}
