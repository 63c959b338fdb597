// Package storagetest gives tests a store on a database of their own, and a way past the store to its rows.
package storagetest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/pgtemp"
)

// Database is a PostgreSQL database with the service's tables, for one test. Every error ends the test.
type Database struct {
	URL        string
	MasterKeys string // see pg.ParseKeyring
	pool       *pgxpool.Pool
}

// New makes a database. It is dropped after the test.
func New(tb testing.TB) Database {
	tb.Helper()
	return At(tb, pgtemp.ForTest(tb, storage.Migrate))
}

// At describes a database that is there, or one that the test migrates itself.
func At(tb testing.TB, url string) Database {
	tb.Helper()
	d := Database{URL: url, MasterKeys: pg.NewMasterKey("k1")}
	var err error
	if d.pool, err = pgxpool.New(context.WithoutCancel(tb.Context()), d.URL); err != nil { // it connects when it is used
		tb.Fatalf("connect: %v", err)
	}
	tb.Cleanup(d.pool.Close)
	return d
}

// Open returns a store with up to conns connections of its own, as another process has; 0 means as many as usual.
func (d Database) Open(tb testing.TB, conns int32) *storage.Store {
	tb.Helper()
	store, err := d.TryOpen(tb, conns)
	if err != nil {
		tb.Fatalf("open a store: %v", err)
	}
	return store
}

// TryOpen is Open for a store that may be refused.
func (d Database) TryOpen(tb testing.TB, conns int32) (*storage.Store, error) {
	tb.Helper()
	keys, err := pg.ParseKeyring(d.MasterKeys)
	if err != nil {
		tb.Fatalf("master keys: %v", err)
	}
	store, err := storage.Open(tb.Context(), storage.Options{URL: d.URL, Keys: keys, MaxConns: conns})
	if err == nil {
		tb.Cleanup(store.Close)
	}
	return store, err
}

// Connect returns a connection to the database. It is closed after the test.
func (d Database) Connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(context.WithoutCancel(tb.Context()), d.URL) // a clean-up may ask too
	if err != nil {
		tb.Fatalf("connect: %v", err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) }) // the database is dropped next
	return conn
}

// Exec changes rows without the store.
func (d Database) Exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	if _, err := d.pool.Exec(context.WithoutCancel(tb.Context()), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Value returns the one value that a query selects.
func Value[T any](tb testing.TB, d Database, sql string, args ...any) (v T) {
	tb.Helper()
	if err := d.pool.QueryRow(context.WithoutCancel(tb.Context()), sql, args...).Scan(&v); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return v
}
