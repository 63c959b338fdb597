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

	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

// MaxEvent is the largest webhook that is read, in bytes.
const MaxEvent = 512 << 10

// eventTolerance is how far from now the signature of a webhook may be.
const eventTolerance = 5 * time.Minute

// Errors of VerifyEvent.
var (
	ErrEventTooLarge  = errors.New("the webhook is larger than 512 KiB")
	ErrEventSignature = errors.New("no signature of the webhook is right and fresh")
)

// VerifyEvent reads a webhook's raw body. header is Stripe-Signature. The body must be signed with
// one of the secrets (whsec_…), of which there are two during a rotation, within the last five
// minutes. The event's API version does not matter, because only ids are read. It returns one of the errors
// above, and an error for an event of another mode than that of the secrets.
func VerifyEvent(payload []byte, header string, mode checkout.Mode, secrets []string) (books.AcquirerEvent, error) {
	if len(payload) > MaxEvent {
		return books.AcquirerEvent{}, ErrEventTooLarge
	}
	signed := func(secret string) bool {
		return secret != "" && webhook.ValidatePayloadWithTolerance(payload, header, secret, eventTolerance) == nil
	}
	if isSignedAhead(header) || !slices.ContainsFunc(secrets, signed) {
		return books.AcquirerEvent{}, ErrEventSignature
	}
	var e stripe.Event
	if json.Unmarshal(payload, &e) != nil {
		//nolint:nilerr // an error would make Stripe send it again
		return books.AcquirerEvent{Mode: mode, Unread: true}, nil
	}
	return newEvent(&e, mode)
}

// isSignedAhead reports whether a signature is of the future. The library compares the past only.
func isSignedAhead(header string) bool {
	return slices.ContainsFunc(strings.Split(header, ","), func(part string) bool {
		text, ok := strings.CutPrefix(part, "t=")
		at, err := strconv.ParseInt(text, 10, 64)
		return ok && err == nil && at > time.Now().Add(eventTolerance).Unix()
	})
}

// wordsOfEvent is the shape of Stripe's ids and of its types of events.
var wordsOfEvent = regexp.MustCompile(`^[0-9A-Za-z_.]{1,255}$`)

// newEvent takes the ids from an event that Stripe sent to a mode. Its time has whole seconds; a time that
// cannot be is replaced by the present one. An event that says that it is of the other mode is refused.
func newEvent(e *stripe.Event, mode checkout.Mode) (books.AcquirerEvent, error) {
	got := books.AcquirerEvent{
		ID: e.ID, Mode: mode, Type: string(e.Type), Risk: isRisk(string(e.Type)),
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
		return books.AcquirerEvent{ID: e.ID, Mode: mode, CreatedAt: got.CreatedAt, Unread: true}, nil
	}
	if e.Livemode != mode.Live() {
		return books.AcquirerEvent{}, fmt.Errorf("the report was sent to %s mode but belongs to the other mode", mode)
	}
	return got, nil
}

// eventTime returns the time of an event, or now when Stripe cannot have made an event then.
func eventTime(seconds int64, now time.Time) time.Time {
	const year2000 = 946684800
	if seconds < year2000 || seconds > now.Add(24*time.Hour).Unix() {
		return now.UTC().Truncate(time.Second)
	}
	return time.Unix(seconds, 0).UTC()
}

// isRisk reports whether events of a type are about the risks that Risks returns.
func isRisk(eventType string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(eventType, prefix) }
	prefixes := []string{"charge.dispute.", "charge.refund", "refund.", "radar.early_fraud_warning."}
	return slices.ContainsFunc(prefixes, begins)
}

// eventPage is how many events one request lists.
const eventPage = 100

// Events returns the events after the cursor, oldest first, at most 100, and whether there are more. The cursor is the
// id of an event of the last 30 days; with "" the list begins with the oldest event since the given time. An event can
// appear in the list a little after a younger one, so a caller that keeps a cursor must not take the list for complete:
// what it misses is found when the object's own state is asked.
func (n *Network) Events(
	ctx context.Context, cursor string, since time.Time,
) (got []books.AcquirerEvent, more bool, err error) {
	params := &stripe.EventListParams{}
	params.Limit, params.Single = stripe.Int64(eventPage), true
	if cursor != "" {
		params.EndingBefore = stripe.String(cursor)
		page := n.api.V1Events.List(ctx, params)
		if err := page.Err(); err != nil {
			return nil, false, fmt.Errorf("list events: %w", publicError(err))
		}
		got, err = n.events(page.Data())
		return got, page.Meta().HasMore, err
	}
	// Without a cursor Stripe lists from the youngest on, so all pages of a time are needed to find its oldest event.
	for last := false; !last && len(got) == 0 && err == nil; since = since.Add(eventsOf) {
		last = since.Add(eventsOf).After(time.Now().Add(time.Minute)) // Stripe's clock may be ahead
		got, more, err = n.oldestEvents(ctx, since)
		more = more || !last && len(got) > 0
	}
	return got, more, err
}

// eventsOf is how much time a list without a cursor covers, so that it ends.
const eventsOf = 6 * time.Hour

// oldestEvents returns the oldest events of eventsOf, and whether it has more.
func (n *Network) oldestEvents(
	ctx context.Context, since time.Time,
) (oldest []books.AcquirerEvent, more bool, err error) {
	params := &stripe.EventListParams{CreatedRange: created(since, since.Add(eventsOf))}
	params.Limit = stripe.Int64(eventPage)
	var all []*stripe.Event
	keepAlive(ctx)
	for e, err := range n.api.V1Events.List(ctx, params).All(ctx) {
		if err != nil {
			return nil, false, fmt.Errorf("list events: %w", publicError(err))
		}
		keepAlive(ctx)
		all = append(all, e)
	}
	slices.Reverse(all)
	oldest, err = n.events(all[:min(len(all), eventPage)])
	return oldest, len(all) > eventPage, err
}

func (n *Network) events(page []*stripe.Event) ([]books.AcquirerEvent, error) {
	got := make([]books.AcquirerEvent, 0, len(page))
	for _, e := range page {
		event, err := newEvent(e, n.mode)
		if err != nil {
			return nil, err
		}
		got = append(got, event)
	}
	return got, nil
}
