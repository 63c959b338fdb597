package dashboard

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/gorilla/mux"

	"example.com/checkout/api/action"
	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/api/dashboard/login"
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
	return web.WithRequestID(web.PageHeaders(policy, s.face.Secure, bounded(own.Handler(s.router))))
}

// newServer returns the server with its routes.
func newServer(cfg Config) *server {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" {
		panic("dashboard: URL is not an absolute URL")
	}

	passkeys := login.NewPasskeys(u)
	f := &face.Face{
		Site:  face.Site{Simulated: cfg.Simulated, Docs: cfg.docs(), Runs: cfg.runs(), Passkeys: passkeys != nil},
		Pages: pages, Secure: u.Scheme == "https", Log: cfg.Log,
	}
	left := func(ctx context.Context, err error) { cfg.Log.WarnContext(ctx, "left to Reconcile", "error", err) }
	s := &server{
		Config: cfg, actions: action.Actions{Store: cfg.Store.Actions, Workflows: cfg.Workflows, LeftToReconcile: left},
		face: f, router: mux.NewRouter().SkipClean(true), downloads: limit.NewShares(maxDownloads),
		login: &login.Server{
			AuditLog: cfg.Store.AuditLog, People: cfg.Store.People, Requests: cfg.Store.Requests, Secrets: cfg.Store.Secrets,
			Face: f, Passkeys: passkeys, RequireFactor: cfg.RequireFactor, Mail: cfg.Mail,
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

// routes adds the routes of all pages. Pages of a merchant are below face.InMode. Each route names the role that it
// needs.
func (s *server) routes() {
	s.router.Handle("/static/{file}", web.Route(serverName, "/static/{file}", web.Serve(files.Serve, s.fail))).
		Methods(http.MethodGet)
	s.login.Routes(s.open)

	s.get("/", merchant.RoleViewer, s.showRoot)
	s.get(face.Of+"/", merchant.RoleViewer, s.showRoot)
	for _, former := range []string{"/{mode:test|live}/{page:.*}", "/account", "/account/{page:.*}"} {
		s.get(former, merchant.RoleViewer, showFormer)
	}
	s.get(face.InMode+"/", merchant.RoleViewer, s.showHome)
	s.get(face.InMode+"/settings", merchant.RoleViewer, s.showSettings)
	s.post(face.InMode+"/settings", merchant.RoleOwner, s.changeSettings)
	s.post(face.InMode+pathOfBrand, merchant.RoleOwner, s.changeBrand)
	s.get(face.InMode+"/settings/payout", merchant.RoleOwner, s.showAddresses)
	s.post(face.InMode+"/settings/payout", merchant.RoleOwner, s.changeAddresses)
	s.post(face.InMode+"/settings/payout/stop", merchant.RoleOwner, s.stopAddressChange)

	s.get(face.InMode+"/members", merchant.RoleViewer, s.listMembers)
	s.post(face.InMode+"/members", merchant.RoleOwner, s.inviteMember)
	s.post(face.InMode+"/members/{id}/invitation", merchant.RoleOwner, s.renewInvitation)
	s.post(face.InMode+"/members/{id}/role", merchant.RoleOwner, s.changeRole)
	s.post(face.InMode+"/members/{id}/remove", merchant.RoleOwner, s.removeMember)
	s.get(face.InMode+"/audit", merchant.RoleViewer, s.listAudit)
	s.handle(http.MethodGet, face.InMode+"/audit.csv", s.download(s.exportAudit))

	s.get(face.InMode+"/sessions", merchant.RoleViewer, s.listSessions)
	s.get(face.InMode+"/sessions/{id}", merchant.RoleViewer, s.showSession)
	s.post(face.InMode+"/sessions/{id}/expire", merchant.RoleDeveloper, on(s.Store.Sessions.Session, s.expireSession))
	s.post(face.InMode+"/sessions/{id}/retry_payout", merchant.RoleOwner, on(s.Store.Sessions.Session, s.retryPayout))
	s.get(face.InMode+"/payouts", merchant.RoleViewer, s.listPayouts)
	s.handle(http.MethodGet, face.InMode+"/sessions.csv", s.download(s.exportSessions))
	s.handle(http.MethodGet, face.InMode+"/payouts.csv", s.download(s.exportPayouts))
	s.handle(http.MethodGet, face.InMode+"/deliveries.csv", s.download(s.exportDeliveries))
	s.get(face.InMode+"/requests", merchant.RoleViewer, s.listRequests)
	s.get(face.InMode+"/keys", merchant.RoleViewer, s.listKeys)
	s.post(face.InMode+"/keys", merchant.RoleDeveloper, s.createKey)
	s.post(face.InMode+"/keys/{id}/revoke", merchant.RoleDeveloper, s.revokeKey)

	s.get(face.InMode+"/keys/{id}/secret", merchant.RoleDeveloper, s.showKeySecret)

	s.webhookRoutes()

	s.router.NotFoundHandler = web.Route(serverName, "not found", web.Serve(s.entrance.Limited(notFound), s.fail))
	s.router.MethodNotAllowedHandler = web.Route(serverName, "method not allowed", s.failing(failure.MethodNotAllowed))
}

// webhookRoutes adds the pages of registrations, deliveries and bulk replays. mux takes the first
// route that fits, so names come before ids.
func (s *server) webhookRoutes() {
	const looks, handles = merchant.RoleViewer, merchant.RoleDeveloper
	s.get(face.InMode+"/webhooks", looks, s.listWebhooks)
	s.post(face.InMode+"/webhooks", handles, s.createWebhook)
	s.get(face.InMode+"/webhooks/new", handles, s.newWebhook)
	s.get(face.InMode+"/webhooks/{id}", looks, on(s.Store.Webhooks.Endpoint, s.showWebhook))
	s.post(face.InMode+"/webhooks/{id}", handles, on(s.Store.Webhooks.Endpoint, s.changeWebhook))
	s.get(face.InMode+"/webhooks/{id}/secret", handles, on(s.Store.Webhooks.Endpoint, s.showWebhookSecret))
	s.get(face.InMode+"/webhooks/{id}/edit", handles, on(s.Store.Webhooks.Endpoint, s.editWebhook))
	hold := s.setWebhookStatus(webhook.EndpointDisabled, webhookHeld)
	resume := s.setWebhookStatus(webhook.EndpointEnabled, webhookResumed)
	s.post(face.InMode+"/webhooks/{id}/hold", handles, on(s.Store.Webhooks.Endpoint, hold))
	s.post(face.InMode+"/webhooks/{id}/resume", handles, on(s.Store.Webhooks.Endpoint, resume))
	s.post(face.InMode+"/webhooks/{id}/test", handles, on(s.Store.Webhooks.Endpoint, s.sendTestEvent))
	s.post(face.InMode+"/webhooks/{id}/rotate", handles, on(s.Store.Webhooks.Endpoint, s.rotateSecret))
	s.get(face.InMode+"/webhooks/{id}/delete", handles, on(s.Store.Webhooks.Endpoint, s.askToDelete))
	s.post(face.InMode+"/webhooks/{id}/delete", handles, on(s.Store.Webhooks.Endpoint, s.deleteWebhook))
	s.get(face.InMode+"/webhooks/{id}/replay", looks, on(s.Store.Webhooks.Endpoint, s.showReplays))
	s.post(face.InMode+"/webhooks/{id}/replay", handles, on(s.Store.Webhooks.Endpoint, s.startReplay))

	s.get(face.InMode+"/replays", looks, func(v face.Visit) (face.Answer, error) {
		return face.GoTo(v.Path("/webhooks"), "")
	})
	s.get(face.InMode+"/replays/{id}", looks, on(s.Store.Webhooks.Replay, s.showReplay))
	s.post(face.InMode+"/replays/{id}/cancel", handles, on(s.Store.Webhooks.Replay, s.cancelReplay))

	s.get(face.InMode+"/deliveries", looks, s.listDeliveries)
	s.get(face.InMode+"/deliveries/{id}", looks, on(s.Store.Webhooks.Delivery, s.showDelivery))
	onDelivery := func(name string, do action.Steering, notice string) {
		s.post(face.InMode+"/deliveries/{id}/"+name, handles, on(s.Store.Webhooks.Delivery, steer(do, notice)))
	}
	onDelivery("retry", s.actions.RetryDelivery, deliveryRetried)
	onDelivery("hold", s.actions.HoldDelivery, deliveryHeld)
	onDelivery("resume", s.actions.ResumeDelivery, deliveryResumed)
	onDelivery("replay", s.actions.ReplayDelivery, deliveryReplayed)
}

// on returns a handler for the visitor's object that the path names.
func on[T any](
	read func(context.Context, checkout.Ref) (T, error), h func(face.Visit, T) (face.Answer, error),
) face.Handler {
	return func(v face.Visit) (face.Answer, error) {
		found, err := read(v.Context(), v.Owner().Ref(v.ID()))
		if err != nil {
			return face.Answer{}, err
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

func (s *server) get(path string, needs merchant.Role, h face.Handler) {
	s.open(http.MethodGet, path, s.login.SignedIn(needs, h))
}

func (s *server) post(path string, needs merchant.Role, h face.Handler) {
	s.open(http.MethodPost, path, s.login.SignedIn(needs, h))
}

func notFound(http.ResponseWriter, *http.Request) error { return failure.NotFound }
