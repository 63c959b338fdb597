package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Settlement lists the runs that the workflow must start after a decision.
type Settlement struct {
	Status     checkout.Status // of the session
	EventType  webhook.EventType
	Deliveries []webhook.Dispatch // ordered by id
	PayoutID   string             // "" unless the session was completed
}

// FinishPayment decides the payment by the outcome that RecordCharge stored. One transaction writes
// the transaction, the session (completed, failed, or pending for another try), the event, its
// deliveries and the payout. A repeat changes nothing and returns the same settlement, even while
// the first call is committing. A payment that never began is not decided, and its settlement
// starts nothing.
//
// It returns checkout.ErrNotFound, checkout.ErrPaymentUndecided when no final outcome is stored,
// and checkout.ErrNotPending when the session ended without this payment.
func (s *Store) FinishPayment(
	ctx context.Context, ref checkout.Ref, transactionID string,
) (Settlement, error) {
	var got Settlement
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		p, err := lockPayment(ctx, tx, ref, transactionID)
		if err != nil {
			return err
		}
		switch p.Status {
		case checkout.TransactionCreated:
			got = Settlement{Status: p.CurrentStatus}
		case checkout.TransactionProcessing:
			got, err = p.decide(ctx, tx)
		default:
			got, err = p.settled(ctx, tx)
		}
		return err
	})
	if err != nil {
		return Settlement{}, fmt.Errorf("finish payment: %w", err)
	}
	return got, nil
}

// payment is a transaction with the columns of its session and merchant that its decision needs.
type payment struct {
	checkout.Transaction
	Outcome         checkout.PaymentOutcome
	Now             time.Time
	CurrentStatus   checkout.Status // of the session
	MaxAttempts     int
	WebhookURL      *string
	SigningEndpoint *string
	Plan            string
	Receipts        bool // the merchant wants receipts by mail
	FeeBasisPoints  int64
	FeeFixed        checkout.Amount
	Acquirer        checkout.Acquirer
	ChainRef        string
}

// chosenFee returns the price by the plan that the merchant has at the decision.
func (p *payment) chosenFee() checkout.Fee {
	return checkout.Fee{BasisPoints: p.FeeBasisPoints, Fixed: p.FeeFixed}
}

// real reports whether a network outside the service takes part in the payment. The ledger has only
// such payments.
func (p *payment) real() bool {
	return p.Acquirer != checkout.AcquirerSandbox || p.ChainRef != checkout.ChainSandbox
}

// lockPayment locks the session, then the payment. A second statement reads both after the session
// is locked: a single statement that waits for one row would read the other rows as they were
// before the wait.
func lockPayment(
	ctx context.Context, tx pgx.Tx, ref checkout.Ref, transactionID string,
) (payment, error) {
	_, err := tx.Exec(ctx, `
		SELECT FROM checkout_session WHERE id = $1 AND merchant_id = $2 AND mode = $3
		FOR NO KEY UPDATE`,
		ref.ID, ref.MerchantID, ref.Mode)
	if err != nil {
		return payment{}, err
	}

	rows, err := tx.Query(ctx, `
		SELECT `+transactionColumns+`, coalesce(t.outcome, '') AS outcome,
		       date_trunc('milliseconds', clock_timestamp()) AS now,
		       s.status AS current_status, s.max_attempts, s.webhook_url,
		       s.signing_endpoint_id AS signing_endpoint, m.plan, m.receipts, m.fee_basis_points, m.fee_fixed,
		       `+acquirerOf+` AS acquirer, `+chainOf+` AS chain_ref`+
		transactionJoin+` JOIN merchant m ON m.id = t.merchant_id
		WHERE t.id = $4 AND t.session_id = $1 AND t.merchant_id = $2 AND t.mode = $3
		FOR NO KEY UPDATE OF t`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID)
	if err != nil {
		return payment{}, err
	}

	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[payment])
	if errors.Is(err, pgx.ErrNoRows) {
		return payment{}, checkout.ErrNotFound
	}
	return p, err
}

