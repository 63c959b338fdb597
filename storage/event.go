package storage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// publication is an event to store, with its deliveries.
type publication struct {
	checkout.Ref // evt_…; "" makes a new id

	Type      webhook.EventType
	SubjectID string
	SessionID string
	// Generation of a payout's event: a retried payout is sent or fails once more. 0 stands for 1.
	Generation int
	Data       any
	At         time.Time
	// WebhookURL replaces every registration for the events of its session, but for opt-in types. The secret of
	// SigningEndpoint signs them.
	WebhookURL      *string
	SigningEndpoint *string
	// Only is the id of the one registration that gets a test event. Its list of event types does not matter.
	Only *string
}

// publish stores the event, the exact bytes to send, and one delivery for each address. It must run
// at most once per subject, type and generation: a unique constraint refuses a second run. published
// returns the deliveries of the first run.
func publish(ctx context.Context, tx pgx.Tx, p publication) ([]webhook.Dispatch, error) {
	return publishWith(ctx, tx, p, decisionSQL{sql: `decided AS (SELECT)`})
}

// decisionSQL is the part of a statement that makes the decision which its event reports: a list of WITH queries. The
// last one is decided, which has one row when the decision took effect, else none.
type decisionSQL struct {
	sql  string
	args pgx.NamedArgs
}

// errOvertaken: a row has changed since it was read, so the statement has changed nothing.
var errOvertaken = errors.New("overtaken")

// publishWith is publish in one statement with the decision. It returns errOvertaken when the decision did not take
// effect; then nothing is stored.
func publishWith(ctx context.Context, to pg.Querier, p publication, d decisionSQL) ([]webhook.Dispatch, error) {
	id := p.ID
	if id == "" {
		id = checkout.NewID(checkout.PrefixEvent)
	}

	body, err := webhook.Envelope(id, p.Type, p.At, p.Data)
	if err != nil {
		return nil, err
	}

	// PostgreSQL takes one of these ids for each target. So no query is needed to count the targets first.
	candidates := make([]string, webhook.MaxEndpoints)
	for i := range candidates {
		candidates[i] = checkout.NewID(checkout.PrefixDelivery)
	}

	slices.Sort(candidates)
	if p.Type.OptIn() {
		p.WebhookURL = nil
	}
	args := pgx.NamedArgs{
		"event": id, "merchant": p.MerchantID, "mode": p.Mode, "type": p.Type, "subject": p.SubjectID,
		"session": p.SessionID, "at": p.At, "body": body, "generation": max(1, p.Generation),
		"only": p.Only, "url": p.WebhookURL, "signing_endpoint": p.SigningEndpoint, "candidates": candidates,
	}
	maps.Copy(args, d.args)
	// ForEachRow returns the error.
	rows, _ := to.Query(ctx, `WITH `+d.sql+`, event AS (
			INSERT INTO event (id, merchant_id, mode, type, subject_id, session_id, created_at, body, generation)
			SELECT @event, @merchant, @mode, @type, @subject, nullif(@session, ''), @at, @body, @generation FROM decided
		), target AS (
			SELECT id, url, false AS session_url FROM webhook_endpoint
			WHERE merchant_id = @merchant AND mode = @mode AND session_id IS NULL AND deleted_at IS NULL
			  AND CASE WHEN @only::text IS NULL THEN events && ARRAY[@type::text, '*'] ELSE id = @only END
			  AND @url::text IS NULL
			UNION ALL
			SELECT @signing_endpoint, @url, true WHERE @url IS NOT NULL
		), delivery AS (
			INSERT INTO webhook_delivery (id, event_id, merchant_id, mode, endpoint_id, url,
				session_url, status, next_attempt_at, created_at)
			SELECT (@candidates::text[])[row_number() OVER (ORDER BY target.id)], @event, @merchant, @mode, target.id,
				target.url, target.session_url, 'pending', @at, @at FROM target, decided
			RETURNING id, `+laneEndpoint+` AS lane, url
		)
		SELECT delivery.* FROM decided LEFT JOIN delivery ON true ORDER BY delivery.id`, args)
	took, all := false, []webhook.Dispatch{}
	var delivery, lane, address *string
	_, err = pgx.ForEachRow(rows, []any{&delivery, &lane, &address}, func() error {
		if took = true; delivery != nil {
			all = append(all, webhook.Dispatch{ID: *delivery, EndpointID: *lane, Host: webhook.HostOf(*address)})
		}
		return nil
	})
	if err == nil && !took {
		err = errOvertaken
	}
	return all, err
}

// published returns the deliveries that publish stored for an event.
func published(
	ctx context.Context, from pg.Querier, owner checkout.Owner, subjectID string, typ webhook.EventType,
	generation int,
) ([]webhook.Dispatch, error) {
	return pg.CollectBy(ctx, from, readDispatch, `
		SELECT d.id, `+laneEndpoint+`, d.url FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE e.merchant_id = $1 AND e.mode = $2 AND e.subject_id = $3 AND e.type = $4 AND e.generation = $5
		ORDER BY d.id`, owner.MerchantID, owner.Mode, subjectID, typ, generation)
}

