// Package acquirer is a double of Stripe for tests and for a local stack without the internet. It keeps state, which
// Stripe's own imitation (stripe-mock) does not: intents, confirmation tokens, idempotency keys, charges, refunds,
// disputes and events. stripe-mock runs as a child and judges every request first; its fixture is the base of each
// answer. The state is in PostgreSQL and survives a kill.
//
// It has three addresses, all on loopback: the API; another origin with the script, the form in its
// frame and the bank's page, so that a browser keeps them apart as it does with Stripe's; and the
// control address, at which a person makes disputes and decides refunds. Tests have methods for that,
// and others that lose answers, forget keys and hold webhooks back.
//
// Where the double and Stripe differ, the double is wrong. `go test ./activities/stripe -run
// Contract` compares them when it is given a test key of Stripe's.
package acquirer

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/pgtemp"
)

// Options configures an Acquirer.
type Options struct {
	// DatabaseURL is PostgreSQL's. The tables are in a schema of their own, "acquirer".
	DatabaseURL string
	// SecretKey is the only secret key that the API takes.
	SecretKey string
	// Livemode is what the objects say. A simulation of live mode has true. Nothing is ever real.
	Livemode bool
	// Addresses to listen on, such as 127.0.0.1:12111. "" is a free port of 127.0.0.1. Another
	// double on the same database needs the same ones: they are in the addresses of banks' pages.
	APIAddress, PageAddress, ControlAddress string
	Webhooks                                Webhooks
}

// Acquirer is a running double. Its methods may be called from several goroutines, but Kill, Restart
// and Stop only one after the other.
type Acquirer struct {
	options Options // with the addresses that it got
	db      *pgxpool.Pool
	mock    mock
	faults  faults
	sender  *sender

	up      atomic.Bool
	servers []*http.Server
	cancel  context.CancelFunc // ends the requests and the sender
	running sync.WaitGroup
}

// Start runs the double until Kill or Stop. ctx bounds the start only.
func Start(ctx context.Context, o Options) (_ *Acquirer, err error) {
	a := &Acquirer{options: o, cancel: func() {}}
	defer func() {
		if err != nil {
			a.Stop()
			err = fmt.Errorf("start the acquirer: %w", err)
		}
	}()
	if a.db, err = openDatabase(ctx, o.DatabaseURL); err != nil {
		return nil, err
	}
	if a.mock, err = startMock(); err != nil {
		return nil, err
	}
	a.sender = newSender(a.db, o.Webhooks)
	if err := a.Restart(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Restart runs the double again after Kill, at the same addresses. It has forgotten the planned
// faults and holds no webhooks back. It does not end with ctx.
func (a *Acquirer) Restart(ctx context.Context) error {
	ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	a.faults.clear()
	a.sender.hold(false)
	for _, l := range []struct {
		address *string
		handler http.Handler
	}{
		{&a.options.PageAddress, a.pages()},
		{&a.options.APIAddress, http.HandlerFunc(a.serveAPI)},
		{&a.options.ControlAddress, a.control()},
	} {
		if err := a.serve(ctx, l.address, l.handler); err != nil {
			a.Kill()
			return err
		}
	}
	a.running.Go(func() { a.sender.run(ctx) })
	a.up.Store(true)
	return nil
}

// serve serves the handler on loopback. It notes the address that it got.
func (a *Acquirer) serve(ctx context.Context, address *string, handler http.Handler) error {
	wanted := cmp.Or(*address, "127.0.0.1:0")
	host, _, err := net.SplitHostPort(wanted)
	if err != nil {
		return fmt.Errorf("address %q: %w", wanted, err)
	}
	if !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("address %q is not on loopback: the double takes cards and trusts every caller", wanted)
	}
	l, err := pgtemp.Listen(wanted)
	if err != nil {
		return err
	}
	if got := l.Addr().String(); got != *address {
		*address = got // at the first start only: later others read it
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	a.servers = append(a.servers, server)
	a.running.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("acquirer", "address", wanted, "error", err)
		}
	})
	return nil
}

// APIURL is the address that stands for https://api.stripe.com.
func (a *Acquirer) APIURL() string { return "http://" + a.options.APIAddress }

// ScriptURL is the address that stands for https://js.stripe.com/…/stripe.js. Its origin is also that
// of the form's frame and of the bank's page.
func (a *Acquirer) ScriptURL() string { return a.pageURL() + "/dahlia/stripe.js" }

func (a *Acquirer) pageURL() string { return "http://" + a.options.PageAddress }

// ControlURL is the address at which a person lets things happen.
func (a *Acquirer) ControlURL() string { return "http://" + a.options.ControlAddress }

// Kill ends the double as a kill of its process does: nothing under way is answered. What was
// answered stays in the database.
func (a *Acquirer) Kill() {
	a.up.Store(false)
	for _, server := range a.servers {
		_ = server.Close() // it only closes sockets
	}
	a.servers = nil
	a.cancel() // after the sockets: it would answer that it has failed
	a.running.Wait()
}

// Stop ends the double for good.
func (a *Acquirer) Stop() {
	a.Kill()
	if a.db != nil {
		a.db.Close()
	}
}

//go:embed static
var embedded embed.FS

// pages serves the origin that stands for js.stripe.com and for the bank.
func (a *Acquirer) pages() http.Handler {
	static, err := fs.Sub(embedded, "static")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	file := func(name, policy string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			if policy != "" {
				w.Header().Set("Content-Security-Policy", policy)
			}
			http.ServeFileFS(w, r, static, name)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dahlia/stripe.js", file("stripe.js", ""))
	mux.HandleFunc("GET /frame", file("frame.html",
		"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'"))
	mux.HandleFunc("GET /frame.js", file("frame.js", ""))
	mux.HandleFunc("GET /frame.css", file("frame.css", ""))
	mux.HandleFunc("POST /tokens", a.serveToken)
	mux.HandleFunc("/bank/{intent}", a.serveBank)
	// Another origin's page may not have a card of its visitor tokenized.
	return http.NewCrossOriginProtection().Handler(mux)
}
