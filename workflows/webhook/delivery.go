package webhook

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
)

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

// States of a delivery.
const (
	DeliveryPending   DeliveryStatus = "pending"
	DeliveryDelivered DeliveryStatus = "delivered"
	DeliveryFailed    DeliveryStatus = "failed"   // every attempt failed
	DeliveryCanceled  DeliveryStatus = "canceled" // its endpoint was deleted, or an operator canceled it
)

// DeliveryStatuses lists every state of a delivery.
var DeliveryStatuses = []DeliveryStatus{DeliveryPending, DeliveryDelivered, DeliveryFailed, DeliveryCanceled}

// Errors of a retry, replay or cancel.
var (
	// ErrDeliveryInProgress: the delivery has an open run, or an attempt is under way.
	ErrDeliveryInProgress = errors.New("delivery in progress")
	// ErrDeliveryNotPending: the delivery has ended; only a replay starts it again.
	ErrDeliveryNotPending = errors.New("delivery is not pending")
	// ErrDeliveryHeld: the delivery or its endpoint is on hold.
	ErrDeliveryHeld = errors.New("delivery is on hold")
	// ErrEndpointDeleted: the endpoint was deleted, so nothing more is sent to it.
	ErrEndpointDeleted = errors.New("endpoint was deleted")
)

// Delivery is one event on its way to one address.
type Delivery struct {
	checkout.Ref

	EventID       string
	EventType     EventType
	SessionID     *string // nil when no session caused the event
	EndpointID    string  // the endpoint whose secret signs
	URL           string
	Status        DeliveryStatus
	Held          bool       // the delivery or its endpoint is on hold
	Run           int        // 1 for the automatic run; each replay adds one
	NextAttemptAt *time.Time // nil during an attempt, on hold, and after the end
	AttemptsAhead *int       // about how many attempts to a busy endpoint come first; nil when it is not busy
	CreatedAt     time.Time
	FinishedAt    *time.Time
	Attempts      []Attempt `db:"-"` // oldest first; nil in lists
	// EndpointDeleted: the endpoint was deleted, so nothing more is sent. It is always false for a
	// session's own URL, which outlives the endpoint whose secret signs.
	EndpointDeleted bool
	SessionURL      bool // URL belongs to a session, not to a registration
}

// MarshalJSON writes the delivery. Source: api/decisions/deliveries.md, "delivery".
func (d Delivery) MarshalJSON() ([]byte, error) {
	return checkout.EncodeJSON(struct {
		ID            string         `json:"id"`
		EventID       string         `json:"event_id"`
		EventType     EventType      `json:"event_type"`
		SessionID     *string        `json:"session_id"`
		WebhookID     string         `json:"webhook_id"`
		URL           string         `json:"url"`
		Status        DeliveryStatus `json:"status"`
		Held          bool           `json:"held"`
		Run           int            `json:"run"`
		NextAttemptAt *string        `json:"next_attempt_at"`
		AttemptsAhead *int           `json:"attempts_ahead"`
		Livemode      bool           `json:"livemode"`
		CreatedAt     string         `json:"created_at"`
		FinishedAt    *string        `json:"finished_at"`
		WorkflowID    string         `json:"workflow_id"`
		Attempts      []Attempt      `json:"attempts,omitzero"`
	}{
		ID: d.ID, EventID: d.EventID, EventType: d.EventType, SessionID: d.SessionID, WebhookID: d.EndpointID,
		URL: d.URL, Status: d.Status, Held: d.Held, Run: d.Run,
		NextAttemptAt: checkout.FormatOptionalTime(d.NextAttemptAt), AttemptsAhead: d.AttemptsAhead, Livemode: d.Mode.Live(),
		CreatedAt: checkout.FormatTime(d.CreatedAt), FinishedAt: checkout.FormatOptionalTime(d.FinishedAt),
		WorkflowID: d.ID, Attempts: d.Attempts,
	})
}

