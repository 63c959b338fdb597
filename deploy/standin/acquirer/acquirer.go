// Package acquirer is a double of Stripe for tests and for a local stack without the internet. It
// keeps state, which Stripe's own imitation (stripe-mock) does not: intents, confirmation tokens,
// idempotency keys, charges, refunds, disputes and events. stripe-mock runs as a child and judges
// every request first; its fixture is the base of each answer. The state is in PostgreSQL and
// survives kill -9.
//
// It has three addresses, all on loopback: the API; another origin with the script, the form in its
// frame and the bank's page, so that a browser keeps them apart as it does with Stripe's; and the
// control address, by which tests lose answers, forget keys and hold webhooks back.
//
// Where the double and Stripe differ, the double is wrong. `go test ./activities/stripe -run
// Contract` compares them when it is given a test key of Stripe's.
package acquirer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Options configures an Acquirer.
type Options struct {
	// DatabaseURL is PostgreSQL's. The tables are in a schema of their own, "acquirer".
	DatabaseURL string
	// Mock judges the requests. Nil starts one for this Acquirer alone.
	Mock *Mock
	// SecretKey is the only key that the API takes. "" takes any secret or restricted key.
	SecretKey string
	// Livemode is what the objects say. A simulation of live mode has true. Nothing is ever real.
	Livemode bool
	// Addresses to listen on, such as 127.0.0.1:12111. "" is a free port of 127.0.0.1. A restart
	// needs the same ones: they are in the addresses of banks' pages.
	APIAddress, PageAddress, ControlAddress string
	Webhooks                                Webhooks
}

// Acquirer is a running double. Its methods may be called from several goroutines.
type Acquirer struct {
	options Options
	db      *pgxpool.Pool
	mock    *Mock
	ownMock bool
	faults  faults
	urls    map[string]string // by the listener's name
	servers []*http.Server
	sender  *sender
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Start runs the double until ctx ends or Stop is called.
func Start(ctx context.Context, o Options) (_ *Acquirer, err error) {
	ctx, cancel := context.WithCancel(ctx)
	a := &Acquirer{options: o, mock: o.Mock, urls: map[string]string{}, cancel: cancel}
	defer func() {
		if err != nil {
			a.Stop()
		}
	}()
	if a.db, err = openDatabase(ctx, o.DatabaseURL); err != nil {
		return nil, fmt.Errorf("start the acquirer: %w", err)
	}
	if a.mock == nil {
		if a.mock, err = StartMock(ctx); err != nil {
			return nil, fmt.Errorf("start the acquirer: %w", err)
		}
		a.ownMock = true
	}
	a.sender = newSender(a.db, o.Webhooks)
	for _, l := range []struct {
		name, address string
		handler       http.Handler
	}{
		{"page", o.PageAddress, a.pages()},
		{"api", o.APIAddress, http.HandlerFunc(a.serveAPI)},
		{"control", o.ControlAddress, a.control()},
	} {
		if err := a.listen(l.name, l.address, l.handler); err != nil {
			return nil, fmt.Errorf("start the acquirer: %w", err)
		}
	}
	a.running.Go(func() { a.sender.run(ctx) })
	return a, nil
}

// listen serves the handler on loopback.
func (a *Acquirer) listen(name, address string, handler http.Handler) error {
	address = cmp.Or(address, "127.0.0.1:0")
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("address %q is not on loopback: the double takes cards and trusts every caller", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	a.urls[name] = "http://" + l.Addr().String()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	a.servers = append(a.servers, server)
	a.running.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("acquirer", "listener", name, "error", err)
		}
	})
	return nil
}

// APIURL is the address that stands for https://api.stripe.com.
func (a *Acquirer) APIURL() string { return a.urls["api"] }

// ScriptURL is the address that stands for https://js.stripe.com/…/stripe.js. Its origin is also that
// of the form's frame and of the bank's page.
func (a *Acquirer) ScriptURL() string { return a.urls["page"] + "/dahlia/stripe.js" }

// Control returns the client of the control address.
func (a *Acquirer) Control() Control { return Control{URL: a.urls["control"]} }

// Stop ends the double. What was answered stays in the database.
func (a *Acquirer) Stop() {
	a.cancel()
	for _, server := range a.servers {
		_ = server.Close() // it only closes sockets
	}
	a.running.Wait()
	if a.ownMock {
		a.mock.Stop()
	}
	if a.db != nil {
		a.db.Close()
	}
}
