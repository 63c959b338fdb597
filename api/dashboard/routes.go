package dashboard

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

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
			// Only who may send a file gets as far as the reading of it.
			ReadFirst: func(r *http.Request) bool { return !upload(r) },
		},
	}
	s.routes()
	return s
}

// routes adds the routes of all pages. Pages of a merchant are below page.ModeRoute. Each route names the role that it
// needs.
func (s *server) routes() {
	s.router.Handle("/static/{file}", web.Route(serverName, "/static/{file}", web.Serve(files.Serve, s.fail))).
		Methods(http.MethodGet)
	s.login.Routes(s.open)

	for _, root := range []string{"/", page.MerchantRoute + "/"} {
		s.open(http.MethodGet, root, s.login.SignedIn(merchant.RoleViewer, s.showRoot))
	}
	for _, former := range []string{"/{mode:test|live}/{page:.*}", "/account", "/account/{page:.*}"} {
		s.open(http.MethodGet, former, s.login.SignedIn(merchant.RoleViewer, showFormer))
	}
	s.get("/", merchant.RoleViewer, s.showHome)
	s.get("/settings", merchant.RoleViewer, s.showSettings)
	s.post("/settings", merchant.RoleOwner, s.changeSettings)
	s.post(pathOfBrand, merchant.RoleOwner, s.changeBrand)
	s.get("/settings/payout", merchant.RoleOwner, s.showAddresses)
	s.post("/settings/payout", merchant.RoleOwner, s.changeAddresses)
	s.post("/settings/payout/stop", merchant.RoleOwner, s.stopAddressChange)

	member := func(ctx context.Context, ref checkout.Ref) (merchant.Member, error) {
		return s.Store.People.Member(ctx, ref.MerchantID, ref.ID)
	}
	s.get("/members", merchant.RoleViewer, s.listMembers)
	s.post("/members", merchant.RoleOwner, s.inviteMember)
	s.post("/members/{id}/invitation", merchant.RoleOwner, withObject(member, s.renewInvitation))
	s.post("/members/{id}/role", merchant.RoleOwner, withObject(member, s.changeRole))
	s.post("/members/{id}/remove", merchant.RoleOwner, withObject(member, s.removeMember))
	s.get("/audit", merchant.RoleViewer, s.listAudit)
	s.handle(http.MethodGet, page.ModeRoute+"/audit.csv", s.download(s.exportAudit))

	s.get("/sessions", merchant.RoleViewer, s.listSessions)
	s.get("/sessions/{id}", merchant.RoleViewer, s.showSession)
	session := s.Store.Sessions.Session
	s.post("/sessions/{id}/expire", merchant.RoleDeveloper, withObject(session, s.expireSession))
	s.post("/sessions/{id}/retry_payout", merchant.RoleOwner, withObject(session, s.retrySessionPayout))
	s.get("/sessions/{id}/refund", merchant.RoleOwner, withObject(session, s.showRefund))
	s.post("/sessions/{id}/refund", merchant.RoleOwner, withObject(session, s.refundSession))
	s.handle(http.MethodGet, page.ModeRoute+"/sessions.csv", s.download(s.exportSessions))
	s.handle(http.MethodGet, page.ModeRoute+"/deliveries.csv", s.download(s.exportDeliveries))
	s.get("/requests", merchant.RoleViewer, s.listRequests)
	s.get("/keys", merchant.RoleViewer, s.listKeys)
	s.post("/keys", merchant.RoleDeveloper, s.createKey)
	s.post("/keys/{id}/revoke", merchant.RoleDeveloper, s.revokeKey)

	s.get("/keys/{id}/secret", merchant.RoleDeveloper, s.showKeySecret)

	s.moneyRoutes()
	s.webhookRoutes()

	s.router.NotFoundHandler = web.Route(serverName, "not found", web.Serve(s.entrance.Limited(notFound), s.fail))
	s.router.MethodNotAllowedHandler = web.Route(serverName, "method not allowed", s.failing(failure.MethodNotAllowed))
}

// moneyRoutes adds the pages of payouts and of what changes a merchant's balance.
func (s *server) moneyRoutes() {
	s.get("/payouts", merchant.RoleViewer, s.listPayouts)
	s.post("/payouts/{id}/retry", merchant.RoleOwner, withObject(s.Store.Payouts.Payout, s.retryPayout))
	s.get("/refunds", merchant.RoleViewer, s.listRefunds)
	s.get("/disputes", merchant.RoleViewer, s.listDisputes)
	dispute := s.Store.Disputes.Dispute
	s.get("/disputes/{id}"+pathOfEvidence, merchant.RoleOwner, withObject(dispute, s.showEvidence))
	s.post("/disputes/{id}"+pathOfEvidence, merchant.RoleOwner, withObject(dispute, s.submitEvidence))
	s.get("/balance", merchant.RoleViewer, s.listBalance)
	s.handle(http.MethodGet, page.ModeRoute+"/payouts.csv", s.download(s.exportPayouts))
	s.handle(http.MethodGet, page.ModeRoute+"/refunds.csv", s.download(s.exportRefunds))
	s.handle(http.MethodGet, page.ModeRoute+"/disputes.csv", s.download(s.exportDisputes))
	s.handle(http.MethodGet, page.ModeRoute+"/balance.csv", s.download(s.exportBalance))
}

