package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// OrderIDInUseError names the session that has the order id. It wraps checkout.ErrOrderIDInUse.
type OrderIDInUseError struct{ SessionID string }

func (e *OrderIDInUseError) Error() string { return checkout.ErrOrderIDInUse.Error() }

// Unwrap makes errors.Is(err, checkout.ErrOrderIDInUse) true.
func (e *OrderIDInUseError) Unwrap() error { return checkout.ErrOrderIDInUse }

// NewSession is a session to create. The caller sets the owner, ID, the terms of payment and
// MaxAttempts of Session; CreateSession sets its times and status.
type NewSession struct {
	checkout.Session
	Lifetime time.Duration
	// Secret signs for WebhookURL. It is "" when a registration's secret signs.
	Secret string
}

// CreateSession inserts a pending session and calls start inside the transaction. It commits when start succeeds, so no
// visible session lacks its workflow. A crash after start leaves a workflow without a row; the workflow finds no row at
// its end and closes quietly. A repeat with the same id starts nothing and returns the existing session. It returns
// *OrderIDInUseError when another pending or completed session has the order id.
func (s *Sessions) CreateSession(
	ctx context.Context, n NewSession, start func(context.Context, checkout.Session) error,
) (checkout.Session, error) {
	session := n.Session
	var err error
	// Before the session's transaction, which waits for Temporal: other creates may use the same pictures.
	if session.Pictures, err = s.insertPictures(ctx, session); err != nil {
		return checkout.Session{}, pg.Wrap("create session", err)
	}
	if err := s.creates.Acquire(ctx, 1); err != nil {
		return checkout.Session{}, err
	}
	defer s.creates.Release(1)

	created, err := pg.InTx(ctx, s.pool, "create session", func(tx pgx.Tx) (checkout.Session, error) {
		if n.Secret != "" {
			endpoint, err := insertSessionSecret(ctx, tx, s.keys, n)
			if err != nil {
				return session, err
			}
			session.SigningEndpoint = &endpoint
		}
		err := tx.QueryRow(ctx, `
			WITH clock AS (SELECT date_trunc('milliseconds', clock_timestamp()) AS now)
			INSERT INTO checkout_session (id, merchant_id, mode, amount, currency, payout_currency,
				status, metadata, customer_email, redirect_url, webhook_url, signing_endpoint_id,
				order_id, max_attempts, cancel_url, description, locale, line_items, created_at, expires_at)
			SELECT @id, @merchant, @mode, @amount, @currency, @payout_currency,
				'pending', @metadata, @customer_email, @redirect_url, @webhook_url, @signing_endpoint,
				@order_id, @max_attempts, @cancel_url, @description, @locale, @line_items, now, now + @lifetime
			FROM clock
			RETURNING status, created_at, expires_at`, pgx.NamedArgs{
			"id": session.ID, "merchant": session.MerchantID, "mode": session.Mode,
			"amount": session.Amount, "currency": session.Currency, "payout_currency": session.PayoutCurrency,
			"metadata": session.Metadata, "customer_email": session.CustomerEmail,
			"redirect_url": session.RedirectURL, "webhook_url": session.WebhookURL,
			"signing_endpoint": session.SigningEndpoint, "order_id": session.OrderID,
			"max_attempts": session.MaxAttempts, "cancel_url": session.CancelURL,
			"description": session.Description, "locale": session.Locale, "line_items": session.LineItems,
			"lifetime": n.Lifetime,
		},
		).Scan(&session.Status, &session.CreatedAt, &session.ExpiresAt)
		if err != nil {
			return session, err
		}
		return session, start(ctx, session)
	})

	// The client repeated the request, after a crash or an unknown outcome. PostgreSQL may report
	// any of the three constraints first: the order of its indexes changes.
	held := pg.Violates(err, "checkout_session_order_id_key")
	if held || pg.Violates(err, "checkout_session_pkey") || pg.Violates(err, "webhook_endpoint_pkey") {
		again, err := s.Session(ctx, session.Ref)
		if held && errors.Is(err, checkout.ErrNotFound) {
			err = s.orderIDInUse(ctx, session)
		}
		return again, err
	}
	return created, err
}

