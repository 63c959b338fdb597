// Package storage keeps the service's tables in PostgreSQL. Each noun has a file, and nouns that are decided together
// have a type: a transaction belongs to the type that decides, and changes rows of other nouns through functions that
// take the transaction. Readers hold the type that only reads, such as SessionReader. Every query names the merchant
// and the mode; a query that cannot do so (by a key's hash, by the hosted page's session id) has a comment with the
// reason.
//
// PostgreSQL's clock alone decides when a session's time is over. Times are cut to milliseconds,
// the precision that answers show.
package storage

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// Options of Open.
type Options struct {
	URL      string      // postgres://…
	Pooled   bool        // URL leads to PgBouncer in transaction mode
	Keys     *pg.Keyring // seals webhook secrets
	MaxConns int32       // 0 means 20
}

// Store is the service's database: a type for each noun, on one pool of connections. It is safe for concurrent use, as
// all of them are.
type Store struct {
	Keyless
	Secrets      *people.Secrets
	Sessions     *Sessions
	Pictures     *Pictures
	Payouts      *Payouts
	Refunds      *Refunds
	Disputes     *Disputes
	Balances     *Balances
	Treasury     *Treasury
	Webhooks     *Webhooks
	Requests     *Requests
	Sandbox      *Sandbox
	Customers    *Customers
	Installation *Installation
}

// Sessions decides about checkout sessions and their payments. The end of a payment stores its event, deliveries,
// payout and booking.
type Sessions struct {
	*SessionReader
	keys *pg.Keyring
	// creates limits the connections that wait for Temporal inside CreateSession. So reads still
	// get a connection while Temporal is slow.
	creates *semaphore.Weighted
}

// SessionReader reads sessions, their payments, and the sums of them.
type SessionReader struct{ pool *pgxpool.Pool }

// Pictures keeps our copies of line items' pictures.
type Pictures struct{ pool *pgxpool.Pool }

// Payouts makes every decision about a payout except its transfers: see Treasury.
type Payouts struct{ *PayoutReader }

// PayoutReader reads payouts.
type PayoutReader struct{ pool *pgxpool.Pool }

// Treasury keeps our accounts on chains and their transfers. Its transactions lock the account first.
type Treasury struct {
	pool *pgxpool.Pool
	// accounts limits the connections that wait for the row of a treasury account, as Sessions.creates does.
	accounts *semaphore.Weighted
}

// Webhooks keeps registrations and their secrets, and decides about events, deliveries, attempts and replays.
type Webhooks struct{ *WebhookSecretReader }

// WebhookSecretReader is a WebhookReader that also opens the digests of secrets.
type WebhookSecretReader struct {
	*WebhookReader
	keys *pg.Keyring
}

// WebhookReader reads registrations, events, deliveries, attempts and replays, but no secret.
type WebhookReader struct{ pool *pgxpool.Pool }

// Books keeps the ledger and what it is compared with: charges and their risks, reports, and findings.
type Books struct{ pool *pgxpool.Pool }

// Requests keeps the rates, the repeats and the log of requests.
type Requests struct {
	pool *pgxpool.Pool
	keys *pg.Keyring
}

// Sandbox stands in for a card network and a chain.
type Sandbox struct{ pool *pgxpool.Pool }

// Merchants keeps merchants, their payout addresses and their API keys.
type Merchants struct{ pool *pgxpool.Pool }

// Customers erases customers' data.
type Customers struct {
	pool *pgxpool.Pool
	keys *pg.Keyring
}

// AuditLog is the log of changes.
type AuditLog struct{ pool *pgxpool.Pool }

// Installation keeps what concerns the rows of all merchants: the keys that seal them, what is overdue, and how long
// they stay.
type Installation struct {
	pool *pgxpool.Pool
	keys *pg.Keyring
}

// newStore returns a Store on a pool. Half of its connections may wait for Temporal, and half for treasury accounts.
func newStore(pool *pgxpool.Pool, opts Options) *Store {
	half := int64(max(1, opts.MaxConns/2))
	return &Store{
		Keyless:      newKeyless(pool),
		Secrets:      people.NewSecrets(pool, opts.Keys),
		Sessions:     &Sessions{&SessionReader{pool}, opts.Keys, semaphore.NewWeighted(half)},
		Pictures:     &Pictures{pool},
		Payouts:      &Payouts{&PayoutReader{pool}},
		Refunds:      &Refunds{&RefundReader{pool}},
		Disputes:     &Disputes{&DisputeReader{pool}},
		Balances:     &Balances{pool: pool},
		Treasury:     &Treasury{pool, semaphore.NewWeighted(half)},
		Webhooks:     &Webhooks{&WebhookSecretReader{&WebhookReader{pool}, opts.Keys}},
		Requests:     &Requests{pool, opts.Keys},
		Sandbox:      &Sandbox{pool},
		Customers:    &Customers{pool, opts.Keys},
		Installation: &Installation{pool, opts.Keys},
	}
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
	s := newStore(pool, opts)
	err = pg.CheckSchema(ctx, pool, schema())
	if err == nil {
		err = checkFeed(ctx, s.pool)
	}
	if err == nil {
		err = s.Installation.checkKeys(ctx)
	}
	if err == nil {
		err = useCell(ctx, pool)
	}
	if err == nil {
		s.Balances.ids, err = pg.Value[checkout.NumberKey](ctx, pool, `SELECT id_key FROM installation`)
		err = pg.Wrap("read the installation's key of ids", err)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// Ping reports whether PostgreSQL answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }
