package checkout

import (
	"encoding/json"
	"strings"
	"time"

	"example.com/checkout/workflows/money"
)

// Status is the state of a session. Source: api/interface.md, "States and transitions".
type Status string

// The four states. Nothing leaves completed, failed or expired.
const (
	StatusPending   Status = "pending"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusExpired   Status = "expired"
)

// Statuses lists every state of a session.
var Statuses = []Status{StatusPending, StatusCompleted, StatusFailed, StatusExpired}

// Final reports whether the session has ended.
func (s Status) Final() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusExpired
}

// SessionLifetime is how long a session can be paid. Source: api/interface.md, "Limits".
const SessionLifetime = time.Hour

// Session is a checkout session as PostgreSQL holds it.
type Session struct {
	Ref

	Amount         money.Amount
	Currency       money.Currency
	PayoutCurrency money.PayoutCurrency
	Status         Status          // as read: expired once ExpiresAt has passed with no payment in flight
	Metadata       json.RawMessage // a JSON object, in the bytes that the merchant sent; never nil
	CustomerEmail  *string
	RedirectURL    *string
	CancelURL      *string    // where the customer goes without paying
	Description    *string    // what is paid for
	Locale         *Locale    // the page's language, unless the customer chooses one
	LineItems      []LineItem // what is bought; empty, or adding up to Amount
	// Pictures are pictures of LineItems: after storage.Sessions.CreateSession those that must be fetched, from
	// CustomerSession those that the page can show. No other read has them.
	Pictures        []Picture `db:"-"`
	WebhookURL      *string
	OrderID         *string // metadata.order_id while the merchant guards order ids; else nil
	SigningEndpoint *string // id of the registration whose secret signs for WebhookURL
	MaxAttempts     int     // failed payments that end the session
	Attempts        int     // payments that began so far
	PaymentInFlight bool
	CreatedAt       time.Time
	ExpiresAt       time.Time
	EndedAt         *time.Time

	URL          string        `db:"-"` // URL of the hosted page; the REST front end sets it
	Transactions []Transaction `db:"-"` // decided transactions, in the order of their attempts
	Payout       *Payout       `db:"-"` // nil unless completed
	// Suspended: the merchant's payments are suspended. Only CustomerSession and Session read it.
	Suspended bool `db:"-"`
}

// OwnEndpoint returns the id of the endpoint for WebhookURL when no registration's secret signs for it.
func (s Session) OwnEndpoint() string {
	return PrefixEndpoint + strings.TrimPrefix(s.ID, PrefixSession)
}

// Transaction returns the last decided transaction, nil before the first.
func (s Session) Transaction() *Transaction {
	if len(s.Transactions) == 0 {
		return nil
	}
	return &s.Transactions[len(s.Transactions)-1]
}

// MarshalJSON writes the checkout session object of the interface document. Fields that were not supplied are null
// (api/decisions/answers.md, "optional fields").
func (s Session) MarshalJSON() ([]byte, error) {
	var completedAt *time.Time
	if s.Status == StatusCompleted {
		completedAt = s.EndedAt
	}
	return EncodeJSON(struct {
		ID             string               `json:"id"`
		URL            string               `json:"url"`
		Amount         money.Amount         `json:"amount"`
		Currency       money.Currency       `json:"currency"`
		PayoutCurrency money.PayoutCurrency `json:"payout_currency"`
		Status         Status               `json:"status"`
		CustomerEmail  *string              `json:"customer_email"`
		Metadata       json.RawMessage      `json:"metadata"`
		RedirectURL    *string              `json:"redirect_url"`
		CancelURL      *string              `json:"cancel_url"`
		Description    *string              `json:"description"`
		Locale         *Locale              `json:"locale"`
		LineItems      []LineItem           `json:"line_items"`
		WebhookURL     *string              `json:"webhook_url"`
		Livemode       bool                 `json:"livemode"`
		Transaction    *Transaction         `json:"transaction"`
		Payout         *Payout              `json:"payout"`
		CreatedAt      string               `json:"created_at"`
		ExpiresAt      string               `json:"expires_at"`
		CompletedAt    *string              `json:"completed_at"`
		Timeline       []Moment             `json:"timeline"`
		Paying         bool                 `json:"payment_in_progress"`
	}{
		ID: s.ID, URL: s.URL, Amount: s.Amount, Currency: s.Currency, PayoutCurrency: s.PayoutCurrency,
		Status: s.Status, CustomerEmail: s.CustomerEmail, Metadata: s.Metadata, RedirectURL: s.RedirectURL,
		CancelURL: s.CancelURL, Description: s.Description, Locale: s.Locale, LineItems: s.LineItems,
		WebhookURL: s.WebhookURL, Livemode: s.Mode.Live(), Transaction: s.Transaction(), Payout: s.Payout,
		CreatedAt: FormatTime(s.CreatedAt), ExpiresAt: FormatTime(s.ExpiresAt),
		CompletedAt: FormatOptionalTime(completedAt), Timeline: s.Timeline(), Paying: s.PaymentInFlight,
	})
}

// PageURL returns the address of a session's hosted page. base is {checkout_url} of the interface
// document, without a trailing slash.
func PageURL(base, sessionID string) string { return base + "/" + sessionID }

// PreviewURL returns the address where a merchant sees the looks of its hosted page.
func PreviewURL(base, merchantID string) string { return base + "/preview/" + merchantID }

// ReturnURL returns the address to which a bank sends the customer back.
func ReturnURL(base, sessionID string) string { return PageURL(base, sessionID) + "/return" }
