package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"
)

// MaxEvent is the largest webhook that is read, in bytes.
const MaxEvent = 512 << 10

// eventTolerance is how far from now the signature of a webhook may be.
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
	// CreatedAt has whole seconds, in UTC. A time that cannot be is replaced by the present one.
	CreatedAt time.Time
	// Unread says that ids of the event are missing or are none of Stripe's. Only ID may be used then, as a
	// cursor of Events.
	Unread bool
}

// Errors of VerifyEvent.
var (
	ErrEventTooLarge  = errors.New("the webhook is larger than 512 KiB")
	ErrEventSignature = errors.New("no signature of the webhook is right and fresh")
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
	if ahead(header) || !slices.ContainsFunc(secrets, signed) {
		return Event{}, ErrEventSignature
	}
	var e stripe.Event
	if json.Unmarshal(payload, &e) != nil {
		return Event{Unread: true}, nil //nolint:nilerr // an error would make Stripe send it again
	}
	return newEvent(&e), nil
}

// ahead reports whether a signature is of the future. The library compares the past only.
func ahead(header string) bool {
	return slices.ContainsFunc(strings.Split(header, ","), func(part string) bool {
		text, ok := strings.CutPrefix(part, "t=")
		at, err := strconv.ParseInt(text, 10, 64)
		return ok && err == nil && at > time.Now().Add(eventTolerance).Unix()
	})
}

// wordsOfEvent is the shape of Stripe's ids and of its types of events.
var wordsOfEvent = regexp.MustCompile(`^[0-9A-Za-z_.]{1,255}$`)

// newEvent takes the ids from Stripe's event.
func newEvent(e *stripe.Event) Event {
	got := Event{
		ID: e.ID, Type: string(e.Type), Risk: isRisk(string(e.Type)), Livemode: e.Livemode,
		CreatedAt: eventTime(e.Created, time.Now()),
	}
	if e.Data != nil {
		text := func(name string) string {
			value, _ := e.Data.Object[name].(string) // "" for what is no text
			return value
		}
		got.ObjectID, got.Reference = text("id"), text("payment_intent")
		if text("object") == "payment_intent" {
			got.Reference = got.ObjectID
		}
	}
	word := wordsOfEvent.MatchString
	if !word(got.ID) || !word(got.Type) || !word(got.ObjectID) || got.Reference != "" && !word(got.Reference) {
		return Event{ID: e.ID, CreatedAt: got.CreatedAt, Livemode: e.Livemode, Unread: true}
	}
	return got
}

// eventTime returns the time of an event, or now when Stripe cannot have made an event then.
func eventTime(seconds int64, now time.Time) time.Time {
	const year2000 = 946684800
	if seconds < year2000 || seconds > now.Add(24*time.Hour).Unix() {
		return now.UTC().Truncate(time.Second)
	}
	return time.Unix(seconds, 0).UTC()
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