// decide applies the outcome to the transaction, the session, the event and the payout.
func (p *payment) decide(ctx context.Context, tx pgx.Tx) (Settlement, error) {
	if p.CurrentStatus != checkout.StatusPending {
		return Settlement{}, checkout.ErrNotPending
	}
	switch {
	case p.Outcome == checkout.OutcomeSucceeded:
		p.Transaction.Status, p.SessionStatus = checkout.TransactionSucceeded,
			checkout.StatusCompleted
		p.Fee = p.chosenFee().Of(p.Amount)
		p.Net = p.Amount - p.Fee
	case p.Outcome == checkout.OutcomeFailed:
		p.Transaction.Status, p.SessionStatus = checkout.TransactionFailed, checkout.StatusPending
		p.ExchangeRate = checkout.Rate{}
		p.AttemptsRemaining = max(0, p.MaxAttempts-p.Attempt)
		if p.Failure.EndsSession() || p.AttemptsRemaining == 0 {
			p.AttemptsRemaining, p.SessionStatus = 0, checkout.StatusFailed
		}
	default:
		return Settlement{}, checkout.ErrPaymentUndecided
	}

	p.CompletedAt = &p.Now
	if err := p.write(ctx, tx); err != nil {
		return Settlement{}, err
	}

	got := Settlement{Status: p.SessionStatus, EventType: p.eventType()}
	if p.SessionStatus == checkout.StatusCompleted {
		got.PayoutID = checkout.NewID(checkout.PrefixPayout)
		if err := p.insertPayout(ctx, tx, got.PayoutID); err != nil {
			return Settlement{}, err
		}
		if err := p.mailReceipt(ctx, tx); err != nil {
			return Settlement{}, err
		}
	}
	if p.real() && p.Transaction.Status == checkout.TransactionSucceeded {
		if err := bookCharge(ctx, tx, p.Transaction); err != nil {
			return Settlement{}, err
		}
	}

	var err error
	got.Deliveries, err = publish(ctx, tx, publication{
		Ref: checkout.Ref{Owner: p.Owner}, Type: got.EventType, SubjectID: p.ID,
		SessionID: p.SessionID, Data: p.Transaction,
		At: p.Now, WebhookURL: p.WebhookURL, SigningEndpoint: p.SigningEndpoint,
	})
	return got, err
}

func (p *payment) eventType() webhook.EventType {
	if p.Transaction.Status == checkout.TransactionSucceeded {
		return webhook.CheckoutCompleted
	}
	return webhook.CheckoutFailed
}

// write stores the decision. The session's new status is a compare-and-set. When the session ends, its other
// payments cannot begin any more.
func (p *payment) write(ctx context.Context, tx pgx.Tx) error {
	tag, err := tx.Exec(ctx, `
		WITH decided AS (
			UPDATE transaction SET status = $5, fee = $6, net = $7, exchange_rate = $8,
				attempts_remaining = $9,
			       session_status = $10, completed_at = $11, card_token = NULL, action_url = NULL,
				plan = $12, fee_basis_points = $13, fee_fixed = $14
			WHERE id = $4 AND session_id = $1 AND merchant_id = $2 AND mode = $3
				AND status = 'processing'),
		untried AS (
			UPDATE transaction SET card_token = NULL
			WHERE session_id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'created'
				AND card_token IS NOT NULL AND $10 <> 'pending')
		UPDATE checkout_session SET status = $10, payment_in_flight = false,
		       ended_at = CASE WHEN $10 = 'pending' THEN NULL ELSE $11::timestamptz END
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'`,
		p.SessionID, p.MerchantID, p.Mode, p.ID, p.Transaction.Status, p.Fee, p.Net, p.ExchangeRate,
		p.AttemptsRemaining,
		p.SessionStatus, p.Now, p.Plan, p.FeeBasisPoints, p.FeeFixed)
	if err == nil && tag.RowsAffected() != 1 {
		err = checkout.ErrNotPending
	}
	return err
}

// insertPayout creates the pending payout. A merchant without a payout address gets a payout with
// an empty one; the network refuses it, and payout.failed tells the merchant.
func (p *payment) insertPayout(ctx context.Context, tx pgx.Tx, id string) error {
	if err := lockAnnounced(ctx, tx, p.Owner, p.PayoutCurrency); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO payout (id, session_id, transaction_id, merchant_id, mode, status, currency,
			network, destination,
			source_amount, source_currency, exchange_rate, created_at)
		SELECT $1, $2, $3, $4, $5, 'pending', $6, coalesce(a.network, $7), coalesce(a.address, ''),
			$8, $9, $10, $11
		FROM (SELECT) nothing LEFT JOIN current_payout_address a ON a.merchant_id = $4 AND a.mode = $5
			AND a.currency = $6`,
		id, p.SessionID, p.ID, p.MerchantID, p.Mode, p.PayoutCurrency, p.PayoutCurrency.Network(),
		p.Net, p.Currency, p.ExchangeRate, p.Now)
	return err
}

// settled reads the settlement of an earlier decide.
func (p *payment) settled(ctx context.Context, tx pgx.Tx) (Settlement, error) {
	got := Settlement{Status: p.SessionStatus, EventType: p.eventType()}
	var err error
	if got.Deliveries, err = published(ctx, tx, p.Owner, p.ID, got.EventType, 1); err != nil {
		return Settlement{}, err
	}
	err = tx.QueryRow(ctx, `
		SELECT id FROM payout WHERE transaction_id = $1 AND merchant_id = $2 AND mode = $3`,
		p.ID, p.MerchantID, p.Mode).Scan(&got.PayoutID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Settlement{}, err
	}
	return got, nil
}
