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
	"github.com/jackc/pgx/v5/pgxpool"
)

// ForTest returns the URL of a database for this test alone. The database is dropped after the
// test.
//
// migrate fills a template database, once per test process and migrate function. Every test gets a
// copy of it, which takes less than a tenth of a second. migrate must close its connections. With a
// nil migrate the database is empty.
//
// Each test process has one throwaway server, which ends with the process. The environment variable
// DATABASE_URL names another server to use instead: a postgres:// URL of a role that may create
// databases. Every error ends the test: a test that needs PostgreSQL is never skipped.
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

// testDeadline limits each step. A test's own context would end before its cleanup.
const testDeadline = 2 * time.Minute

// A host is the server for the tests of this process.
type host struct {
	url func(database string) string
	// prefix begins the names of this process's databases. One connection has it as
	// application_name as long as the process lives. A database is left over from a dead process
	// when no connection has its prefix.
	prefix string
	keeper *pgx.Conn
	admin  *pgxpool.Pool // to the database postgres: to connect for each statement costs more than the statement

	mu        sync.Mutex
	templates map[uintptr]string // names of templates, by migrate function
}

var testHost = sync.OnceValues(func() (*host, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	h := &host{prefix: "pgtemp_" + strings.ToLower(rand.Text()[:10]), templates: map[uintptr]string{}}
	if address := os.Getenv("DATABASE_URL"); address != "" {
		parsed, err := url.Parse(address)
		if err != nil {
			return nil, fmt.Errorf("DATABASE_URL is not a postgres:// URL") // the parser's error would show the password
		}
		h.url = func(database string) string {
			u := *parsed
			u.Path = "/" + database
			return u.String()
		}
		if err := h.adopt(ctx, address); err != nil {
			return nil, err
		}
		return h, h.connect()
	}
	server, err := Start(ctx, Options{Throwaway: true, Template: &Template{Name: "empty"}})
	if err != nil {
		return nil, err
	}
	h.url = server.URL
	return h, h.connect()
})

func (h *host) connect() (err error) {
	h.admin, err = pgxpool.New(context.Background(), h.url("postgres")) // for the life of the process
	return err
}

// adopt uses a server that another process started. It announces this process on the server and
// drops the databases of dead processes.
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
		// Another process may drop it at the same time, or it may belong to another role: ignore
		// both.
		_, _ = h.keeper.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize())
	}
	return nil
}

func (h *host) newName(kind string) string {
	return h.prefix + "_" + kind + "_" + strings.ToLower(rand.Text()[:10])
}

// template returns the name of the database that migrate filled, "" for a nil migrate.
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
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	return createDatabase(ctx, h.admin, name, template)
}

func (h *host) drop(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	// FORCE: an open pool of the test must not hide the test's own failure.
	_, err := h.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}
