package pgtemp

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ForTest returns the URL of a database for this test alone. The database is dropped after the test.
//
// migrate fills a template database, once per test process and migrate function. Every test gets a copy of it, which
// takes less than a tenth of a second. migrate must close its connections. With a nil migrate the database is empty.
//
// Each test process has one throwaway server, which ends with the process. Every error ends the test:
// a test that needs PostgreSQL is never skipped.
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
	name := newName("test")
	if err := host.create(name, template); err != nil {
		tb.Fatalf("database for this test: %v", err)
	}
	tb.Cleanup(func() {
		if err := host.drop(name); err != nil {
			tb.Errorf("drop the test's database: %v", err)
		}
	})
	return host.server.URL(name)
}

// testDeadline limits each step. A test's own context would end before its cleanup.
const testDeadline = 2 * time.Minute

// A host is the server for the tests of this process.
type host struct {
	server *Server
	admin  *pgxpool.Pool // to the database postgres: to connect for each statement costs more than the statement

	mu        sync.Mutex
	templates map[uintptr]string // names of templates, by migrate function
}

var testHost = sync.OnceValues(func() (*host, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	server, err := Start(ctx, Options{Throwaway: true, Template: &Template{Name: "empty"}})
	if err != nil {
		return nil, err
	}
	admin, err := pgxpool.New(context.Background(), server.URL("postgres")) // for the life of the process
	return &host{server: server, admin: admin, templates: map[uintptr]string{}}, err
})

func newName(kind string) string { return kind + "_" + strings.ToLower(rand.Text()[:10]) }

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
	name := newName("template")
	if err := h.create(name, ""); err != nil {
		return "", err
	}
	if err := migrate(ctx, h.server.URL(name)); err != nil {
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

// RunInParallel makes a test process run at least four parallel tests at a time. Tests with a database mostly wait.
// A TestMain calls it first. The flag -parallel overrides it.
func RunInParallel() {
	if err := flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
}

// StopTime gives the time of this call to column of every row that is inserted into table from now on. It is also the
// time in the row excluded of INSERT … ON CONFLICT. So a token bucket, for example, gets no token back while a slow
// test runs. url names the test's own database. Every error ends the test.
func StopTime(tb testing.TB, url, table, column string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatalf("stop the time of %s: %v", table, err)
	}
	defer conn.Close(tb.Context())

	name, now := pgx.Identifier{"stopped_" + table}.Sanitize(), time.Now().UTC().Format(time.RFC3339Nano)
	_, err = conn.Exec(tb.Context(), `
		CREATE FUNCTION `+name+`() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN NEW.`+pgx.Identifier{column}.Sanitize()+` := '`+now+`'; RETURN NEW; END $$;
		CREATE TRIGGER stopped BEFORE INSERT ON `+pgx.Identifier{table}.Sanitize()+`
			FOR EACH ROW EXECUTE FUNCTION `+name+`()`)
	if err != nil {
		tb.Fatalf("stop the time of %s: %v", table, err)
	}
}