// webhookRoutes adds the pages of registrations, deliveries and bulk replays. mux takes the first
// route that fits, so names come before ids.
func (s *server) webhookRoutes() {
	const looks, handles = merchant.RoleViewer, merchant.RoleDeveloper
	endpoint, delivery, replay := s.Store.Webhooks.Endpoint, s.Store.Webhooks.Delivery, s.Store.Webhooks.Replay
	s.get("/webhooks", looks, s.listWebhooks)
	s.post("/webhooks", handles, s.createWebhook)
	s.get("/webhooks/new", handles, s.newWebhook)
	s.get("/webhooks/{id}", looks, withObject(endpoint, s.showWebhook))
	s.post("/webhooks/{id}", handles, withObject(endpoint, s.changeWebhook))
	s.get("/webhooks/{id}/secret", handles, withObject(endpoint, s.showWebhookSecret))
	s.get("/webhooks/{id}/edit", handles, withObject(endpoint, s.editWebhook))
	hold := s.setWebhookStatus(webhook.EndpointDisabled, webhookHeld)
	resume := s.setWebhookStatus(webhook.EndpointEnabled, webhookResumed)
	s.post("/webhooks/{id}/hold", handles, withObject(endpoint, hold))
	s.post("/webhooks/{id}/resume", handles, withObject(endpoint, resume))
	s.post("/webhooks/{id}/test", handles, withObject(endpoint, s.sendTestEvent))
	s.post("/webhooks/{id}/rotate", handles, withObject(endpoint, s.rotateSecret))
	s.get("/webhooks/{id}/delete", handles, withObject(endpoint, s.askToDelete))
	s.post("/webhooks/{id}/delete", handles, withObject(endpoint, s.deleteWebhook))
	s.get("/webhooks/{id}/replay", looks, withObject(endpoint, s.showReplays))
	s.post("/webhooks/{id}/replay", handles, withObject(endpoint, s.startReplay))

	s.get("/replays", looks, func(v page.Visit) (page.Answer, error) {
		return page.GoTo(v.Path("/webhooks"), "")
	})
	s.get("/replays/{id}", looks, withObject(replay, s.showReplay))
	s.post("/replays/{id}/cancel", handles, withObject(replay, s.cancelReplay))

	s.get("/deliveries", looks, s.listDeliveries)
	s.get("/deliveries/{id}", looks, withObject(delivery, s.showDelivery))
	onDelivery := func(name string, do action.Steering, notice string) {
		s.post("/deliveries/{id}/"+name, handles, withObject(delivery, steerDelivery(do, notice)))
	}
	onDelivery("retry", s.actions.RetryDelivery, deliveryRetried)
	onDelivery("hold", s.actions.HoldDelivery, deliveryHeld)
	onDelivery("resume", s.actions.ResumeDelivery, deliveryResumed)
	onDelivery("replay", s.actions.ReplayDelivery, deliveryReplayed)
}

// withObject returns a handler for the visitor's object that the path names.
func withObject[T any](
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

// open adds a route without a check of the visitor. HEAD is answered as GET, except on pages of shownOnce. Forms also
// count against the address's rate for forms.
func (s *server) open(method, path string, h web.Handler) {
	var counts []func(*http.Request) storage.Bucket
	if method == http.MethodPost {
		counts = append(counts, s.entrance.Forms)
	}
	s.handle(method, path, s.entrance.Limited(h, counts...))
}

// shownOnce are the pages that delete the secret that they show. A HEAD gets a 405 there: it would delete a secret
// that nobody has seen.
var shownOnce = []string{
	page.ModeRoute + "/keys/{id}/secret", page.ModeRoute + "/webhooks/{id}/secret",
	page.ModeRoute + "/account/recovery_codes",
}

// handle adds the route of a handler that counts its requests itself.
func (s *server) handle(method, path string, h web.Handler) {
	methods := []string{method}
	if method == http.MethodGet && !slices.Contains(shownOnce, path) {
		methods = append(methods, http.MethodHead)
	}
	s.router.Handle(path, web.Route(serverName, path, web.Serve(h, s.fail))).Methods(methods...)
}

// get adds a page of a merchant in a mode. path is below page.ModeRoute.
func (s *server) get(path string, needs merchant.Role, h page.Handler) {
	s.open(http.MethodGet, page.ModeRoute+path, s.login.SignedIn(needs, h))
}

func (s *server) post(path string, needs merchant.Role, h page.Handler) {
	s.open(http.MethodPost, page.ModeRoute+path, s.login.SignedIn(needs, h))
}

func notFound(http.ResponseWriter, *http.Request) error { return failure.NotFound }
