package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// transactionColumns and transactionJoin read a checkout.Transaction.
const (
	transactionColumns = `
		t.id, t.session_id, t.merchant_id, t.mode, t.status, s.amount, s.currency, s.payout_currency,
		t.fee, t.net, t.exchange_rate, t.customer_email, s.metadata, t.payment_method, t.failure,
		coalesce(t.attempt, 0) AS attempt, t.attempts_remaining, t.session_status, t.created_at,
		t.completed_at`
	transactionJoin = `
		FROM transaction t JOIN checkout_session s ON s.id = t.session_id
			AND s.merchant_id = t.merchant_id AND s.mode = t.mode`
)

// NewPayment is a payment that the session's workflow has not accepted yet.
type NewPayment struct {
	ID            string // txn_…
	SessionID     string
	CardToken     string
	Method        checkout.PaymentMethod
	CustomerEmail *string
}

// CreatePayment stores a payment that a customer asks for. It charges nothing and changes no
// session; the workflow may still refuse the payment. The customer has no API key, so the query
// takes the merchant and mode from the session. It returns checkout.ErrNotPending when the session
// can no longer be paid, and checkout.ErrPaymentExists when the id is taken: the browser sent the
// form twice.
func (s *Store) CreatePayment(ctx context.Context, p NewPayment) error {
	tag, err := s.pool.Exec(ctx, `
		INSERT INTO transaction (id, session_id, merchant_id, mode, status, customer_email,
			card_token, payment_method, created_at)
		SELECT $1, id, merchant_id, mode, 'created', $3, $4, $5,
			date_trunc('milliseconds', clock_timestamp())
		FROM checkout_session WHERE id = $2 AND status = 'pending'
			AND expires_at > clock_timestamp()`,
		p.ID, p.SessionID, p.CustomerEmail, p.CardToken, p.Method)
	if violates(err, "transaction_pkey") {
		return checkout.ErrPaymentExists
	}
	if err != nil {
		return fmt.Errorf("create payment: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return checkout.ErrNotPending
	}
	return nil
}

// DropPayment deletes a payment that the workflow refused, and with it the card's token. An
// accepted payment stays.
func (s *Store) DropPayment(ctx context.Context, sessionID, id string) error {
	_, err := s.pool.Exec(ctx, `
		DELETE FROM transaction WHERE id = $1 AND session_id = $2 AND status = 'created'`,
		id, sessionID)
	if err != nil {
		return fmt.Errorf("drop payment: %w", err)
	}
	return nil
}

// HasPayment reports whether the session has a payment with this id, in any state. The customer has
// no key: see CustomerSession.
func (s *Store) HasPayment(ctx context.Context, sessionID, id string) (bool, error) {
	var there bool
	err := s.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM transaction WHERE id = $1 AND session_id = $2)`,
		id, sessionID).Scan(&there)
	if err != nil {
		return false, fmt.Errorf("find payment: %w", err)
	}
	return there, nil
}

// PaymentAction returns the id of the payment in flight and the URL where the customer confirms it
// (3-D Secure). The URL is "" when nothing needs confirming; both are "" when no payment is in
// flight. The customer has no key: see CustomerSession.
func (s *Store) PaymentAction(
	ctx context.Context, sessionID string,
) (transactionID, actionURL string, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT id, coalesce(action_url, '') FROM transaction
		WHERE session_id = $1 AND status = 'processing'`,
		sessionID).Scan(&transactionID, &actionURL)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("payment action: %w", err)
	}
	return transactionID, actionURL, nil
}

