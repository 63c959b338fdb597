package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/activities"
	"example.com/checkout/activities/sandbox"
	"example.com/checkout/api"
	"example.com/checkout/api/dashboard"
	"example.com/checkout/api/health"
	"example.com/checkout/api/hosted"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
)

// challengePath is the page of the sandbox's bank, where customers confirm a payment.
const challengePath = "/sandbox/3ds"

// API serves the REST API, the hosted page and the dashboard until stopped ends, and CHECKOUT_STOP_DELAY
// longer. It starts even when Temporal is away, and answers the requests that do not need Temporal. While
// it waits for PostgreSQL or for the schema, it answers /healthz and /readyz only.
func API(stopped context.Context, cfg config.Config) error {
	options, err := temporalOptions(cfg.Temporal)
	if err != nil {
		return err
	}
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return err
	}
	defer temporal.Close()

	state := newState(temporal)
	ctx, stop := untilStopped(stopped, state, cfg.StopDelay)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	rest := newGate(state)
	err = serve(ctx, group, "REST API", cfg.APIAddress, behindProxies(cfg.Proxies, web.Compressed(rest)))
	if err != nil {
		return err
	}
	starting, done := either(ctx, stopped)
	defer done()
	store, err := awaitStore(starting, cfg, state)
	if err == nil {
		defer store.Close()
		state.SetChecks(store.Ping, health.Temporal(temporal))
		err = measure(cfg, store)
	}
	if err == nil {
		requests := api.NewRequestLog(store.Requests, slog.Default())
		defer requests.Flush(context.WithoutCancel(ctx)) // the requests under way at the stop have ended
		group.Go(func() error { requests.Run(ctx); return nil })
		err = startAPI(ctx, cfg, store, group, rest, api.Config{
			Store: api.StoreOf(store), Runs: &runs.Client{Temporal: temporal, Pending: pendingSession(store)},
			Health:   state,
			Requests: requests,
		})
	}
	if err != nil {
		stop()
		return cmp.Or(group.Wait(), err) // an error of the group is the cause
	}
	state.MarkReady()
	return group.Wait()
}

// startAPI opens rest for the REST API and starts the rest of the process in group.
func startAPI(
	ctx context.Context, cfg config.Config, store *storage.Store, group *errgroup.Group, rest *gate,
	restConfig api.Config,
) error {
	client := restConfig.Runs
	guard := activities.NewAddressGuard(cfg.AllowLoopback)
	if cfg.AllowLoopback {
		slog.WarnContext(ctx, "test-mode webhooks may reach loopback addresses")
	}
	cards := &sandbox.CardNetwork{Sandbox: store.Sandbox, ChallengeURL: cfg.PageURL + challengePath}
	// All requests share the connections to PostgreSQL. One merchant may use a third of them for
	// reads and a third for writes, so that connections stay free for the others.
	shares := limit.NewShares(int(cfg.DatabaseMaxConns) / 3)
	restConfig.URL = cfg.APIURL
	restConfig.CheckoutURL, restConfig.CheckAddress = cfg.PageURL, guard.Check
	restConfig.SessionLifetime, restConfig.Payouts = cfg.SessionLifetime, map[checkout.Mode]*api.Payouts{}
	restConfig.Limits, restConfig.Shares, restConfig.Log = limits(cfg), shares, slog.Default()
	page := hosted.Config{
		People: store.People, Requests: store.Requests, Sessions: store.Sessions, Runs: client, TestCards: cards,
		Acquirers: map[checkout.Mode]*hosted.Acquirer{},
		Chains:    map[checkout.Mode]map[money.PayoutCurrency]string{}, CheckoutURL: cfg.PageURL,
		Limits: pageLimits(cfg), Declines: declines(cfg), Shares: shares, Log: slog.Default(),
	}
	runLive, noLive := openNetworksAPI(cfg.Live, &restConfig, &page)
	runTest, noTest := openNetworksAPI(cfg.Test, &restConfig, &page)
	if err := cmp.Or(noLive, noTest); err != nil {
		return err
	}
	pages := http.NewServeMux()
	challenge := http.NewCrossOriginProtection().Handler(sandbox.Challenge{Cards: cards})
	pages.Handle(challengePath+"/", hosted.Bound(page, http.StripPrefix(challengePath, challenge)))
	pages.Handle("/", hosted.New(page))

	people := dashboard.New(dashboard.Config{
		Store: dashboard.StoreOf(store), Runs: client, URL: cfg.DashboardURL, CheckoutURL: cfg.PageURL,
		APIURL: cfg.APIURL, TemporalUI: cfg.TemporalUIURL, Namespace: cfg.Temporal.Namespace,
		Addresses: cfg.PayoutAddressRules(),
		Simulated: cfg.Live.Simulated, Mail: cfg.SMTP != nil, AddressDelay: cfg.PayoutAddressDelay,
		RequireFactor: cfg.RequireSecondFactor,
		CheckAddress:  guard.Check, Limits: dashboardLimits(cfg), Shares: shares, Log: slog.Default(),
	})

	rest.open(withReports(cfg, store, client, api.New(restConfig)))
	err := serve(ctx, group, "hosted page", cfg.PageAddress, behindProxies(cfg.Proxies, web.Compressed(pages)))
	if err == nil {
		err = serve(
			ctx, group, "dashboard", cfg.DashboardAddress, behindProxies(cfg.Proxies, web.CompressedSameOrigin(people)))
	}
	if err != nil {
		return err
	}
	group.Go(func() error { runLive(ctx); return nil })
	group.Go(func() error { runTest(ctx); return nil })
	return nil
}

