// Package dashboard is the website for a merchant's staff: sessions, deliveries, keys, webhooks and
// settings. The server renders the pages. All of them work without JavaScript; htmx adds live
// updates. The pages load nothing from other hosts.
package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// Config configures New.
type Config struct {
	Store     *storage.Store
	Workflows *runs.Client
	Feed      *storage.Feed // updates the log live; nil: no live updates
	// URL is the dashboard's address, without a trailing slash or a path.
	URL         string
	CheckoutURL string // {checkout_url}, for links to the hosted page
	APIURL      string // address of the REST API, for links to its documentation; "" for no links
	TemporalUI  string // address of Temporal's UI, for links to runs; "" for no links
	Namespace   string // Temporal namespace of the runs
	// CheckAddress returns an error when the service cannot send events to host. The text of the
	// error continues a sentence that begins with a field's name.
	CheckAddress func(ctx context.Context, mode checkout.Mode, host string) error
	Addresses    address.Rules
	Simulated    bool // live mode is a simulation on this computer, and its pages say so
	// AddressDelay is how long a changed live payout address waits before it holds; 0: not at all.
	AddressDelay time.Duration
	// RequireFactor: who has no second factor must set one up before a dangerous action, see confirmPage.
	RequireFactor bool
	Mail          bool // mails are sent; without them nobody can ask for a new password

	Limits limit.Rates   // zero rates are replaced by DefaultLimits
	Shares *limit.Shares // bounds the requests of one address at once; nil: limit.DefaultShare for each
	Log    *slog.Logger  // nil: slog.Default()

	heartbeat time.Duration // interval of heartbeats in streams
}

type server struct {
	Config
	passkeys *webauthn.WebAuthn // nil: the dashboard's address can have none
	secure   bool               // the dashboard is reached over https
	router   *mux.Router
	entrance *limit.Entrance
	streams  *limit.Shares // bounds the streams of each person
}

// New returns the dashboard's handler. It panics when cfg.URL is not an absolute URL.
func New(cfg Config) http.Handler {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.heartbeat == 0 {
		cfg.heartbeat = streamHeartbeat
	}

	cfg.Limits = cfg.Limits.Or(DefaultLimits)
	if cfg.Shares == nil {
		cfg.Shares = limit.NewShares(limit.DefaultShare)
	}

	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" {
		panic("dashboard: URL is not an absolute URL")
	}

	s := &server{
		Config: cfg, passkeys: newPasskeys(u), secure: u.Scheme == "https", router: mux.NewRouter().SkipClean(true),
		streams: limit.NewShares(maxStreams),
		entrance: &limit.Entrance{
			Store:    cfg.Store,
			Shares:   cfg.Shares,
			Rates:    cfg.Limits,
			Server:   bucketsOfAddress,
			Counting: entrance,
		},
	}

	s.routes()
	own := http.NewCrossOriginProtection() // refuses forms from other origins
	own.SetDenyHandler(s.failing(failure.Forbidden))
	// Pages embed pictures as data: addresses.
	policy := web.Policy(web.Sources{Pictures: []string{"data:"}})
	return web.WithRequestID(web.PageHeaders(policy, s.secure, bounded(own.Handler(s.router))))
}

