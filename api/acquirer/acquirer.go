// Package acquirer takes the reports of the card network: {base_url}/acquirers/stripe/events. It is
// not part of the merchants' interface. A report only makes the service look at the network's own
// state, so a lost, late or repeated report changes nothing in the end.
package acquirer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

// Path is where the card network sends its reports.
const Path = "/acquirers/stripe/events"

// MaxReport is the largest report that is read, in bytes.
const MaxReport = 512 << 10

// Reports notes what the card network reports, however the report came: by a request to Path, or by a
// reading of the network's list.
type Reports struct {
	Books *storage.Books
	// SignalComplete makes the session look at a payment in flight.
	SignalComplete func(ctx context.Context, sessionID, transactionID string) error
	Log            *slog.Logger
}

// Config configures New.
type Config struct {
	Reports

	// Books makes the worker ask the card network about the charges of a report about a risk.
	Books func(ctx context.Context, mode checkout.Mode) error
	// Verify checks the signature of a raw report and reads it. Its error is for the log and quotes
	// nothing of the report.
	Verify func(payload []byte, signature string) (books.AcquirerEvent, error)
}

// reportCounter counts the reports. An error here means a bad instrument name: a bug.
var reportCounter, _ = otel.Meter("example.com/checkout/api/acquirer").Int64Counter("checkout.acquirer.reports",
	metric.WithUnit("{report}"), metric.WithDescription("Reports of the card network, by what became of them."))

const outcomeKey = attribute.Key("checkout.acquirer.report.outcome")

// countReport counts a report: "taken", "refused" because its signature is wrong, or "unread".
func countReport(ctx context.Context, outcome string) {
	reportCounter.Add(ctx, 1, metric.WithAttributes(outcomeKey.String(outcome)))
}

// signalTimeout is short: the card network waits for the answer, and the session looks by itself.
const signalTimeout = 3 * time.Second

// New returns the handler of Path. It answers 200 when the report is stored or can never be, 400 when the
// report is not the network's, 413 when it is too large, and 503 when PostgreSQL does not take it now. The
// network sends again for days what gets no 200.
func New(c Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.SetDataHeaders(w.Header())
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		status, err := c.receiveReport(w, r)
		if err != nil {
			c.Log.WarnContext(r.Context(), "report of the card network", "status", status, "error", err)
		}
		w.WriteHeader(status)
	})
}

func (c Config) receiveReport(w http.ResponseWriter, r *http.Request) (int, error) {
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxReport))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return http.StatusRequestEntityTooLarge, err
	}
	if err != nil {
		return http.StatusBadRequest, err
	}
	event, err := c.Verify(payload, r.Header.Get("Stripe-Signature"))
	if err != nil {
		countReport(r.Context(), "refused")
		return http.StatusBadRequest, err
	}
	fresh, err := c.RecordReport(r.Context(), event)
	if err != nil {
		return http.StatusServiceUnavailable, err
	}
	if fresh && event.Risk {
		if err := c.Books(r.Context(), event.Mode); err != nil {
			c.Log.InfoContext(r.Context(), "a risk is looked at within minutes", "acquirer_event", event.ID, "error", err)
		}
	}
	if !event.Unread {
		countReport(r.Context(), "taken")
	}
	return http.StatusOK, nil
}

// RecordReport stores a report, and makes the session look when the report is new. It returns whether it is. A
// report about a risk is followed by Books, because only the worker may ask the card network. A report
// that cannot be read is counted and logged, and never stored: the network's own state is asked anyway.
func (n Reports) RecordReport(ctx context.Context, event books.AcquirerEvent) (fresh bool, err error) {
	if event.Unread {
		countReport(ctx, "unread")
		n.Log.ErrorContext(ctx, "a signed report of the card network cannot be read", "mode", event.Mode,
			"id", strconv.QuoteToASCII(event.ID[:min(len(event.ID), 64)]))
		return false, nil
	}
	if fresh, err = n.Books.StoreAcquirerEvent(ctx, event); fresh { // redelivered events cause one request
		n.signalSession(ctx, event)
	}
	return fresh, err
}

// signalSession makes the session look now. Without it, the session looks a few seconds later.
func (n Reports) signalSession(ctx context.Context, event books.AcquirerEvent) {
	if event.Reference == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	session, transactionID, err := n.Books.PaymentByReference(ctx, event.Mode, event.Reference)
	if err == nil {
		err = n.SignalComplete(ctx, session.ID, transactionID)
	}
	if err != nil && !errors.Is(err, checkout.ErrNotFound) { // not found: it is decided
		n.Log.InfoContext(ctx, "session not told; it looks by itself", "acquirer_event", event.ID, "error", err)
	}
}