// badKeyBurst is how many requests without a valid key get 401 before 429. The 401 shows a
// misconfigured client its fault.
const badKeyBurst = 100

// limits returns the rate limits of the REST API. The burst of a key is its requests of one second.
// Explaining a signature counts as ten requests of a test key, because it costs more work.
func limits(cfg config.Config) api.Limits {
	rates := storage.Rates{Test: limitOf(cfg.TestRateLimit, 1), Live: limitOf(cfg.LiveRateLimit, 1)}
	return api.Limits{
		Reads: rates, Writes: rates, BadKeys: storage.Rate{PerSecond: cfg.BadKeyRateLimit, Burst: badKeyBurst},
		Verify: storage.Rate{PerSecond: cfg.TestRateLimit / 10, Burst: rates.Test.Burst},
	}
}

// limitOf returns a limit with a burst of some seconds.
func limitOf(perSecond, seconds float64) storage.Rate {
	return storage.Rate{PerSecond: perSecond, Burst: max(1, int(seconds*perSecond))}
}

// pageLimits returns the rate limits of the hosted page. The burst is large, because many customers may share one
// address. Forms counts only forms whose card was refused, so that nobody can test many stolen cards.
func pageLimits(cfg config.Config) limit.Rates {
	return limit.Rates{Requests: limitOf(cfg.PageRateLimit, 10), Forms: limitOf(cfg.FormRateLimit, 100)}
}

// declines returns the rates of declined cards at a live merchant: half as many of an address as at all merchants, and
// as many of all addresses as do not become a finding.
func declines(cfg config.Config) storage.DeclineRates {
	return storage.DeclineRates{
		Address:  storage.Rate{PerSecond: cfg.FormRateLimit / 6, Burst: max(1, int(50*cfg.FormRateLimit))},
		Merchant: storage.Rate{PerSecond: float64(cfg.DeclineLimit) / 600, Burst: int(cfg.DeclineLimit)},
	}
}

// dashboardLimits returns limits like pageLimits: a whole office may share one address. They allow one form
// for every twenty requests: people send fewer.
func dashboardLimits(cfg config.Config) limit.Rates {
	return limit.Rates{Requests: limitOf(cfg.DashboardRateLimit, 10), Forms: limitOf(cfg.DashboardRateLimit/20, 60)}
}

// Time-outs and limits of a connection. No request takes long, so a slow client is cut off.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
	stopTimeout       = 15 * time.Second
)

// serve listens on address, and answers requests in group until ctx ends. Then it finishes the requests under way.
func serve(ctx context.Context, group *errgroup.Group, name, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, Protocols: protocols(),
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	slog.InfoContext(ctx, name+" listens", "address", listener.Addr().String())
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return server.Shutdown(ctx)
	})
	return nil
}

// protocols returns HTTP/1.1 and HTTP/2 without TLS. With HTTP/2, a proxy needs one connection for
// all its requests, and the server announces a stop to the proxy before it stops.
func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

// pendingSession returns a look-up for runs.Client.
func pendingSession(store *storage.Store) func(context.Context, string) (*contract.RunRequest, error) {
	return func(ctx context.Context, id string) (*contract.RunRequest, error) {
		rows, err := store.Installation.Unfinished(ctx, []string{id})
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		lost := contract.RunRequest(rows[0])
		return &lost, nil
	}
}
