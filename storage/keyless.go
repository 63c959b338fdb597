package storage

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
)

// Keyless is the part of the database that needs no master key.
type Keyless struct {
	Merchants *Merchants
	People    *people.Store
	AuditLog  *AuditLog
	Books     *Books
	Webhooks  *WebhookReader
	pool      *pgxpool.Pool
}

func newKeyless(pool *pgxpool.Pool) Keyless {
	return Keyless{&Merchants{pool}, people.New(pool), &AuditLog{pool}, &Books{pool}, &WebhookReader{pool}, pool}
}

const keylessConns = 2 // a command runs one query at a time

// OpenKeyless connects to the database for a command-line program, which needs no Keys. It returns ErrSchemaTooOld when
// the schema is missing or old: see Migrate. It returns ErrPooler and ErrRoleSettings.
func OpenKeyless(ctx context.Context, opts Options) (*Keyless, error) {
	pool, err := pg.Open(ctx, opts.URL, opts.Pooled, keylessConns)
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
	keyless := newKeyless(pool)
	return &keyless, nil
}

// Close closes every connection.
func (k *Keyless) Close() { k.pool.Close() }
