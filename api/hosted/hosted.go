// Package hosted is the hosted checkout page, on which a customer pays one
// session: {checkout_url}/{session id}. It works without JavaScript and loads
// nothing from anywhere else.
//
// A card lives in memory between the form and the card network's token, and
// nowhere else: no log line, span or page ever holds it.
package hosted

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/checkout/workflows/runs"

	"github.com/gorilla/mux"

	"example.com/checkout/api/limit"
	"example.com/checkout/api/observe"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// Config is what New needs.
type Config struct {
	Store     *storage.Store
	Workflows *runs.Client
	TestCards checkout.CardNetwork
	LiveCards checkout.CardNetwork // nil: live sessions cannot be paid yet
	// CheckoutURL is {checkout_url} without a trailing slash. Requests arrive
	// with its path, if it has one.
	CheckoutURL string
	Limits      Limits // what is zero is as in DefaultLimits
	// Shares of what the process can work on at once; nil: limit.DefaultShare for each.
	Shares *limit.Shares
	Log    *slog.Logger // nil: slog.Default()
}

type server struct {
	Config
	base   string // path of CheckoutURL, "" or "/…"
	origin string // scheme and host of CheckoutURL
	now    func() time.Time
	router *mux.Router
}

// New returns the handler of everything below cfg.CheckoutURL. It panics when
// that is not an absolute URL.
func New(cfg Config) http.Handler { return newServer(cfg).handler() }

func newServer(cfg Config) *server {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Limits.Requests.Burst == 0 {
		cfg.Limits.Requests = DefaultLimits.Requests
	}
	if cfg.Limits.Forms.Burst == 0 {
		cfg.Limits.Forms = DefaultLimits.Forms
	}
	if cfg.Shares == nil {
		cfg.Shares = limit.NewShares(limit.DefaultShare)
	}
	u, err := url.Parse(cfg.CheckoutURL)
	if err != nil || u.Host == "" {
		panic("hosted: CheckoutURL is not an absolute URL")
	}
	return &server{
		Config: cfg, base: strings.TrimSuffix(u.Path, "/"), origin: u.Scheme + "://" + u.Host,
		now: time.Now, router: mux.NewRouter().SkipClean(true),
	}
}

func (s *server) handler() http.Handler {
	reads := []string{http.MethodGet, http.MethodHead}
	handle := func(path string, h http.Handler, methods ...string) {
		s.router.Handle(s.base+path, traced(s.base+path, h)).Methods(methods...)
	}
	// Forms of our own pages change something; a bank's page may post to /return,
	// which only asks the card network.
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(s.problem(http.StatusForbidden, forbidden))

	page := func(h sessionHandler) http.Handler { return s.limited(s.session(h), s.withPage()) }
	form := func(h sessionHandler) http.Handler {
		return own.Handler(s.limited(s.session(h), s.withPage(), s.ofForms))
	}

	handle("/static/{file}", http.HandlerFunc(s.static), reads...)
	handle("/color/{color}/style.css", http.HandlerFunc(s.colorStyle), reads...)
	handle("/logo/{merchant}/{version}.png", s.limited(http.HandlerFunc(s.logo), s.withPage()), reads...)
	handle("/{id}", page(s.showPage), reads...)
	handle("/{id}", form(s.pay), http.MethodPost)
	handle("/{id}/cancel", form(s.cancel), http.MethodPost)
	handle("/{id}/return", page(s.comeBack), http.MethodGet, http.MethodPost)
	handle("/{id}/status", s.limited(http.HandlerFunc(s.status), s.withJSON(), ofSession), reads...)
	s.router.NotFoundHandler = traced("not found", s.problem(http.StatusNotFound, unknownPage))
	s.router.MethodNotAllowedHandler = traced("method not allowed", http.HandlerFunc(s.methodNotAllowed))
	return s.secured(s.inLanguage(s.router))
}

// traced traces and measures h under its route.
func traced(route string, h http.Handler) http.Handler {
	span := observe.Handler("checkout-page", h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = route
		span.ServeHTTP(w, r)
	})
}

// methodNotAllowed names the methods that the path does have.
func (s *server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		var match mux.RouteMatch
		if s.router.Match(other, &match) && match.MatchErr == nil {
			w.Header().Add("Allow", method)
		}
	}
	s.problem(http.StatusMethodNotAllowed, wrongMethod).ServeHTTP(w, r)
}

// contentSecurityPolicy allows what this package serves and nothing else. Where
// a bank is on another origin, no form leads there, not even by a redirect
// (browsers apply form-action to those too): see server.pay.
const contentSecurityPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func (s *server) secured(next http.Handler) http.Handler {
	headers := map[string]string{
		"Content-Security-Policy":      contentSecurityPolicy,
		"Referrer-Policy":              "no-referrer",
		"Cache-Control":                "no-store",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"X-Robots-Tag":                 "noindex, nofollow",
		"Permissions-Policy":           "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
	}
	if strings.HasPrefix(s.origin, "https:") {
		headers["Strict-Transport-Security"] = "max-age=31536000"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}