// PaymentCurrencies returns the currency of a payment and the currency of its payout. It returns
// checkout.ErrNotFound.
func (s *Store) PaymentCurrencies(
	ctx context.Context, ref checkout.Ref, transactionID string,
) (from checkout.Currency, to checkout.PayoutCurrency, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT s.currency, s.payout_currency FROM checkout_session s
		JOIN transaction t ON t.session_id = s.id AND t.id = $4
		WHERE s.id = $1 AND s.merchant_id = $2 AND s.mode = $3`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID).Scan(&from, &to)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", checkout.ErrNotFound
	}
	if err != nil {
		return "", "", fmt.Errorf("payment currencies: %w", err)
	}
	return from, to, nil
}

// BeginPayment marks the payment as in flight, locks its exchange rate and returns the charge to
// make, without ReturnURL. The rate is the payout currency for one unit of the payment's currency,
// a decimal. This is the last check of the session's time: afterwards the session does not expire
// until the payment is decided. A repeat returns the same charge and keeps the first rate.
//
// It returns checkout.ErrNotPending when the session has ended or its time is over,
// checkout.ErrPaymentInFlight when another payment is in flight, and checkout.ErrNotFound when the
// payment does not exist or was given up before it began.
func (s *Store) BeginPayment(
	ctx context.Context, ref checkout.Ref, transactionID, rate string,
) (checkout.ChargeRequest, error) {
	req := checkout.ChargeRequest{TransactionID: transactionID, SessionID: ref.ID}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		// Lock first, then read the clock: a reader that later sees the time over must also see
		// this payment. Lock the payment too: DropPayment may delete it at this moment.
		var (
			status   checkout.Status
			inFlight bool
			inTime   bool
			answered bool
			attempts int
		)

		err := tx.QueryRow(ctx, `
			WITH locked AS (
				SELECT id, status, payment_in_flight, expires_at, attempts, amount, currency
				FROM checkout_session WHERE id = $1 AND merchant_id = $2 AND mode = $3 FOR NO KEY UPDATE)
			SELECT l.status, l.payment_in_flight, l.expires_at > clock_timestamp(), l.attempts,
				l.amount, l.currency,
			       coalesce(t.attempt, 0), coalesce(t.card_token, ''), t.outcome IS NOT NULL
			FROM locked l JOIN transaction t ON t.session_id = l.id AND t.id = $4
			FOR NO KEY UPDATE OF t`,
			ref.ID, ref.MerchantID, ref.Mode, transactionID).Scan(
			&status, &inFlight, &inTime, &attempts, &req.Amount, &req.Currency,
			&req.Attempt, &req.Token, &answered)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return checkout.ErrNotFound
		case err != nil:
			return err
		case req.Attempt > 0: // the payment began in an earlier call
			return nil
		case answered: // CancelPayment gave it up: this call was believed dead
			return checkout.ErrNotFound
		case status != checkout.StatusPending:
			return checkout.ErrNotPending
		case inFlight:
			return checkout.ErrPaymentInFlight
		case !inTime:
			return checkout.ErrNotPending
		}

		req.Attempt = attempts + 1
		_, err = tx.Exec(ctx, `
			WITH session AS (UPDATE checkout_session SET payment_in_flight = true, attempts = $4
			                 WHERE id = $1 AND merchant_id = $2 AND mode = $3
			                   AND status = 'pending')
			UPDATE transaction SET status = 'processing', attempt = $4, exchange_rate = $6
			WHERE id = $5 AND session_id = $1 AND merchant_id = $2 AND mode = $3
				AND status = 'created'`,
			ref.ID, ref.MerchantID, ref.Mode, req.Attempt, transactionID, rate)
		return err
	})
	if err != nil {
		return checkout.ChargeRequest{}, fmt.Errorf("begin payment: %w", err)
	}
	return req, nil
}

// RecordCharge stores the card network's answer about an undecided payment and returns the answer
// that counts. The first final answer counts: a late answer, from a call that was believed dead,
// changes nothing. When the network gives up a charge that never reached it, it names no card; then
// the tokenized card stays. RecordCharge decides nothing: see FinishPayment. It returns
// checkout.ErrNotFound.
func (s *Store) RecordCharge(
	ctx context.Context, ref checkout.Ref, transactionID string, result checkout.ChargeResult,
) (checkout.PaymentOutcome, checkout.FailureCode, error) {
	tag, err := s.pool.Exec(ctx, `
		UPDATE transaction SET outcome = $5, failure = $6, action_url = nullif($7, ''),
		       payment_method = CASE WHEN $9 THEN $8 ELSE payment_method END
		WHERE id = $4 AND session_id = $1 AND merchant_id = $2 AND mode = $3
			AND status IN ('created', 'processing')
		  AND coalesce(outcome, '') NOT IN ('succeeded', 'failed')`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID, result.Outcome, result.Failure,
		result.ActionURL, result.Method, result.Method.Last4 != "")
	if err != nil {
		return "", "", fmt.Errorf("record charge: %w", err)
	}

	if tag.RowsAffected() == 1 {
		return result.Outcome, result.Failure, nil
	}

	var (
		outcome checkout.PaymentOutcome
		failure checkout.FailureCode
	)

	err = s.pool.QueryRow(ctx, `
		SELECT coalesce(outcome, ''), failure FROM transaction
		WHERE id = $4 AND session_id = $1 AND merchant_id = $2 AND mode = $3`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID).Scan(&outcome, &failure)
	if errors.Is(err, pgx.ErrNoRows) {
		err = checkout.ErrNotFound
	}
	if err != nil {
		return "", "", fmt.Errorf("record charge: %w", err)
	}
	return outcome, failure, nil
}