func (s *Sessions) orderIDInUse(ctx context.Context, session checkout.Session) error {
	var holder OrderIDInUseError
	err := s.pool.QueryRow(ctx, `
		SELECT id FROM checkout_session
		WHERE merchant_id = $1 AND mode = $2 AND order_id = $3 AND status IN ('pending', 'completed')`,
		session.MerchantID, session.Mode, session.OrderID).Scan(&holder.SessionID)
	// No row: the order id has just become free; the caller may try again.
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("find order id: %w", err)
	}
	return &holder
}

// pastItsTime is true for a pending session s whose time is over and whose end is not stored yet. See sessionColumns.
const pastItsTime = `s.status = 'pending' AND NOT s.payment_in_flight AND s.expires_at <= clock_timestamp()`

// sessionColumns reads a session as merchants and customers see it: expired once its time is over
// with no payment in flight, even while every worker is down.
const sessionColumns = `
	id, merchant_id, mode, amount, currency, payout_currency,
	CASE WHEN status = 'pending' AND NOT payment_in_flight AND expires_at <= clock_timestamp()
		THEN 'expired' ELSE status END AS status,
	metadata, customer_email, redirect_url, cancel_url, description, locale, line_items, webhook_url,
	order_id, signing_endpoint_id AS signing_endpoint,
	max_attempts, attempts, payment_in_flight, created_at, expires_at, ended_at`

// Session returns one session with its decided transactions and its payout. It returns checkout.ErrNotFound, and
// checkout.ErrWrongMode when the merchant owns the session in the other mode.
func (s *SessionReader) Session(ctx context.Context, ref checkout.Ref) (checkout.Session, error) {
	const own = `id = $1 AND merchant_id = $2 AND mode = $3`
	row, err := s.readSession(ctx, true, own, ref.ID, ref.MerchantID, ref.Mode)
	if !errors.Is(err, checkout.ErrNotFound) {
		return row.Session, err
	}
	_, otherErr := s.readSession(ctx, false, own, ref.ID, ref.MerchantID, ref.Mode.Other())
	if otherErr == nil {
		return checkout.Session{}, checkout.ErrWrongMode
	}
	return checkout.Session{}, err
}

// CustomerSession returns the session of a hosted page, with its pictures and without its payout, and the merchant's
// brand. One statement is enough for a session that was not tried and shows no picture. The customer has no API key:
// the 128-bit id is enough to see the page. It returns checkout.ErrNotFound.
func (s *SessionReader) CustomerSession(ctx context.Context, id string) (checkout.Session, people.Brand, error) {
	row, err := s.readSession(ctx, false, `id = $1`, id)
	if err == nil {
		row.Pictures, err = s.picturesOf(ctx, row.Session)
	}
	row.Brand.MerchantID = row.Session.MerchantID
	return row.Session, row.Brand, err
}

// brandedSession is a session with the brand of its merchant, but for MerchantID, which only Session gets.
type brandedSession struct {
	people.Brand
	checkout.Session

	Suspended bool // the merchant's payments are suspended
}

// readSession reads a session, then its transactions and, if asked, its payout.
func (s *SessionReader) readSession(
	ctx context.Context, payout bool, where string, args ...any,
) (brandedSession, error) {
	row, err := s.readSessionOnce(ctx, payout, where, "", args...)
	if err == nil && row.Status == checkout.StatusExpired && row.EndedAt == nil {
		// The time is over, but the workflow has not ended the session. An accepted payment may
		// hold the row's lock right now: wait for it.
		row, err = s.readSessionOnce(ctx, payout, where, " FOR SHARE", args...)
	}
	return row, err
}

func (s *SessionReader) readSessionOnce(
	ctx context.Context, payout bool, where, lock string, args ...any,
) (row brandedSession, err error) {
	row, err = pg.One[brandedSession](ctx, s.pool, `
		SELECT s.*, `+paymentsSuspended+` AS suspended, `+people.BrandColumns+`
		FROM (SELECT `+sessionColumns+` FROM checkout_session WHERE `+where+lock+`) s
			JOIN merchant m ON m.id = s.merchant_id`, args...)
	if err != nil {
		return row, pg.Wrap("read session", err)
	}
	one := []checkout.Session{row.Session}
	err = s.readPayments(ctx, one, payout)
	row.Session = one[0]
	row.Session.Suspended = row.Suspended
	return row, err
}

