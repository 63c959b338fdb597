// Package api is the REST front end. A handler decodes the request, makes one call to storage or to
// package action, and returns the answer. errors.go turns every error into an answer. The contract is
// interface.md; decisions.md lists the decisions where it is silent, and their tests.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/action"
	"example.com/checkout/api/health"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

// Store is what the REST API reads and writes.
type Store struct {
	Balances  *storage.Balances
	Disputes  *storage.DisputeReader
	Merchants *storage.Merchants
	Payouts   *storage.PayoutReader
	Refunds   *storage.RefundReader
	Requests  *storage.Requests
	Sessions  *storage.Sessions
	Webhooks  *storage.WebhookSecretReader
	Actions   action.Store
}

// StoreOf returns the part of a store that this package reads and writes.
func StoreOf(s *storage.Store) Store {
	return Store{
		Balances:  s.Balances,
		Disputes:  s.Disputes.DisputeReader,
		Merchants: s.Merchants,
		Payouts:   s.Payouts.PayoutReader,
		Refunds:   s.Refunds.RefundReader,
		Requests:  s.Requests,
		Sessions:  s.Sessions,
		Webhooks:  s.Webhooks.WebhookSecretReader,
		Actions:   action.StoreOf(s),
	}
}

// Config configures the front end.
type Config struct {
	Store Store
	Runs  *runs.Client
	// URL is the public address of this API without a trailing slash. The OpenAPI document names it.
	// When empty, the document names the address from which it came.
	URL string
	// IdempotencyWait is how long a repeat of a request that is still worked on waits for its answer. 0 is
	// 5 s, and a negative one does not wait.
	IdempotencyWait time.Duration
	// CheckoutURL is the address of the hosted pages without a trailing slash: the {checkout_url}
	// of the interface document.
	CheckoutURL string
	// CheckAddress returns an error when the service cannot send events to host. Merchants read the
	// text of the error; it continues a sentence that begins with a field's name.
	CheckAddress func(ctx context.Context, mode checkout.Mode, host string) error
	// SessionLifetime is the lifetime of test sessions. Live sessions always have checkout.SessionLifetime.
	SessionLifetime time.Duration
	// Payouts are the offers of the real chains, by mode. A live session needs it. The sandbox pays what a
	// test session has no other chain for.
	Payouts map[checkout.Mode]*Payouts
	Limits  Limits
	Shares  *limit.Shares // bounds the requests of one merchant that the process works on at once
	Health  *health.State // of the process
	Log     *slog.Logger  // slog.Default when nil
	// Requests is the log that merchants see; nil: none. The caller runs it.
	Requests *RequestLog
}

// Payouts are the offers of the real chains of a mode.
type Payouts struct {
	Currencies []money.PayoutCurrency // what can be paid out
	// NoQuoteSince returns since when there has been no exchange rate, the zero time while there is
	// one.
	NoQuoteSince func(from money.Currency, to money.PayoutCurrency) time.Time
	// Bounds returns the present bounds of a payout from memory.
	Bounds checkout.FindBounds
}

// requestTimeout bounds one request. A slow but normal request waits for a name lookup, for a place
// among the creates, for PostgreSQL and for Temporal, in this order.
const requestTimeout = 10 * time.Second

// Server answers the REST API.
type Server struct {
	Config
	actions action.Actions
	seen    *seenKeys
	repeats *limit.Shares // of the repeats that wait for the answer to their first request
	uploads *limit.Shares // of requests with large bodies
}

// New returns the REST front end. It sets no limits on connections; the caller's http.Server does.
func New(c Config) http.Handler {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.IdempotencyWait = cmp.Or(c.IdempotencyWait, defaultIdempotencyWait)
	s := newServer(c)

	router := newRouter()
	s.routes(router)
	router.Use(traceRoute)
	router.NotFoundHandler = traceRoute(s.serve(notFound)) // router.Use does not apply here

	return withExchange(router)
}

// newRouter returns a router that redirects to no clean path or slash, and takes an escaped slash for no separator.
func newRouter() *mux.Router {
	return mux.NewRouter().SkipClean(true).StrictSlash(false).UseEncodedPath()
}

func newServer(c Config) *Server {
	// A step that Reconcile repeats is logged with its request.
	left := func(ctx context.Context, err error) {
		c.Log.WarnContext(ctx, "left to Reconcile", "error", err, "request_id", exchangeFrom(ctx).requestID)
	}
	return &Server{
		Config: c, actions: action.Actions{Store: c.Store.Actions, Runs: c.Runs, LeftToReconcile: left},
		seen: &seenKeys{}, repeats: limit.NewShares(maxRepeats), uploads: limit.NewShares(maxUploads),
	}
}

const (
	get    = http.MethodGet
	post   = http.MethodPost
	patch  = http.MethodPatch
	remove = http.MethodDelete
)

