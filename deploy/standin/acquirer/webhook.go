package acquirer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stripe/stripe-go/v85/webhook"
)

// Webhooks configures the sending of events.
type Webhooks struct {
	URL    string // "" sends none
	Secret string // whsec_…
	// Copies is how often each event is sent, at least once: Stripe promises no exact number.
	Copies int
	// Spread is the longest delay of a copy. The delays differ, so the events arrive out of order.
	Spread time.Duration
}

// A sender sends the events that are due.
type sender struct {
	db      *pgxpool.Pool
	options Webhooks
	held    atomic.Bool
	wake    chan struct{}
	client  *http.Client
}

func newSender(db *pgxpool.Pool, o Webhooks) *sender {
	return &sender{db: db, options: o, wake: make(chan struct{}, 1), client: &http.Client{Timeout: 10 * time.Second}}
}

// schedule plans the copies of one event, in the transaction that made it.
func (s *sender) schedule(ctx context.Context, tx pgx.Tx, eventID string) error {
	if s.options.URL == "" {
		return nil
	}
	for range max(1, s.options.Copies) {
		delay := rand.N(s.options.Spread + 1)
		_, err := tx.Exec(ctx, `INSERT INTO acquirer.webhook (event_id, due_at) VALUES ($1, now() + $2)`, eventID, delay)
		if err != nil {
			return err
		}
	}
	return nil
}

// hold keeps the webhooks back, or lets them go.
func (s *sender) hold(held bool) {
	s.held.Store(held)
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
}

// run sends what is due until ctx ends.
func (s *sender) run(ctx context.Context) {
	if s.options.URL == "" {
		return
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake:
		}
		for !s.held.Load() {
			sent, err := s.sendOne(ctx)
			if err != nil && ctx.Err() == nil {
				slog.WarnContext(ctx, "acquirer webhook", "error", err)
			}
			if err != nil || !sent {
				break
			}
		}
	}
}

// sendOne sends one due webhook; false when there is none. One that is not taken is due again later.
// A crash between the POST and the note sends it twice.
func (s *sender) sendOne(ctx context.Context) (bool, error) {
	var id int64
	var tries int
	var body []byte
	err := s.db.QueryRow(ctx, `
		SELECT w.id, w.tries, o.body FROM acquirer.webhook w JOIN acquirer.object o ON o.id = w.event_id
		WHERE w.taken_at IS NULL AND w.due_at <= now() ORDER BY w.due_at LIMIT 1`).Scan(&id, &tries, &body)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := s.post(ctx, body); err != nil {
		again := min(time.Second<<min(tries, 6), time.Minute)
		_, noteErr := s.db.Exec(ctx, `
			UPDATE acquirer.webhook SET tries = tries + 1, due_at = now() + $2 WHERE id = $1`, id, again)
		return true, errors.Join(err, noteErr)
	}
	_, err = s.db.Exec(ctx, `UPDATE acquirer.webhook SET taken_at = now() WHERE id = $1`, id)
	return true, err
}

// post sends one event, signed afresh.
func (s *sender) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.options.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	now := time.Now()
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("Stripe-Signature",
		fmt.Sprintf("t=%d,v1=%x", now.Unix(), webhook.ComputeSignature(now, body, s.options.Secret)))
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // only the status counts
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook address answered %d", response.StatusCode)
	}
	return nil
}
