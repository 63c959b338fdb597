// Package dashboard is the website for a merchant's staff: sessions, deliveries, keys, webhooks and
// settings. The server renders the pages. All of them work without JavaScript; htmx reads again
// what may have changed. The pages load nothing from other hosts.
package dashboard

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/action"
	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// Store is what the dashboard reads and writes.
type Store struct {
	AuditLog  *storage.AuditLog
	Balances  *storage.Balances
	Merchants *storage.Merchants
	Disputes  *storage.DisputeReader
	Payouts   *storage.PayoutReader
	People    *people.Store
	Refunds   *storage.RefundReader
	Requests  *storage.Requests
	Secrets   *people.Secrets
	Sessions  *storage.SessionReader
	Webhooks  *storage.WebhookSecretReader
	Actions   action.Store
}

// StoreOf returns the part of a store that this package reads and writes.
func StoreOf(s *storage.Store) Store {
	return Store{
		AuditLog:  s.AuditLog,
		Balances:  s.Balances,
		Merchants: s.Merchants,
		Disputes:  s.Disputes.DisputeReader,
		Payouts:   s.Payouts.PayoutReader,
		People:    s.People,
		Refunds:   s.Refunds.RefundReader,
		Requests:  s.Requests,
		Secrets:   s.Secrets,
		Sessions:  s.Sessions.SessionReader,
		Webhooks:  s.Webhooks.WebhookSecretReader,
		Actions:   action.StoreOf(s),
	}
}

// Config configures New.
type Config struct {
	Store Store
	Runs  *runs.Client
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
	// RequireFactor: who has no second factor must set one up before a dangerous action, see login.ConfirmPage.
	RequireFactor bool
	Mail          bool // mails are sent; without them nobody can ask for a new password

	Limits limit.Rates
	Shares *limit.Shares // bounds the requests of one address at once
	Log    *slog.Logger  // nil: slog.Default()
}

type server struct {
	Config
	actions   action.Actions
	login     *login.Server
	renderer  *page.Renderer
	router    *mux.Router
	entrance  *limit.Entrance
	downloads *limit.Shares // bounds the downloads of each person
}

// docs returns the address of the REST API's documentation, "" when the API's address is not known.
func (c Config) docs() string {
	if c.APIURL == "" {
		return ""
	}
	return strings.TrimSuffix(c.APIURL, "/") + "/docs"
}

// runs returns the address of the service's runs in Temporal's UI, "" without a UI.
func (c Config) runs() string {
	if c.TemporalUI == "" {
		return ""
	}
	return c.TemporalUI + "/namespaces/" + url.PathEscape(c.Namespace) + "/workflows/"
}