// Dispatch holds the ids that a workflow needs to start a delivery. It has no URL and no body.
type Dispatch struct {
	ID         string `json:"id"`
	EndpointID string `json:"endpoint_id,omitempty"` // "" for a session's own URL
	Host       string `json:"host"`                  // for operators
}

// Dispatch returns the Dispatch that starts the delivery again.
func (d Delivery) Dispatch() Dispatch {
	to := Dispatch{ID: d.ID, EndpointID: d.EndpointID, Host: HostOf(d.URL)}
	if d.SessionURL {
		to.EndpointID = ""
	}
	return to
}

// ErrorKind classifies a failed attempt. Source: api/decisions/deliveries.md, "kinds of failed attempts".
type ErrorKind string

// Kinds of failed attempts.
const (
	ErrorDNS            ErrorKind = "dns"
	ErrorConnect        ErrorKind = "connect"
	ErrorTLS            ErrorKind = "tls"
	ErrorTimeout        ErrorKind = "timeout"
	ErrorBlockedAddress ErrorKind = "blocked_address"
	ErrorHTTP           ErrorKind = "http"     // the answer is not 2xx, or not HTTP
	ErrorInternal       ErrorKind = "internal" // an error of this service
)

// failures say in a few words why an attempt got no answer.
var failures = map[ErrorKind]string{
	ErrorDNS:            "host name not found",
	ErrorConnect:        "no connection",
	ErrorTLS:            "TLS failed",
	ErrorTimeout:        "no answer in 10 s",
	ErrorBlockedAddress: "address not allowed",
	ErrorHTTP:           "not an HTTP answer",
	ErrorInternal:       "our fault",
}

// Attempt is one HTTP POST of a delivery.
type Attempt struct {
	Run          int
	Number       int // 1 for the first attempt of each run
	ScheduledAt  *time.Time
	StartedAt    time.Time
	Finished     bool // false while under way, and after its worker died
	Duration     time.Duration
	StatusCode   int       // 0 without an answer
	ErrorKind    ErrorKind // "" when the attempt succeeded
	ResponseBody []byte    // at most 16 KiB
}

// Succeeded reports whether the receiver accepted the event.
func (a Attempt) Succeeded() bool { return a.ErrorKind == "" }

// Outcome describes the attempt to people in a few words, without the address and the answer's body.
func (a Attempt) Outcome() string {
	switch {
	case !a.Finished:
		return "under way"
	case a.StatusCode != 0:
		return fmt.Sprintf("answered %d", a.StatusCode)
	}
	return failures[a.ErrorKind]
}

// MarshalJSON writes the attempt. Unknown values of an unfinished attempt are null. A response that is not UTF-8 is
// shown with replacement characters. Source: api/decisions/deliveries.md, "delivery".
func (a Attempt) MarshalJSON() ([]byte, error) {
	out := struct {
		Run          int        `json:"run"`
		Number       int        `json:"number"`
		ScheduledAt  *string    `json:"scheduled_at"`
		StartedAt    string     `json:"started_at"`
		DurationMS   *int64     `json:"duration_ms"`
		StatusCode   *int       `json:"status_code"`
		Error        *ErrorKind `json:"error"`
		ResponseBody *string    `json:"response_body"`
	}{Run: a.Run, Number: a.Number, ScheduledAt: checkout.FormatOptionalTime(a.ScheduledAt),
		StartedAt: checkout.FormatTime(a.StartedAt)}
	if a.Finished {
		took := a.Duration.Milliseconds()
		out.DurationMS = &took
	}
	if a.StatusCode != 0 {
		body := strings.ToValidUTF8(string(a.ResponseBody), "\ufffd")
		out.StatusCode, out.ResponseBody = &a.StatusCode, &body
	}
	if a.ErrorKind != "" {
		out.Error = &a.ErrorKind
	}
	return checkout.EncodeJSON(out)
}
