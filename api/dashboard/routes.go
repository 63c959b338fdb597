package dashboard

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/gorilla/mux"

	"example.com/checkout/api/action"
	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// New returns the dashboard's handler. It panics when cfg.URL is not an absolute URL.
func New(cfg Config) http.Handler {
	s := newServer(cfg)
	own := http.NewCrossOriginProtection() // refuses forms from other origins
	own.SetDenyHandler(s.failing(failure.Forbidden))
	// Pages embed pictures as data: addresses.
	policy := web.Policy(web.Sources{Pictures: []string{"data:"}})
	return web.WithRequestID(web.PageHeaders(policy, s.renderer.Secure, bounded(own.Handler(s.router))))
}

// newServer returns the server with its routes.
func newServer(cfg Config) *server {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" {
		panic("dashboard: URL is not an absolute URL")
	}

	passkeys := login.NewPasskeys(u)
	f := &page.Renderer{
		Site:  page.Site{Simulated: cfg.Simulated, Docs: cfg.docs(), Runs: cfg.runs(), Passkeys: passkeys != nil},
		Pages: pages, Secure: u.Scheme == "https", Log: cfg.Log,
	}
	left := func(ctx context.Context, err error) { cfg.Log.WarnContext(ctx, "left to Reconcile", "error", err) }
	s := &server{
		Config: cfg, actions: action.Actions{Store: cfg.Store.Actions, Runs: cfg.Runs, LeftToReconcile: left},
		renderer: f, router: mux.NewRouter().SkipClean(true), downloads: limit.NewShares(maxDownloads),
		login: &login.Server{
			AuditLog: cfg.Store.AuditLog, People: cfg.Store.People, Requests: cfg.Store.Requests, Secrets: cfg.Store.Secrets,
			Renderer: f, Passkeys: passkeys, RequireFactor: cfg.RequireFactor, Mail: cfg.Mail,
		},
		entrance: &limit.Entrance{
			Requests: cfg.Store.Requests,
			Shares:   cfg.Shares,
			Rates:    cfg.Limits,
			Server:   bucketsOfAddress,
			Counting: entrance,
			// Only who may change the brand gets as far as the reading of a file.
			ReadFirst: func(r *http.Request) bool { return !upload(r) },
		},
	}
	s.routes()
	return s
}

// routes adds the routes of all pages. Pages of a merchant are below page.InMode. Each route names the role that it
// needs.
func (s *server) routes() {
	s.router.Handle("/static/{file}", web.Route(serverName, "/static/{file}", web.Serve(files.Serve, s.fail))).
		Methods(http.MethodGet)
	s.login.Routes(s.open)

	s.get("/", merchant.RoleViewer, s.showRoot)
	s.get(page.Of+"/", merchant.RoleViewer, s.showRoot)
	for _, former := range []string{"/{mode:test|live}/{page:.*}", "/account", "/account/{page:.*}"} {
		s.get(former, merchant.RoleViewer, showFormer)
	}
	s.get(page.InMode+"/", merchant.RoleViewer, s.showHome)
	s.get(page.InMode+"/settings", merchant.RoleViewer, s.showSettings)
	s.post(page.InMode+"/settings", merchant.RoleOwner, s.changeSettings)
	s.post(page.InMode+pathOfBrand, merchant.RoleOwner, s.changeBrand)
	s.get(page.InMode+"/settings/payout", merchant.RoleOwner, s.showAddresses)
	s.post(page.InMode+"/settings/payout", merchant.RoleOwner, s.changeAddresses)
	s.post(page.InMode+"/settings/payout/stop", merchant.RoleOwner, s.stopAddressChange)

	s.get(page.InMode+"/members", merchant.RoleViewer, s.listMembers)
	s.post(page.InMode+"/members", merchant.RoleOwner, s.inviteMember)
	s.post(page.InMode+"/members/{id}/invitation", merchant.RoleOwner, s.renewInvitation)
	s.post(page.InMode+"/members/{id}/role", merchant.RoleOwner, s.changeRole)
	s.post(page.InMode+"/members/{id}/remove", merchant.RoleOwner, s.removeMember)
	s.get(page.InMode+"/audit", merchant.RoleViewer, s.listAudit)
	s.handle(http.MethodGet, page.InMode+"/audit.csv", s.download(s.exportAudit))

	s.get(page.InMode+"/sessions", merchant.RoleViewer, s.listSessions)
	s.get(page.InMode+"/sessions/{id}", merchant.RoleViewer, s.showSession)
	s.post(page.InMode+"/sessions/{id}/expire", merchant.RoleDeveloper, on(s.Store.Sessions.Session, s.expireSession))
	s.post(page.InMode+"/sessions/{id}/retry_payout", merchant.RoleOwner, on(s.Store.Sessions.Session, s.retryPayout))
	s.get(page.InMode+"/payouts", merchant.RoleViewer, s.listPayouts)
	s.handle(http.MethodGet, page.InMode+"/sessions.csv", s.download(s.exportSessions))
	s.handle(http.MethodGet, page.InMode+"/payouts.csv", s.download(s.exportPayouts))
	s.handle(http.MethodGet, page.InMode+"/deliveries.csv", s.download(s.exportDeliveries))
	s.get(page.InMode+"/requests", merchant.RoleViewer, s.listRequests)
	s.get(page.InMode+"/keys", merchant.RoleViewer, s.listKeys)
	s.post(page.InMode+"/keys", merchant.RoleDeveloper, s.createKey)
	s.post(page.InMode+"/keys/{id}/revoke", merchant.RoleDeveloper, s.revokeKey)

	s.get(page.InMode+"/keys/{id}/secret", merchant.RoleDeveloper, s.showKeySecret)

	s.webhookRoutes()

	s.router.NotFoundHandler = web.Route(serverName, "not found", web.Serve(s.entrance.Limited(notFound), s.fail))
	s.router.MethodNotAllowedHandler = web.Route(serverName, "method not allowed", s.failing(failure.MethodNotAllowed))
}

