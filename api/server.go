// Package api is the REST front end. It is thin: a handler decodes, makes one
// call to storage or to a workflow and returns what to answer. Errors leave by
// one door, errors.go. What the interface document leaves open is settled in
// api/decisions.md, each point with the test that pins it.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// Config is everything the front end needs; Log, SessionLifetime, Limits and Shares
// may be left out.
type Config struct {
	Store     *storage.Store
	Workflows *runs.Client
	// CheckoutURL is where the hosted pages are, the {checkout_url} of the
	// interface document, without a trailing slash.
	CheckoutURL string
	// CheckAddress says why events cannot be sent to host; the text of its
	// error reads on from a field's name and is shown to merchants.
	CheckAddress func(ctx context.Context, mode checkout.Mode, host string) error
	// SessionLifetime is for test mode, checkout.SessionLifetime when 0. A live
	// session always has checkout.SessionLifetime.
	SessionLifetime time.Duration
	LiveCards       bool   // a live card network is configured
	Limits          Limits // DefaultLimits when zero
	// Shares of what the process can work on at once; nil: limit.DefaultShare for each.
	Shares *limit.Shares
	Log    *slog.Logger // slog.Default when nil
}

// requestTimeout bounds one request. The slowest honest one waits for a name
// lookup, a place among the creates, PostgreSQL and Temporal, in this order.
const requestTimeout = 10 * time.Second

// Server answers the REST API.
type Server struct {
	Config
	seen  *seenKeys
	ready *readiness
}

// New returns the REST front end. It sets no limits on connections; the
// http.Server around it does.
func New(c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.SessionLifetime == 0 {
		c.SessionLifetime = checkout.SessionLifetime
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits
	}
	if c.Limits.Verify.Burst == 0 {
		c.Limits.Verify = DefaultLimits.Verify
	}
	if c.Shares == nil {
		c.Shares = limit.NewShares(limit.DefaultShare)
	}
	s := newServer(c)
	// Clean paths and slashes would be answered with redirects, and an escaped
	// slash must not become a separator.
	router := mux.NewRouter().SkipClean(true).StrictSlash(false).UseEncodedPath()
	s.routes(router)
	router.Use(observed)
	router.NotFoundHandler = observed(s.serve(notFound)) // mux.Use does not reach it
	return withExchange(router)
}

func newServer(c Config) *Server {
	return &Server{Config: c, seen: &seenKeys{}, ready: &readiness{}}
}

// routes is every route. The first that fits is taken, so verify comes before
// the registrations' ids, none of which looks like it.
func (s *Server) routes(router *mux.Router) {
	const (
		get    = http.MethodGet
		post   = http.MethodPost
		patch  = http.MethodPatch
		remove = http.MethodDelete
	)
	checkouts := func(h handler) handler { return s.keyed(checkout.ResourceCheckout, h) }
	webhooks := func(h handler) handler { return s.keyed(checkout.ResourceWebhooks, h) }
	deliveries := func(h handler) handler { return s.keyed(checkout.ResourceDeliveries, h) }
	events := func(h handler) handler { return s.keyed(checkout.ResourceEvents, h) }
	payouts := func(h handler) handler { return s.keyed(checkout.ResourcePayouts, h) }
	s.route(router, "/v1/checkout", methods{get: checkouts(s.listSessions), post: checkouts(s.createSession)})
	s.route(router, "/v1/checkout/{id}", methods{get: checkouts(s.getSession)})
	s.route(router, "/v1/checkout/{id}/expire", methods{post: checkouts(s.expireSession)})
	s.route(router, "/v1/test/checkout/{id}/advance", methods{post: checkouts(s.advanceSession)})

	s.route(router, "/v1/webhooks", methods{get: webhooks(s.listEndpoints), post: webhooks(s.createEndpoint)})
	s.route(router, "/v1/webhooks/verify", methods{post: webhooks(s.verifySignature)})
	s.route(router, "/v1/webhooks/{id}", methods{get: webhooks(s.getEndpoint), patch: webhooks(s.changeEndpoint), remove: webhooks(s.deleteEndpoint)})
	s.route(router, "/v1/webhooks/{id}/hold", methods{post: webhooks(s.holdEndpoint)})
	s.route(router, "/v1/webhooks/{id}/resume", methods{post: webhooks(s.resumeEndpoint)})
	s.route(router, "/v1/webhooks/{id}/rotate_secret", methods{post: webhooks(s.rotateSecret)})
	s.route(router, "/v1/webhooks/{id}/test", methods{post: webhooks(s.sendTestEvent)})
	s.route(router, "/v1/webhooks/{id}/replay", methods{post: webhooks(s.createReplay)})

	s.route(router, "/v1/replays", methods{get: webhooks(s.listReplays)})
	s.route(router, "/v1/replays/{id}", methods{get: webhooks(s.getReplay)})
	s.route(router, "/v1/replays/{id}/cancel", methods{post: webhooks(s.cancelReplay)})

	s.route(router, "/v1/deliveries", methods{get: deliveries(s.listDeliveries)})
	s.route(router, "/v1/deliveries/{id}", methods{get: deliveries(s.getDelivery)})
	s.route(router, "/v1/deliveries/{id}/replay", methods{post: deliveries(s.replayDelivery)})
	s.route(router, "/v1/deliveries/{id}/retry_now", methods{post: deliveries(s.retryDelivery)})
	s.route(router, "/v1/deliveries/{id}/hold", methods{post: deliveries(s.holdDelivery)})
	s.route(router, "/v1/deliveries/{id}/resume", methods{post: deliveries(s.resumeDelivery)})

	s.route(router, "/v1/events", methods{get: events(s.listEvents)})
	s.route(router, "/v1/events/{id}", methods{get: events(s.getEvent)})

	s.route(router, "/v1/payouts", methods{get: payouts(s.listPayouts)})
	s.route(router, "/v1/payouts/{id}", methods{get: payouts(s.getPayout)})

	s.route(router, "/healthz", methods{get: s.healthz})
	s.route(router, "/readyz", methods{get: s.readyz})
	s.assetRoutes(router)
}