// readPayments fills in the transactions and, if asked, the payouts of sessions, in one round trip. A session that was
// not tried has none.
func (s *SessionReader) readPayments(ctx context.Context, sessions []checkout.Session, withPayouts bool) error {
	var ids []string
	byID := map[string]*checkout.Session{}
	for i := range sessions {
		if sessions[i].Attempts > 0 {
			ids, byID[sessions[i].ID] = append(ids, sessions[i].ID), &sessions[i]
		}
	}
	var of string
	var arg any
	switch len(ids) {
	case 0:
		return nil
	case 1: // PostgreSQL's plan for a list of unknown length may read whole tables
		of, arg = `= $1`, ids[0]
	default:
		of, arg = `= ANY ($1)`, ids
	}

	var (
		batch        pgx.Batch
		transactions []checkout.Transaction
		payouts      []checkout.Payout
	)
	pg.Queue(&batch, &transactions, `SELECT `+transactionColumns+transactionJoin+`
		WHERE t.session_id `+of+` AND `+decided+`
		ORDER BY t.attempt`, arg)
	if withPayouts {
		pg.Queue(&batch, &payouts, `
			SELECT `+payoutColumns+payoutJoin+` WHERE p.session_id `+of, arg)
	}
	err := s.pool.SendBatch(ctx, &batch).Close() // fills both
	for _, t := range transactions {
		session := byID[t.SessionID]
		session.Transactions = append(session.Transactions, t)
	}
	for _, p := range payouts {
		byID[p.SessionID].Payout = &p
	}
	return pg.Wrap("payments of sessions", err)
}

// Expiry asks to end a session without a payment.
type Expiry struct {
	At    time.Time // expires_at of the session
	Early bool      // true: somebody asked for it; false: PostgreSQL's clock must say that the time is over
	Now   time.Time // zero means PostgreSQL's clock; workflow tests set it because they skip time
}

// Expired is the state of a session after ExpireSession. A session that is still pending has a
// payment in flight, which must be decided first, or time left. Histories hold it.
type Expired struct {
	Status   checkout.Status `json:"status,omitempty"`
	InFlight string          `json:"in_flight,omitempty"` // id of the payment in flight
	Left     time.Duration   `json:"left,omitempty"`      // by PostgreSQL's clock
}

// ExpireSession ends a pending session that has no payment in flight, when its time is over or x.Early is set. It
// returns the state of the session, so a repeat changes nothing. If expires_at differs from x.At, the row belongs to a
// retried creation; ErrNotFound is returned. It returns checkout.ErrNotFound for an unknown session too.
func (s *Sessions) ExpireSession(ctx context.Context, ref checkout.Ref, x Expiry) (Expired, error) {
	return pg.InTx(ctx, s.pool, "expire session", func(tx pgx.Tx) (got Expired, err error) {
		var inFlight bool
		err = tx.QueryRow(ctx, `
			SELECT status, payment_in_flight,
				CASE WHEN $5 THEN interval '0' ELSE expires_at - coalesce($6::timestamptz, clock_timestamp()) END
			FROM checkout_session WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND expires_at = $4 FOR NO KEY UPDATE`,
			ref.ID, ref.MerchantID, ref.Mode, x.At, x.Early, orNull(x.Now)).Scan(&got.Status, &inFlight, &got.Left)
		got.Left = max(0, got.Left)
		switch {
		case err != nil:
			return got, pg.Found(err)
		case got.Status != checkout.StatusPending:
			got.Left = 0
			return got, nil
		case inFlight:
			err = tx.QueryRow(ctx, `
				SELECT id FROM transaction WHERE session_id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'processing'`,
				ref.ID, ref.MerchantID, ref.Mode).Scan(&got.InFlight)
			return got, err
		case got.Left > 0:
			return got, nil
		}

		got.Status = checkout.StatusExpired
		_, err = tx.Exec(ctx, `
			WITH untried AS (
				UPDATE transaction SET card_token = NULL
				WHERE session_id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'created' AND card_token IS NOT NULL)
			UPDATE checkout_session SET status = 'expired', ended_at = date_trunc('milliseconds', clock_timestamp())
			WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'`, ref.ID, ref.MerchantID, ref.Mode)
		return got, err
	})
}