// webhookRoutes adds the pages of registrations, deliveries and bulk replays. mux takes the first
// route that fits, so names come before ids.
func (s *server) webhookRoutes() {
	const looks, handles = merchant.RoleViewer, merchant.RoleDeveloper
	s.get(page.InMode+"/webhooks", looks, s.listWebhooks)
	s.post(page.InMode+"/webhooks", handles, s.createWebhook)
	s.get(page.InMode+"/webhooks/new", handles, s.newWebhook)
	s.get(page.InMode+"/webhooks/{id}", looks, on(s.Store.Webhooks.Endpoint, s.showWebhook))
	s.post(page.InMode+"/webhooks/{id}", handles, on(s.Store.Webhooks.Endpoint, s.changeWebhook))
	s.get(page.InMode+"/webhooks/{id}/secret", handles, on(s.Store.Webhooks.Endpoint, s.showWebhookSecret))
	s.get(page.InMode+"/webhooks/{id}/edit", handles, on(s.Store.Webhooks.Endpoint, s.editWebhook))
	hold := s.setWebhookStatus(webhook.EndpointDisabled, webhookHeld)
	resume := s.setWebhookStatus(webhook.EndpointEnabled, webhookResumed)
	s.post(page.InMode+"/webhooks/{id}/hold", handles, on(s.Store.Webhooks.Endpoint, hold))
	s.post(page.InMode+"/webhooks/{id}/resume", handles, on(s.Store.Webhooks.Endpoint, resume))
	s.post(page.InMode+"/webhooks/{id}/test", handles, on(s.Store.Webhooks.Endpoint, s.sendTestEvent))
	s.post(page.InMode+"/webhooks/{id}/rotate", handles, on(s.Store.Webhooks.Endpoint, s.rotateSecret))
	s.get(page.InMode+"/webhooks/{id}/delete", handles, on(s.Store.Webhooks.Endpoint, s.askToDelete))
	s.post(page.InMode+"/webhooks/{id}/delete", handles, on(s.Store.Webhooks.Endpoint, s.deleteWebhook))
	s.get(page.InMode+"/webhooks/{id}/replay", looks, on(s.Store.Webhooks.Endpoint, s.showReplays))
	s.post(page.InMode+"/webhooks/{id}/replay", handles, on(s.Store.Webhooks.Endpoint, s.startReplay))

	s.get(page.InMode+"/replays", looks, func(v page.Visit) (page.Answer, error) {
		return page.GoTo(v.Path("/webhooks"), "")
	})
	s.get(page.InMode+"/replays/{id}", looks, on(s.Store.Webhooks.Replay, s.showReplay))
	s.post(page.InMode+"/replays/{id}/cancel", handles, on(s.Store.Webhooks.Replay, s.cancelReplay))

	s.get(page.InMode+"/deliveries", looks, s.listDeliveries)
	s.get(page.InMode+"/deliveries/{id}", looks, on(s.Store.Webhooks.Delivery, s.showDelivery))
	onDelivery := func(name string, do action.Steering, notice string) {
		s.post(page.InMode+"/deliveries/{id}/"+name, handles, on(s.Store.Webhooks.Delivery, steer(do, notice)))
	}
	onDelivery("retry", s.actions.RetryDelivery, deliveryRetried)
	onDelivery("hold", s.actions.HoldDelivery, deliveryHeld)
	onDelivery("resume", s.actions.ResumeDelivery, deliveryResumed)
	onDelivery("replay", s.actions.ReplayDelivery, deliveryReplayed)
}

// on returns a handler for the visitor's object that the path names.
func on[T any](
	read func(context.Context, checkout.Ref) (T, error), h func(page.Visit, T) (page.Answer, error),
) page.Handler {
	return func(v page.Visit) (page.Answer, error) {
		found, err := read(v.Context(), v.Owner().Ref(v.ID()))
		if err != nil {
			return page.Answer{}, err
		}
		return h(v, found)
	}
}

// serverName is the dashboard's name in spans and metrics.
const serverName = "checkout-dashboard"

// open adds a route without a check of the visitor. HEAD is answered as GET; net/http leaves the body out. Forms also
// count against the address's rate for forms.
func (s *server) open(method, path string, h web.Handler) {
	var counts []func(*http.Request) storage.Bucket
	if method == http.MethodPost {
		counts = append(counts, s.entrance.Forms)
	}
	s.handle(method, path, s.entrance.Limited(h, counts...))
}

// handle adds the route of a handler that counts its requests itself.
func (s *server) handle(method, path string, h web.Handler) {
	methods := []string{method}
	if method == http.MethodGet {
		methods = append(methods, http.MethodHead)
	}
	s.router.Handle(path, web.Route(serverName, path, web.Serve(h, s.fail))).Methods(methods...)
}

func (s *server) get(path string, needs merchant.Role, h page.Handler) {
	s.open(http.MethodGet, path, s.login.SignedIn(needs, h))
}

func (s *server) post(path string, needs merchant.Role, h page.Handler) {
	s.open(http.MethodPost, path, s.login.SignedIn(needs, h))
}

func notFound(http.ResponseWriter, *http.Request) error { return failure.NotFound }
