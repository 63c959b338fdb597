// Package hosted is the hosted checkout page at {checkout_url}/{session id}. A customer pays one
// session there. The page works without JavaScript and loads nothing from other hosts. A form with an
// acquirer is the exception to both: the acquirer's own form takes the card there, in live mode always.
//
// A card for an acquirer never reaches this server. A card for the sandbox stays in memory from the form
// until the sandbox returns a token. No log line, span or page ever holds it.
package hosted

import (
	"cmp"
	"context"
	"embed"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
)

// Config configures New.
type Config struct {
	People    *people.Store
	Requests  *storage.Requests
	Sessions  *storage.Sessions
	Runs      *runs.Client
	TestCards TestCards
	// Acquirers take the cards, by mode. Without one, the sandbox takes those of test sessions, and a
	// live session cannot be paid.
	Acquirers map[checkout.Mode]*Acquirer
	// Chains holds the CAIP-2 names of the chains on which new payments are paid out, by mode. The payouts of a
	// test session without one are the sandbox's, and a live session without one cannot be paid.
	Chains map[checkout.Mode]map[money.PayoutCurrency]string
	// CheckoutURL is {checkout_url} without a trailing slash. Requests arrive with its path, if it
	// has one.
	CheckoutURL string
	Limits      limit.Rates
	Declines    storage.DeclineRates // at one live merchant
	Shares      *limit.Shares        // bounds the requests of one address that the process works on at once
	Log         *slog.Logger         // nil: slog.Default()
}

// TestCards is the sandbox's card network, the only one to which this page sends a card. Other cards go
// from the customer's browser to the acquirer.
type TestCards interface {
	// Tokenize exchanges a card for a token.
	Tokenize(ctx context.Context, card checkout.Card) (token string, method checkout.PaymentMethod, err error)
	// Payment is as in checkout.CardNetwork.
	Payment(ctx context.Context, reference string) (checkout.ChargeResult, error)
}

type server struct {
	Config
	base   string // path of CheckoutURL, "" or "/…"
	origin string // scheme and host of CheckoutURL
	now    func() time.Time
	router *mux.Router

	entrance *limit.Entrance
	pictures *limit.Entrance // of line items
}

// New returns the handler for all addresses below cfg.CheckoutURL. It panics when cfg.CheckoutURL
// is not an absolute URL.
func New(cfg Config) http.Handler { return newServer(cfg).handler() }

func newServer(cfg Config) *server {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	u, err := url.Parse(cfg.CheckoutURL)
	if err != nil || u.Host == "" {
		panic("hosted: CheckoutURL is not an absolute URL")
	}

	return &server{
		Config: cfg, base: strings.TrimSuffix(u.Path, "/"), origin: u.Scheme + "://" + u.Host,
		now: time.Now, router: mux.NewRouter().SkipClean(true),
		entrance: &limit.Entrance{
			Requests: cfg.Requests, Shares: cfg.Shares, Rates: cfg.Limits, Server: bucketsOfAddress,
			FormsWait: true, // a form waits for the card network
		},
		// A page may have 50 pictures. They take no tokens from the payments of other customers of the address.
		pictures: &limit.Entrance{
			Requests: cfg.Requests, Shares: cfg.Shares, Rates: limit.Rates{Requests: pictureRate}, Server: bucketsOfPictures,
		},
	}
}

// handler adds every route. Each answers its errors with a page; only status answers with JSON,
// because a script reads it.
func (s *server) handler() http.Handler {
	reads := []string{http.MethodGet, http.MethodHead}
	handle := func(path string, h http.Handler, methods ...string) {
		s.router.Handle(s.base+path, web.Route(serverName, s.base+path, h)).Methods(methods...)
	}
	free := func(h web.Handler) http.Handler { return web.Serve(h, s.fail) }
	page := func(h sessionHandler) http.Handler { return free(s.entrance.Limited(bounded(s.session(h)))) }
	// Only forms of this server's own pages may change something. A bank's page may post to
	// /return, because /return only asks the card network.
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(s.failing(failure.Forbidden))
	form := func(h sessionHandler) http.Handler {
		return own.Handler(free(s.entrance.Limited(s.session(h), s.entrance.Forms)))
	}

	handle("/static/{file}", free(files.Serve), reads...)
	handle("/color/{color}/style.css", free(s.colorStyle), reads...)
	handle("/logo/{merchant}/{version}.png", free(s.entrance.Limited(bounded(s.logo))), reads...)
	handle("/preview/{merchant}", free(s.entrance.Limited(bounded(s.preview))), reads...)
	handle("/{id}/pictures/{picture}", free(s.pictures.Limited(bounded(s.picture))), reads...)
	handle("/{id}", page(s.showPage), reads...)
	handle("/{id}", form(s.pay), http.MethodPost)
	handle("/{id}/cancel", form(s.cancel), http.MethodPost)
	handle("/{id}/return", page(s.returnFromBank), http.MethodGet, http.MethodPost)
	handle("/{id}/status", web.Serve(s.entrance.Limited(bounded(s.status), ofSession), s.failJSON), reads...)
	s.router.NotFoundHandler = web.Route(serverName, "not found", s.failing(failure.NotFound))
	s.router.MethodNotAllowedHandler = web.Route(serverName, "method not allowed", http.HandlerFunc(s.methodNotAllowed))
	return s.withPageHeaders(s.router)
}

// readTimeout bounds a request that only reads. A form may wait longer, for the card network.
const readTimeout = 10 * time.Second

// bounded bounds the time of a handler that only reads.
func bounded(h web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
		defer cancel()
		return h(w, r.WithContext(ctx))
	}
}

// serverName is the server's name in spans and metrics.
const serverName = "checkout-page"

// withPageHeaders gives every answer a request id, the page's headers and a language. The policy allows no
// form to lead to a bank on another origin, not even by a redirect: see web.Policy and server.pay.
// Only the page with the acquirer's form has another policy: see server.render.
func (s *server) withPageHeaders(next http.Handler) http.Handler {
	https := strings.HasPrefix(s.origin, "https:")
	return web.WithRequestID(web.PageHeaders(web.Policy(web.Sources{}), https, s.inLanguage(next)))
}

// methodNotAllowed lists the path's methods in the Allow header.
func (s *server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		var match mux.RouteMatch
		if s.router.Match(other, &match) && match.MatchErr == nil {
			w.Header().Add("Allow", method)
		}
	}
	s.fail(w, r, failure.MethodNotAllowed)
}

//go:embed static/*
var staticFiles embed.FS

var files = web.LoadFiles(staticFiles, "static", "checkout.css")

// asset returns the address of a file in static/.
func (s *server) asset(name string) string { return files.URL(s.base+"/static", name) }
