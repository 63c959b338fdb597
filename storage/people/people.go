// Package people keeps the people of merchants in PostgreSQL: members, the browsers in which they are signed in, how
// they prove who they are, what they are told by mail, what they changed, and the look of the hosted page that they
// choose. No transaction of money begins here: package storage has those.
package people

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/pg"
)

// Store keeps what needs no master key. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
}

// New returns a Store on a pool.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

// Secrets keeps what is stored sealed: the secrets of second factors, and those that a browser may see once.
type Secrets struct {
	pool *pgxpool.Pool
	keys *pg.Keyring
}

// NewSecrets returns Secrets on a pool, sealed with keys.
func NewSecrets(pool *pgxpool.Pool, keys *pg.Keyring) *Secrets { return &Secrets{pool, keys} }
