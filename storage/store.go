// Package storage keeps the service's tables in PostgreSQL. Each noun has a file. Every query names
// the merchant and the mode; a query that cannot do so (by a key's hash, by the hosted page's
// session id) says why.
//
// PostgreSQL's clock alone decides when a session's time is over. Times are cut to milliseconds,
// the precision that answers show.
package storage

import (
	"cmp"
	"context"

	"golang.org/x/sync/semaphore"

	"example.com/checkout/storage/account"
	"example.com/checkout/storage/pg"
)

// Options of Open.
type Options struct {
	URL      string      // postgres://…
	Pooled   bool        // URL leads to PgBouncer in transaction mode
	Keys     *pg.Keyring // seals webhook secrets
	MaxConns int32       // 0 means 20
}

// Store is the service's database. It is safe for concurrent use.
type Store struct {
	Accounts
	*account.Secrets
	keys *pg.Keyring
	// creates limits the connections that wait for Temporal inside CreateSession. So reads still
	// get a connection while Temporal is slow.
	creates *semaphore.Weighted
	// accounts limits the connections that wait for the row of a treasury account, likewise.
	accounts *semaphore.Weighted
}

const defaultMaxConns = 20

// Open connects to the database. It checks that opts.Keys holds every key that sealed a value in
// this database, and returns ErrWrongMasterKey otherwise. It returns ErrSchemaTooOld when the schema is
// missing or old, and ErrOtherCluster: see Migrate. It returns ErrPooler and ErrRoleSettings.
func Open(ctx context.Context, opts Options) (*Store, error) {
	opts.MaxConns = cmp.Or(opts.MaxConns, defaultMaxConns)
	pool, err := pg.Open(ctx, opts.URL, opts.Pooled, opts.MaxConns)
	if err != nil {
		return nil, err
	}
	half := int64(max(1, opts.MaxConns/2))
	s := &Store{Accounts: newAccounts(pool), Secrets: account.NewSecrets(pool, opts.Keys), keys: opts.Keys,
		creates: semaphore.NewWeighted(half), accounts: semaphore.NewWeighted(half)}
	err = pg.CheckSchema(ctx, pool, schema())
	if err == nil {
		err = s.checkFeed(ctx)
	}
	if err == nil {
		err = s.checkKeys(ctx)
	}
	if err == nil {
		err = useCell(ctx, pool)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// Ping reports whether PostgreSQL answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }
