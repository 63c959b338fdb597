package pgtemp

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ForTest returns the URL of a database that belongs to this test alone and is dropped after it.
//
// migrate fills a template database once per test process (and per migrate function); every test gets a copy, which
// costs less than a tenth of a second. It must close its connections. nil means empty databases.
//
// The server is one throwaway server per test process, which dies with the process; the environment variable
// DATABASE_URL, a postgres:// URL of a role that may create databases, makes ForTest use that server instead.
// Whatever goes wrong ends the test: a test that needs PostgreSQL is never skipped.
func ForTest(tb testing.TB, migrate func(ctx context.Context, url string) error) string {
	tb.Helper()
	host, err := testHost()
	if err != nil {
		tb.Fatalf("PostgreSQL for tests: %v", err)
	}
	template, err := host.template(migrate)
	if err != nil {
		tb.Fatalf("template database for tests: %v", err)
	}
	name := host.newName("test")
	if err := host.create(name, template); err != nil {
		tb.Fatalf("database for this test: %v", err)
	}
	tb.Cleanup(func() {
		if err := host.drop(name); err != nil {
			tb.Errorf("drop the test's database: %v", err)
		}
	})
	return host.url(name)
}

// testDeadline limits each step; a test's own context would end before its cleanup.
const testDeadline = 2 * time.Minute

// A host is the server on which the tests of this process run.
type host struct {
	url func(database string) string
	// prefix begins the names of this process's databases. One connection carries it as its application_name for as
	// long as the process lives: databases whose prefix nobody carries are left over from a process that died.
	prefix string
	keeper *pgx.Conn

	mu        sync.Mutex
	templates map[uintptr]string // by migrate function
}

var testHost = sync.OnceValues(func() (*host, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	h := &host{prefix: "pgtemp_" + strings.ToLower(rand.Text()[:10]), templates: map[uintptr]string{}}
	if address := os.Getenv("DATABASE_URL"); address != "" {
		parsed, err := url.Parse(address)
		if err != nil {
			return nil, fmt.Errorf("DATABASE_URL is not a postgres:// URL") // the error's text would show the password
		}
		h.url = func(database string) string {
			u := *parsed
			u.Path = "/" + database
			return u.String()
		}
		return h, h.adopt(ctx, address)
	}
	server, err := Start(ctx, Options{Throwaway: true})
	if err != nil {
		return nil, err
	}
	h.url = server.URL
	return h, nil
})

// adopt uses a server that is not ours: it announces this process and drops what dead processes left behind.
func (h *host) adopt(ctx context.Context, address string) (err error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return err
	}
	config.RuntimeParams["application_name"] = h.prefix
	if h.keeper, err = pgx.ConnectConfig(ctx, config); err != nil {
		return err
	}
	rows, err := h.keeper.Query(ctx, `
		SELECT datname FROM pg_database
		WHERE datname LIKE 'pgtemp\_%' AND NOT EXISTS (
			SELECT FROM pg_stat_activity WHERE application_name = left(datname, $1))`, len(h.prefix))
	if err != nil {
		return err
	}
	stale, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range stale {
		// Several processes may do this at once, and the database may be another role's: neither is our concern.
		_, _ = h.keeper.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize())
	}
	return nil
}

func (h *host) newName(kind string) string {
	return h.prefix + "_" + kind + "_" + strings.ToLower(rand.Text()[:10])
}

// template returns the name of the database that migrate has filled, "" for nil.
func (h *host) template(migrate func(context.Context, string) error) (string, error) {
	if migrate == nil {
		return "", nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := reflect.ValueOf(migrate).Pointer()
	if name, ok := h.templates[key]; ok {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	name := h.newName("template")
	if err := h.create(name, ""); err != nil {
		return "", err
	}
	if err := migrate(ctx, h.url(name)); err != nil {
		return "", fmt.Errorf("migrate: %w", err)
	}
	h.templates[key] = name
	return name, nil
}

func (h *host) create(name, template string) error {
	return h.admin(func(ctx context.Context, conn *pgx.Conn) error { return createDatabase(ctx, conn, name, template) })
}

func (h *host) drop(name string) error {
	return h.admin(func(ctx context.Context, conn *pgx.Conn) error {
		// FORCE: a pool that the test forgot to close must not hide the test's own failure.
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		return err
	})
}

// admin runs do on a connection to the database postgres.
func (h *host) admin(do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	conn, err := pgx.Connect(ctx, h.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(ctx, conn)
}
