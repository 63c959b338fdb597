package storage

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
)

// Accounts is the part of the database that needs no master key.
type Accounts struct {
	Merchants *Merchants
	People    *people.Store
	AuditLog  *AuditLog
	Books     *Books
	Webhooks  *WebhookReader
	pool      *pgxpool.Pool
}

func newAccounts(pool *pgxpool.Pool) Accounts {
	return Accounts{&Merchants{pool}, people.New(pool), &AuditLog{pool}, &Books{pool}, &WebhookReader{pool}, pool}
}

const accountConns = 2 // a command runs one query at a time

// OpenAccounts connects to the database for a command-line program, which needs no Keys. It returns
// ErrSchemaTooOld when the schema is missing or old: see Migrate. It returns ErrPooler and
// ErrRoleSettings.
func OpenAccounts(ctx context.Context, opts Options) (*Accounts, error) {
	pool, err := pg.Open(ctx, opts.URL, opts.Pooled, accountConns)
	if err != nil {
		return nil, err
	}
	err = pg.CheckSchema(ctx, pool, schema())
	if err == nil {
		err = useCell(ctx, pool)
	}
	if err != nil {
		pool.Close()
		return nil, pg.Wrap("open database", err)
	}
	accounts := newAccounts(pool)
	return &accounts, nil
}

// Close closes every connection.
func (a *Accounts) Close() { a.pool.Close() }