// laneEndpoint is the endpoint whose lane limits the attempts of a webhook_delivery. A delivery to
// a session's own URL gets "": another session may have the same URL and another endpoint.
const laneEndpoint = `CASE WHEN session_url THEN '' ELSE endpoint_id END`

func readDispatch(row pgx.CollectableRow) (ref webhook.Dispatch, err error) {
	var address string
	err = row.Scan(&ref.ID, &ref.EndpointID, &address)
	ref.Host = webhook.HostOf(address)
	return ref, err
}

// TestEvent is an event for one registration only, whatever event types the registration lists. It
// belongs to no session.
type TestEvent struct {
	checkout.Owner

	EndpointID string
	SubjectID  string // test_…
	Type       webhook.EventType
	Data       func(at time.Time) any
}

// PublishTest stores a test event and its delivery. The caller starts the delivery's workflow. A repeat with the same
// subject changes nothing. It returns checkout.ErrNotFound. by works as in CreateEndpoint.
func (s *Webhooks) PublishTest(
	ctx context.Context, t TestEvent, by ...merchant.AuditEntry,
) (webhook.Event, webhook.Dispatch, error) {
	type stored struct {
		webhook.Event
		DeliveryID, Lane, URL string
	}
	got, err := pg.InTx(ctx, s.pool, "publish test event", func(tx pgx.Tx) (got stored, err error) {
		// The lock makes a repeat wait for a first call that is committing, and find its event: of the first call's
		// type, which may come from the registration's events, and these may have changed since.
		at, err := pg.Value[time.Time](ctx, tx, `
			SELECT date_trunc('milliseconds', clock_timestamp()) FROM pg_advisory_xact_lock(hashtextextended($1, 0))`,
			t.SubjectID)
		if err != nil {
			return got, err
		}
		find := func() error {
			got, err = pg.One[stored](ctx, tx, `
				SELECT `+eventColumns+`, d.id AS delivery_id, `+laneEndpoint+` AS lane, d.url
				FROM event e JOIN webhook_delivery d ON d.event_id = e.id
				WHERE e.subject_id = $1 AND e.merchant_id = $2 AND e.mode = $3`, t.SubjectID, t.MerchantID, t.Mode)
			return err
		}
		if !errors.Is(find(), checkout.ErrNotFound) {
			return got, err
		}
		_, err = publish(ctx, tx, publication{
			Ref: checkout.Ref{Owner: t.Owner}, Type: t.Type, SubjectID: t.SubjectID,
			Data: t.Data(at), At: at, Only: &t.EndpointID,
		})
		if err != nil || find() != nil { // there is no such registration
			return got, err
		}
		return got, pg.Audit(ctx, tx, by...)
	})
	return got.Event, webhook.Dispatch{ID: got.DeliveryID, EndpointID: got.Lane, Host: webhook.HostOf(got.URL)}, err
}

const (
	eventColumns = `e.id, e.merchant_id, e.mode, e.type, e.subject_id, coalesce(e.session_id, '') AS session_id,
		e.created_at, e.body`
	selectEvent = `SELECT ` + eventColumns + ` FROM event e `
)

// Event returns one event. It returns checkout.ErrNotFound.
func (s *WebhookReader) Event(ctx context.Context, ref checkout.Ref) (webhook.Event, error) {
	e, err := pg.One[webhook.Event](ctx, s.pool, selectEvent+`
		WHERE e.id = $1 AND e.merchant_id = $2 AND e.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
	return e, pg.Wrap("event", err)
}

// EventFilter selects events. An empty field selects all.
type EventFilter struct {
	Type      webhook.EventType
	SessionID string
}

// Events lists events, newest first.
func (s *WebhookReader) Events(
	ctx context.Context, owner checkout.Owner, f EventFilter, p pg.Page,
) ([]webhook.Event, error) {
	q := pg.NewList(owner, "e")
	q.Equal("e.type", string(f.Type))
	q.Equal("e.session_id", f.SessionID)
	q.Page(checkout.PrefixEvent, "e", p)
	got, err := pg.Collect[webhook.Event](ctx, s.pool, selectEvent+q.SQL, q.Args...)
	return got, pg.Wrap("events", err)
}

// EventDeliveries returns the deliveries of an event, oldest first.
func (s *WebhookReader) EventDeliveries(ctx context.Context, ref checkout.Ref) ([]webhook.Dispatch, error) {
	got, err := pg.CollectBy(ctx, s.pool, readDispatch, `
		SELECT id, `+laneEndpoint+`, url FROM webhook_delivery
		WHERE merchant_id = $1 AND mode = $2 AND event_id = $3 ORDER BY id`, ref.MerchantID, ref.Mode, ref.ID)
	return got, pg.Wrap("deliveries of an event", err)
}