// routes adds every route.
func (s *Server) routes(router *mux.Router) {
	checkouts := func(h handler) handler { return s.requireKey(merchant.ResourceCheckout, h) }
	events := func(h handler) handler { return s.requireKey(merchant.ResourceEvents, h) }
	payouts := func(h handler) handler { return s.requireKey(merchant.ResourcePayouts, h) }
	refunds := func(h handler) handler { return s.requireKey(merchant.ResourceRefunds, h) }

	event := byID(checkout.PrefixEvent, s.Store.Webhooks.Event)
	payout := byID(checkout.PrefixPayout, s.Store.Payouts.Payout)
	refund := byID(checkout.PrefixRefund, s.Store.Refunds.Refund)
	dispute := byID(checkout.PrefixDispute, s.Store.Disputes.Dispute)
	transaction := byID(checkout.PrefixTransaction, s.Store.Sessions.Transaction) // one that is not decided is a 404

	s.route(router, "/v1/checkout", methods{
		get: checkouts(s.listSessions), post: checkouts(withObject(s.newSession, s.createSession)),
	})
	s.route(router, "/v1/checkout/{id}", methods{get: checkouts(withObject(s.session, s.getSession))})
	s.route(router, "/v1/checkout/{id}/expire", methods{post: checkouts(withObjectAndNoBody(s.session, s.expireSession))})
	s.route(router, "/v1/checkout/{id}/refund", methods{post: refunds(withObject(s.session, s.refundSession))})
	s.route(router, "/v1/refunds", methods{get: refunds(s.listRefunds)})
	s.route(router, "/v1/refunds/{id}", methods{get: refunds(showObject(refund))})
	s.route(router, "/v1/disputes", methods{get: refunds(s.listDisputes)})
	s.route(router, "/v1/disputes/{id}", methods{get: refunds(showObject(dispute))})
	s.route(router, "/v1/disputes/{id}/evidence", methods{
		post: s.withLargeBody(maxEvidenceBody, refunds(withObject(dispute, s.submitEvidence))),
	})
	s.route(router, "/v1/transactions", methods{get: checkouts(s.listTransactions)})
	s.route(router, "/v1/transactions/{id}", methods{get: checkouts(showObject(transaction))})
	s.route(router, "/v1/merchant", methods{get: s.requireKey(anyResource, s.getMerchant)})
	s.route(router, "/v1/test/checkout/{id}/advance", methods{post: checkouts(s.advanceSession)})

	s.webhookRoutes(router)
	s.deliveryRoutes(router)

	s.route(router, "/v1/events", methods{get: events(s.listEvents)})
	s.route(router, "/v1/events/{id}", methods{get: events(showObject(event))})

	s.route(router, "/v1/payouts", methods{get: payouts(s.listPayouts)})
	s.route(router, "/v1/payouts/{id}", methods{get: payouts(showObject(payout))})
	s.route(router, "/v1/payouts/{id}/retry", methods{post: payouts(withObjectAndNoBody(payout, s.retryPayout))})
	s.route(router, "/v1/balance", methods{get: payouts(s.getBalance)})
	s.route(router, "/v1/balance/transactions", methods{get: payouts(s.listBalanceTransactions)})

	s.healthRoutes(router)
	s.assetRoutes(router)
}

// webhookRoutes adds the routes of registrations and of bulk replays. mux takes the first route that fits, so
// /v1/webhooks/verify comes before /v1/webhooks/{id}. No id looks like "verify".
func (s *Server) webhookRoutes(router *mux.Router) {
	webhooks := func(h handler) handler { return s.requireKey(merchant.ResourceWebhooks, h) }
	endpoint := byID(checkout.PrefixEndpoint, s.Store.Webhooks.Endpoint)
	replay := byID(checkout.PrefixReplay, s.Store.Webhooks.Replay)

	s.route(router, "/v1/webhooks", methods{
		get: webhooks(s.listEndpoints), post: webhooks(withObject(s.newEndpoint, s.createEndpoint)),
	})
	s.route(router, "/v1/webhooks/verify", methods{post: webhooks(s.verifySignature)})
	s.route(router, "/v1/webhooks/{id}", methods{
		get: webhooks(showObject(endpoint)), patch: webhooks(withObject(endpoint, s.changeEndpoint)),
		remove: webhooks(withObjectAndNoBody(endpoint, s.deleteEndpoint)),
	})
	hold, resume := s.setEndpointStatus(webhook.EndpointDisabled), s.setEndpointStatus(webhook.EndpointEnabled)
	s.route(router, "/v1/webhooks/{id}/hold", methods{post: webhooks(withObjectAndNoBody(endpoint, hold))})
	s.route(router, "/v1/webhooks/{id}/resume", methods{post: webhooks(withObjectAndNoBody(endpoint, resume))})
	s.route(router, "/v1/webhooks/{id}/rotate_secret", methods{post: webhooks(withObject(endpoint, s.rotateSecret))})
	s.route(router, "/v1/webhooks/{id}/test", methods{post: webhooks(withObject(endpoint, s.sendTestEvent))})
	s.route(router, "/v1/webhooks/{id}/replay", methods{post: webhooks(withObject(endpoint, s.createReplay))})

	s.route(router, "/v1/replays", methods{get: webhooks(s.listReplays)})
	s.route(router, "/v1/replays/{id}", methods{get: webhooks(showObject(replay))})
	s.route(router, "/v1/replays/{id}/cancel", methods{post: webhooks(withObjectAndNoBody(replay, s.cancelReplay))})
}

