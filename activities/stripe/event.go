package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"
)

// MaxEvent is the largest webhook that is read, in bytes.
const MaxEvent = 512 << 10

// eventTolerance is how old the signature of a webhook may be.
const eventTolerance = 5 * time.Minute

// An Event says that an object at Stripe has changed. It is a hint to ask for the object's state:
// events come late, several times, and out of order.
type Event struct {
	ID       string // evt_…
	Type     string // such as payment_intent.succeeded
	ObjectID string // of the changed object: pi_…, ch_…, re_…, du_…
	// Reference is the intent that the object is or belongs to, "" when it belongs to none.
	Reference string
	// Risk says that the report is about a dispute, a warning of fraud or a refund: see Risks.
	Risk     bool
	Livemode bool
	// CreatedAt has whole seconds, in UTC.
	CreatedAt time.Time
}

// Errors of VerifyEvent.
var (
	ErrEventTooLarge  = errors.New("the webhook is larger than 512 KiB")
	ErrEventSignature = errors.New("no signature of the webhook is right and fresh")
	ErrEventUnread    = errors.New("the webhook is signed but is no event")
)

// VerifyEvent reads a webhook's raw body. header is Stripe-Signature. The body must be signed with
// one of the secrets (whsec_…), of which there are two during a rotation, within the last five
// minutes. The event's API version does not matter, because only ids are read. The caller compares
// Livemode with its mode. It returns one of the errors above.
func VerifyEvent(payload []byte, header string, secrets []string) (Event, error) {
	if len(payload) > MaxEvent {
		return Event{}, ErrEventTooLarge
	}
	signed := func(secret string) bool {
		return secret != "" && webhook.ValidatePayloadWithTolerance(payload, header, secret, eventTolerance) == nil
	}
	if !slices.ContainsFunc(secrets, signed) {
		return Event{}, ErrEventSignature
	}
	var e stripe.Event
	if err := json.Unmarshal(payload, &e); err != nil {
		return Event{}, ErrEventUnread
	}
	got := newEvent(&e)
	if got.ID == "" || got.Type == "" || got.ObjectID == "" {
		return Event{}, ErrEventUnread
	}
	return got, nil
}

// newEvent takes the ids from Stripe's event.
func newEvent(e *stripe.Event) Event {
	got := Event{
		ID: e.ID, Type: string(e.Type), Risk: isRisk(string(e.Type)), Livemode: e.Livemode,
		CreatedAt: time.Unix(e.Created, 0).UTC(),
	}
	if e.Data == nil {
		return got
	}
	text := func(name string) string {
		value, _ := e.Data.Object[name].(string) // "" for what is no text
		return value
	}
	got.ObjectID, got.Reference = text("id"), text("payment_intent")
	if text("object") == "payment_intent" {
		got.Reference = got.ObjectID
	}
	return got
}

// isRisk reports whether a type of events is about what Risks asks for.
func isRisk(eventType string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(eventType, prefix) }
	prefixes := []string{"charge.dispute.", "charge.refund", "refund.", "radar.early_fraud_warning."}
	return slices.ContainsFunc(prefixes, begins)
}

// eventPage is how many events one request lists.
const eventPage = 100

// Events returns the events after the cursor, oldest first, at most 100, and whether there are more.
// The cursor is the id of an event of the last 30 days; with "" the list begins with the oldest event
// since the given time. An event can appear in the list a little after a younger one, so a caller
// that keeps a cursor must not take the list for complete: what it misses is found when the object's
// own state is asked.
func (n *Network) Events(ctx context.Context, cursor string, since time.Time) ([]Event, bool, error) {
	params := &stripe.EventListParams{}
	params.Limit, params.Single = stripe.Int64(eventPage), true
	if cursor != "" {
		params.EndingBefore = stripe.String(cursor)
		page := n.api.V1Events.List(ctx, params)
		if err := page.Err(); err != nil {
			return nil, false, fmt.Errorf("list events: %w", publicError(err))
		}
		return events(page.Data()), page.Meta().HasMore, nil
	}
	// Without a cursor Stripe lists from the youngest on, so all pages are needed to find the oldest.
	params.Single, params.CreatedRange = false, &stripe.RangeQueryParams{GreaterThanOrEqual: since.Unix()}
	var all []*stripe.Event
	for e, err := range n.api.V1Events.List(ctx, params).All(ctx) {
		if err != nil {
			return nil, false, fmt.Errorf("list events: %w", publicError(err))
		}
		all = append(all, e)
	}
	slices.Reverse(all)
	return events(all[:min(len(all), eventPage)]), len(all) > eventPage, nil
}

func events(page []*stripe.Event) []Event {
	got := make([]Event, 0, len(page))
	for _, e := range page {
		got = append(got, newEvent(e))
	}
	return got
}