// handler decides one answer; it never sees the ResponseWriter. body is written
// as JSON, a located one with its Location.
type handler func(r *http.Request) (status int, body any, err error)

// located is the body of an answer with a Location.
type located struct {
	location string
	body     any
}

// methods are the handlers of one path. A route has them all, so that mux never
// answers 405 itself and even that answer is known by its route.
type methods map[string]handler

func (s *Server) route(router *mux.Router, path string, m methods) {
	allow := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
	router.Handle(path, s.serve(func(r *http.Request) (int, any, error) {
		if h, ok := m[r.Method]; ok {
			return h(r)
		}
		return 0, nil, methodNotAllowed(allow)
	}))
}

// pathID returns the id that the path names; one of another shape names nothing.
func pathID(r *http.Request, prefix string) (string, error) {
	id := mux.Vars(r)["id"]
	if !checkout.IsID(prefix, id) {
		return "", checkout.ErrNotFound
	}
	return id, nil
}

func notFound(*http.Request) (int, any, error) { return 0, nil, checkout.ErrNotFound }

// observed traces and measures next under its route.
func observed(next http.Handler) http.Handler {
	traced := web.Trace("checkout-api", next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = ""
		if route := mux.CurrentRoute(r); route != nil {
			r.Pattern, _ = route.GetPathTemplate() // every route has a path
		}
		traced.ServeHTTP(w, r)
	})
}

// serve is the one adapter from a handler to net/http: it bounds the time, keeps
// the process alive, writes the answer and logs one line about it.
func (s *Server) serve(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()

		status, body, err := call(h, r.WithContext(ctx))
		var text []byte
		if err == nil {
			text, err = accepted(w.Header(), body)
		}
		ex := exchangeFrom(ctx)
		if err != nil {
			status, text = refused(w.Header(), err, ex.requestID)
		}

		if ex.allowance != nil {
			limitHeaders(w.Header(), *ex.allowance)
		}
		web.SetDataHeaders(w.Header())
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(text) // #nosec G705 -- JSON, sent as such with nosniff; an error means that the client has gone
		s.log(ctx, r, ex, status, time.Since(began), err)
	})
}

// accepted is the text of a handler's answer; what else belongs to it is in header.
func accepted(header http.Header, body any) ([]byte, error) {
	if kept, ok := body.(replayed); ok {
		header.Set("Idempotent-Replayed", "true")
		body = kept.body
	}
	if at, ok := body.(located); ok {
		if at.location != "" {
			header.Set("Location", at.location)
		}
		body = at.body
	}
	return encode(body)
}

// refused is the status and the text that answer an error.
func refused(header http.Header, err error, requestID string) (status int, text []byte) {
	e := refusalOf(err)
	for name, value := range e.header {
		header.Set(name, value)
	}
	e.body.RequestID = requestID
	text, _ = encode(e.body) // strings only, so it cannot fail
	return e.kind.Status(), text
}

func encode(body any) ([]byte, error) {
	text, err := checkout.EncodeJSON(body)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return append(text, '\n'), nil
}

// call calls h and turns a panic into an error.
func call(h handler, r *http.Request) (status int, body any, err error) {
	defer web.Catch(&err)
	return h(r)
}

// log writes the one line of a request: no path, query, header or body, because
// merchants' secrets and customers' data may be in them.
func (s *Server) log(ctx context.Context, r *http.Request, ex *exchange, status int, took time.Duration, err error) {
	level := web.Level(status, err)
	if status < http.StatusInternalServerError && (r.Pattern == "/healthz" || r.Pattern == "/readyz") {
		level = slog.LevelDebug // probes come every second
	}
	attrs := []slog.Attr{
		slog.String("method", web.Method(r)), slog.String("route", r.Pattern), slog.Int("status", status),
		slog.Duration("duration", took), slog.String("request_id", ex.requestID),
	}
	if ex.caller.Key.ID != "" {
		attrs = append(attrs, slog.String("merchant_id", ex.caller.Merchant.ID),
			slog.String("mode", string(ex.caller.Key.Mode)), slog.String("key_id", ex.caller.Key.ID))
	}
	if status >= http.StatusInternalServerError {
		attrs = append(attrs, web.ErrorAttrs(err)...)
	}
	s.Log.LogAttrs(ctx, level, "request", attrs...)
}