func (s *Server) deliveryRoutes(router *mux.Router) {
	deliveries := func(h handler) handler { return s.requireKey(merchant.ResourceDeliveries, h) }
	delivery := byID(checkout.PrefixDelivery, s.Store.Webhooks.Delivery)

	s.route(router, "/v1/deliveries", methods{get: deliveries(s.listDeliveries)})
	s.route(router, "/v1/deliveries/{id}", methods{get: deliveries(showObject(delivery))})
	onDelivery := func(name string, status int, do action.Steering) {
		h := deliveries(withObjectAndNoBody(delivery, steerDelivery(status, do)))
		s.route(router, "/v1/deliveries/{id}/"+name, methods{post: h})
	}
	onDelivery("replay", http.StatusAccepted, s.actions.ReplayDelivery)
	onDelivery("retry_now", http.StatusAccepted, s.actions.RetryDelivery)
	onDelivery("hold", http.StatusOK, s.actions.HoldDelivery)
	onDelivery("resume", http.StatusOK, s.actions.ResumeDelivery)
}

// handler returns one answer and never sees the ResponseWriter. serve writes body as JSON; a
// located body also gives a Location header.
type handler func(r *http.Request) (status int, body any, err error)

// located is a body with the value of the Location header.
type located struct {
	location string
	body     any
}

// methods are the handlers of one path. One route serves all methods, so that a 405 also goes
// through serve and has its route in logs.
type methods map[string]handler

// route adds a path. HEAD answers as GET; net/http leaves the body out.
func (s *Server) route(router *mux.Router, path string, m methods) {
	if h, ok := m[http.MethodGet]; ok {
		m[http.MethodHead] = h
	}
	allow := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
	router.Handle(path, s.serve(func(r *http.Request) (int, any, error) {
		if h, ok := m[r.Method]; ok {
			return h(r)
		}
		return 0, nil, methodNotAllowed(allow)
	}))
}

// byID reads the caller's object that the path names. It returns checkout.ErrNotFound, also for an id of another shape.
func byID[T any](
	prefix string, read func(context.Context, checkout.Ref) (T, error),
) func(*http.Request) (T, error) {
	return func(r *http.Request) (found T, err error) {
		id := mux.Vars(r)["id"]
		if !checkout.IsID(prefix, id) {
			return found, checkout.ErrNotFound
		}
		return read(r.Context(), callerFrom(r.Context()).Key.Owner.Ref(id))
	}
}

// withObject serves a request about what read returns: the object in the path, or the new one in the body. A 404 comes
// before faults of the body.
func withObject[T any](read func(*http.Request) (T, error), h func(*http.Request, T) (int, any, error)) handler {
	return func(r *http.Request) (int, any, error) {
		found, err := read(r)
		if err != nil {
			return 0, nil, err
		}
		return h(r, found)
	}
}

// withObjectAndNoBody is withObject for a request without a body.
func withObjectAndNoBody[T any](
	read func(*http.Request) (T, error), h func(*http.Request, T) (int, any, error),
) handler {
	return withObject(read, func(r *http.Request, found T) (int, any, error) {
		if err := readNothing(r); err != nil {
			return 0, nil, err
		}
		return h(r, found)
	})
}

// maxUploads is how many requests with large bodies a caller may send to this process at once: each takes some tens of
// megabytes of memory.
const maxUploads = 2

// withLargeBody lets the body of a request have most bytes instead of maxBody.
func (s *Server) withLargeBody(most int64, h handler) handler {
	return func(r *http.Request) (int, any, error) {
		place, ok := s.uploads.TryEnter(s.ownerOf(r))
		if !ok {
			return 0, nil, &limit.TooOftenError{Wait: time.Second}
		}
		defer place.Leave(false)
		exchangeFrom(r.Context()).maxBody = most
		return h(r)
	}
}

// showObject serves GET of the object in the path.
func showObject[T any](read func(*http.Request) (T, error)) handler {
	return withObject(read, func(_ *http.Request, found T) (int, any, error) { return http.StatusOK, found, nil })
}

func notFound(*http.Request) (int, any, error) { return 0, nil, checkout.ErrNotFound }

// traceRoute traces and measures next by route.
func traceRoute(next http.Handler) http.Handler {
	traced := web.Trace("checkout-api", next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = ""
		if route := mux.CurrentRoute(r); route != nil {
			r.Pattern, _ = route.GetPathTemplate() // every route has a path
		}
		traced.ServeHTTP(w, r)
	})
}
