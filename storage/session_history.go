package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// SessionHistory holds the events of a session and its undecided payment. Session returns its
// decided payments and its payout.
type SessionHistory struct {
	InFlight *checkout.Transaction // the payment that is being decided; nil when there is none
	Events   []EventHistory        // oldest first
}

// EventHistory is an event with its deliveries, oldest first.
type EventHistory struct {
	webhook.Event
	Deliveries []webhook.Delivery `db:"-"` // each with its newest attempts, oldest first, without response bodies
}

// maxAttemptsOfTree is how many attempts a history shows of each delivery: the attempts of the last two runs.
const maxAttemptsOfTree = 2 * webhook.MaxAttempts

// SessionHistory returns the history of a session, in one round trip. The history of an unknown session is empty.
func (s *SessionReader) SessionHistory(ctx context.Context, ref checkout.Ref) (SessionHistory, error) {
	var (
		h          SessionHistory
		inFlight   []checkout.Transaction // one at most
		deliveries []webhook.Delivery
		attempts   []deliveryAttempt
		batch      pgx.Batch
	)
	pg.Queue(&batch, &inFlight, `SELECT `+transactionColumns+transactionJoin+`
		WHERE t.session_id = $3 AND t.merchant_id = $1 AND t.mode = $2
			AND t.status = 'processing'`, ref.MerchantID, ref.Mode, ref.ID)

	const ofSession = `WHERE e.session_id = $3 AND e.merchant_id = $1 AND e.mode = $2 `
	pg.Queue(&batch, &h.Events, selectEvent+ofSession+`ORDER BY e.id`, ref.MerchantID, ref.Mode, ref.ID)
	pg.Queue(&batch, &deliveries, selectDelivery+ofSession+`ORDER BY d.id`, ref.MerchantID, ref.Mode, ref.ID)
	pg.Queue(&batch, &attempts, listedAttempts+`
		FROM webhook_delivery d JOIN event e ON e.id = d.event_id CROSS JOIN LATERAL (
			SELECT * FROM webhook_attempt WHERE delivery_id = d.id ORDER BY run DESC, number DESC LIMIT $4) a `+ofSession+`
		ORDER BY a.run, a.number`, ref.MerchantID, ref.Mode, ref.ID, maxAttemptsOfTree)
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return SessionHistory{}, pg.Wrap("history of a session", err)
	}
	if len(inFlight) > 0 {
		h.InFlight = &inFlight[0]
	}
	h.add(deliveries, attempts)
	return h, nil
}

func (h *SessionHistory) add(deliveries []webhook.Delivery, attempts []deliveryAttempt) {
	of := map[string][]webhook.Attempt{}
	for _, a := range attempts {
		of[a.DeliveryID] = append(of[a.DeliveryID], a.Attempt)
	}
	at := map[string]int{}
	for i, e := range h.Events {
		at[e.ID] = i
	}
	for _, d := range deliveries {
		i, ok := at[d.EventID]
		if !ok { // the event was published after the first query
			continue
		}
		d.Attempts = of[d.ID]
		h.Events[i].Deliveries = append(h.Events[i].Deliveries, d)
	}
}