// routes adds the routes of all pages. Pages of a mode are below /test and /live. Each route names
// the role that it needs.
func (s *server) routes() {
	s.router.Handle("/static/{file}", web.Route(serverName, "/static/{file}", web.Serve(s.static, s.fail))).
		Methods(http.MethodGet)
	s.open(http.MethodGet, "/signin", s.showSignIn)
	s.open(http.MethodPost, "/signin", s.signIn)
	s.open(http.MethodGet, "/signin/code", s.showSignInCode)
	s.open(http.MethodPost, "/signin/code", s.signInWithCode)
	s.open(http.MethodPost, "/signin/passkey", s.signInWithPasskey)
	s.open(http.MethodPost, "/passkey/challenge", s.challengePasskey)
	s.open(http.MethodGet, "/password/forgot", s.showForgot)
	s.open(http.MethodPost, "/password/forgot", s.askForReset)
	s.open(http.MethodGet, "/password/reset", s.showReset)
	s.open(http.MethodPost, "/password/reset", s.resetPassword)
	s.open(http.MethodPost, "/signout", s.signOut)
	s.open(http.MethodGet, "/invitation/{token}", s.showInvitation)
	s.open(http.MethodPost, "/invitation/{token}", s.acceptInvitation)

	s.get("/", checkout.RoleViewer, s.showRoot)
	s.get("/account", checkout.RoleViewer, s.showAccount)
	s.post("/account/password", checkout.RoleViewer, s.changePassword)
	s.post("/account/signout", checkout.RoleViewer, s.signOutEverywhere)
	s.post("/account/merchants/{id}", checkout.RoleViewer, s.openMerchant)
	s.post("/account/second_factor", checkout.RoleViewer, s.startFactor)
	s.get("/account/second_factor", checkout.RoleViewer, s.showFactor)
	s.post("/account/second_factor/code", checkout.RoleViewer, s.confirmFactor)
	s.post("/account/second_factor/remove", checkout.RoleViewer, s.removeFactor)
	s.post("/account/passkeys", checkout.RoleViewer, s.addPasskey)
	s.post("/account/passkeys/new", checkout.RoleViewer, s.startPasskey)
	s.post("/account/passkeys/{id}", checkout.RoleViewer, s.renamePasskey)
	s.post("/account/passkeys/{id}/remove", checkout.RoleViewer, s.removePasskey)
	s.get("/account/recovery_codes", checkout.RoleViewer, s.showRecoveryCodes)

	s.get(inMode+"/", checkout.RoleViewer, s.showHome)
	s.get(inMode+"/settings", checkout.RoleViewer, s.showSettings)
	s.post(inMode+"/settings", checkout.RoleOwner, s.changeSettings)
	s.post(inMode+"/settings/brand", checkout.RoleOwner, s.changeBrand)
	s.post(inMode+"/settings/payout", checkout.RoleOwner, s.changeAddresses)
	s.post(inMode+"/settings/payout/stop", checkout.RoleOwner, s.stopAddressChange)

	s.get(inMode+"/members", checkout.RoleViewer, s.listMembers)
	s.post(inMode+"/members", checkout.RoleOwner, s.inviteMember)
	s.post(inMode+"/members/{id}/invitation", checkout.RoleOwner, s.renewInvitation)
	s.post(inMode+"/members/{id}/role", checkout.RoleOwner, s.changeRole)
	s.post(inMode+"/members/{id}/remove", checkout.RoleOwner, s.removeMember)
	s.get(inMode+"/members/{id}/link", checkout.RoleOwner, s.showInvitationLink)
	s.get(inMode+"/audit", checkout.RoleViewer, s.listAudit)
	s.open(http.MethodGet, inMode+"/audit.csv", s.exported(s.exportAudit))

	s.get(inMode+"/sessions", checkout.RoleViewer, s.listSessions)
	s.get(inMode+"/sessions/{id}", checkout.RoleViewer, s.showSession)
	s.post(inMode+"/sessions/{id}/expire", checkout.RoleDeveloper, s.expireSession)
	s.post(inMode+"/sessions/{id}/retry_payout", checkout.RoleOwner, s.retryPayout)
	s.get(inMode+"/payouts", checkout.RoleViewer, s.listPayouts)
	s.open(http.MethodGet, inMode+"/sessions.csv", s.exported(s.exportSessions))
	s.open(http.MethodGet, inMode+"/payouts.csv", s.exported(s.exportPayouts))
	s.open(http.MethodGet, inMode+"/deliveries.csv", s.exported(s.exportDeliveries))
	s.get(inMode+"/requests", checkout.RoleViewer, s.listRequests)
	s.get(inMode+"/keys", checkout.RoleViewer, s.listKeys)
	s.post(inMode+"/keys", checkout.RoleDeveloper, s.createKey)
	s.post(inMode+"/keys/{id}/revoke", checkout.RoleDeveloper, s.revokeKey)

	s.get(inMode+"/keys/{id}/secret", checkout.RoleDeveloper, s.showKeySecret)

	s.webhookRoutes()

	s.router.NotFoundHandler = web.Route(
		serverName, "not found", web.Serve(s.entrance.Limited(notFound), s.fail),
	)
	s.router.MethodNotAllowedHandler = web.Route(
		serverName, "method not allowed", s.failing(failure.MethodNotAllowed),
	)
}

// inMode begins the path of every page of a mode.
const inMode = "/{mode:test|live}"

// serverName is the dashboard's name in spans and metrics.
const serverName = "checkout-dashboard"

// open adds a route without a check of the visitor. Forms also count against the address's rate for
// forms.
func (s *server) open(method, path string, h web.Handler) {
	var counts []func(*http.Request) storage.Bucket
	if method == http.MethodPost {
		counts = append(counts, s.entrance.Forms)
	}
	served := web.Serve(s.entrance.Limited(h, counts...), s.fail)
	s.router.Handle(path, web.Route(serverName, path, served)).Methods(method)
}

func (s *server) get(path string, needs checkout.Role, h handler) {
	s.open(http.MethodGet, path, s.signedIn(needs, h))
}

func (s *server) post(path string, needs checkout.Role, h handler) {
	s.open(http.MethodPost, path, s.signedIn(needs, h))
}

func notFound(http.ResponseWriter, *http.Request) error { return failure.NotFound }

// Most bytes of a form, without and with a file.
const (
	maxForm   = 64 << 10
	maxUpload = 1<<20 + maxForm
)

// bounded limits the size of a request's body.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := int64(maxForm)
		if uploads(r) {
			most = maxUpload
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}

// uploads reports whether the body of a request is a form with a file.
func uploads(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/")
}
