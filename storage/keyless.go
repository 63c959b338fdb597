package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
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

// useCell makes this process write the installation's cell into new ids and keys.
func useCell(ctx context.Context, pool *pgxpool.Pool) error {
	cell, err := pg.Value[checkout.Cell](ctx, pool, `SELECT cell FROM installation`)
	if err == nil {
		checkout.SetCell(cell)
	}
	return pg.Wrap("read the installation's cell", err)
}

// SetCell stores the cell of this installation. Once there is a merchant it cannot change, because the
// merchant's ids and keys name the cell. Running processes use the new one after a restart.
func (k *Keyless) SetCell(ctx context.Context, cell checkout.Cell) error {
	if !cell.Valid() {
		return fmt.Errorf("the cell %q must be two of the characters 0-9 and a-z without i, l, o and u", cell)
	}
	return pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
		// A merchant that is created meanwhile would have the old cell in its id.
		if _, err := tx.Exec(ctx, `LOCK merchant IN SHARE ROW EXCLUSIVE MODE`); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE installation SET cell = $1 WHERE cell = $1 OR NOT EXISTS (SELECT FROM merchant)`, cell)
		if err == nil && tag.RowsAffected() == 0 {
			err = errors.New("the cell cannot change: a merchant is there, and its ids and keys name the cell")
		}
		return err
	})
}
