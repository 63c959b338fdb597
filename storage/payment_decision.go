package storage

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// FollowUp lists the runs that the workflow must start after a decision. Histories hold it.
type FollowUp struct {
	Status     checkout.Status    `json:"status,omitempty"` // of the session
	EventType  webhook.EventType  `json:"event_type"`
	Deliveries []webhook.Dispatch `json:"deliveries,omitempty"` // ordered by id
	PayoutID   string             `json:"payout_id,omitempty"`  // "" unless the session was completed
}

// FinishPayment decides the payment by the outcome that RecordCharge stored. One transaction writes the transaction,
// the session (completed, failed, or pending for another try), the event, its deliveries and the payout. A repeat
// changes nothing and returns the same follow-up, even while the first call is committing. A payment that never began
// is not decided, and its follow-up starts nothing.
//
// It returns checkout.ErrNotFound, checkout.ErrPaymentUndecided when no final outcome is stored,
// and checkout.ErrNotPending when the session ended without this payment.
func (s *Sessions) FinishPayment(ctx context.Context, ref checkout.Ref, transactionID string) (FollowUp, error) {
	got, err := s.decidePaymentUnlocked(ctx, ref, transactionID)
	if !errors.Is(err, errOvertaken) {
		return got, pg.Wrap("finish payment", err)
	}
	return pg.InTx(ctx, s.pool, "finish payment", func(tx pgx.Tx) (FollowUp, error) {
		p, err := lockPayment(ctx, tx, ref, transactionID)
		if err != nil {
			return FollowUp{}, err
		}
		switch p.Status {
		case checkout.TransactionCreated:
			return FollowUp{Status: p.CurrentStatus}, nil
		case checkout.TransactionProcessing:
			return p.decidePaymentLocked(ctx, tx)
		}
		return p.earlierFollowUp(ctx, tx)
	})
}

// decidePaymentUnlocked reads the payment and decides it in one statement, which does nothing unless the session and
// the payment are as they were read. It returns errOvertaken then, and for a payment that must not be decided, whose
// card network or chain is not the sandbox's, or whose merchant has announced another payout address: those need more
// than one statement.
func (s *Sessions) decidePaymentUnlocked(
	ctx context.Context, ref checkout.Ref, transactionID string,
) (FollowUp, error) {
	p, err := readPayment(ctx, s.pool, ref, transactionID, "")
	if err != nil {
		return FollowUp{}, err
	}
	if p.Status != checkout.TransactionProcessing || !p.Outcome.Final() || p.real() || p.Announced {
		return FollowUp{}, errOvertaken
	}
	return p.decidePayment(ctx, s.pool)
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
	FeeFixed        money.Amount
	// What the merchant's plan keeps of the net, and for how long.
	ReserveBasisPoints int64
	ReserveDays        int
	Acquirer           checkout.Acquirer
	ChainRef           string
	Announced          bool // another payout address of the merchant, for the payout's currency
	// Version and SessionVersion change with every change of the payment's and the session's row.
	Version, SessionVersion string
}

// chosenFee returns the price by the plan that the merchant has at the decision.
func (p *payment) chosenFee() merchant.Fee {
	return merchant.Fee{BasisPoints: p.FeeBasisPoints, Fixed: p.FeeFixed}
}

// real reports whether a network outside the service takes part in the payment: it may have noted risks before.
func (p *payment) real() bool {
	return p.Acquirer != checkout.AcquirerSandbox || p.ChainRef != checkout.ChainSandbox
}

// lockPayment locks the session, then the payment. A second statement reads both after the session is locked: a single
// statement that waits for one row would read the other rows as they were before the wait.
func lockPayment(ctx context.Context, tx pgx.Tx, ref checkout.Ref, transactionID string) (payment, error) {
	_, err := tx.Exec(ctx, `
		SELECT FROM checkout_session WHERE id = $1 AND merchant_id = $2 AND mode = $3
		FOR NO KEY UPDATE`, ref.ID, ref.MerchantID, ref.Mode)
	if err != nil {
		return payment{}, err
	}
	return readPayment(ctx, tx, ref, transactionID, "FOR NO KEY UPDATE OF t")
}

func readPayment(ctx context.Context, from pg.Querier, ref checkout.Ref, transactionID, lock string) (payment, error) {
	return pg.One[payment](ctx, from, `
		SELECT `+transactionColumns+`, coalesce(t.outcome, '') AS outcome,
		       date_trunc('milliseconds', clock_timestamp()) AS now,
		       s.status AS current_status, s.max_attempts, s.webhook_url,
		       s.signing_endpoint_id AS signing_endpoint, m.plan, m.receipts, m.fee_basis_points, m.fee_fixed,
		       m.reserve_basis_points, m.reserve_days,
		       t.acquirer, t.chain_ref,
		       EXISTS (SELECT FROM payout_address a WHERE a.merchant_id = $2 AND a.mode = $3
		           AND a.currency = s.payout_currency AND a.next_at IS NOT NULL) AS announced,
		       t.xmin::text AS version, s.xmin::text AS session_version`+
		transactionJoin+` JOIN merchant m ON m.id = t.merchant_id
		WHERE t.id = $4 AND t.session_id = $1 AND t.merchant_id = $2 AND t.mode = $3 `+lock,
		ref.ID, ref.MerchantID, ref.Mode, transactionID)
}

// decidePaymentLocked is decidePayment, in a transaction that has locked the session and the payment.
func (p *payment) decidePaymentLocked(ctx context.Context, tx pgx.Tx) (FollowUp, error) {
	if p.Outcome != checkout.OutcomeSucceeded {
		return p.decidePayment(ctx, tx)
	}
	if err := lockAnnounced(ctx, tx, p.Owner, p.PayoutCurrency); err != nil {
		return FollowUp{}, err
	}
	got, err := p.decidePayment(ctx, tx)
	if err == nil && p.real() {
		err = bookRisks(ctx, tx, p.Transaction)
	}
	return got, err
}

// decidePayment applies the outcome to the transaction, the session, the event and the payout, in one statement. It
// returns errOvertaken when the session or the payment has changed since p was read; then nothing is stored.
func (p *payment) decidePayment(ctx context.Context, to pg.Querier) (FollowUp, error) {
	if p.CurrentStatus != checkout.StatusPending {
		return FollowUp{}, checkout.ErrNotPending
	}
	switch {
	case p.Outcome == checkout.OutcomeSucceeded:
		p.Transaction.Status, p.SessionStatus = checkout.TransactionSucceeded, checkout.StatusCompleted
		p.Fee = p.chosenFee().Of(p.Amount)
		p.Net = p.Amount - p.Fee
	case p.Outcome == checkout.OutcomeFailed:
		p.Transaction.Status, p.SessionStatus = checkout.TransactionFailed, checkout.StatusPending
		p.ExchangeRate = money.Rate{}
		p.AttemptsRemaining = max(0, p.MaxAttempts-p.Attempt)
		if p.Failure.EndsSession() || p.AttemptsRemaining == 0 {
			p.AttemptsRemaining, p.SessionStatus = 0, checkout.StatusFailed
		}
	default:
		return FollowUp{}, checkout.ErrPaymentUndecided
	}

	p.CompletedAt = &p.Now
	got := FollowUp{Status: p.SessionStatus, EventType: p.eventType()}
	write := p.write()
	if p.SessionStatus == checkout.StatusCompleted {
		got.PayoutID = checkout.NewID(checkout.PrefixPayout)
		p.insertPayout(write, got.PayoutID)
		p.chargeEntry().with(write, "true")
		p.keepReserve(write)
		p.mailReceipt(write)
	}
	var err error
	got.Deliveries, err = publishWith(ctx, to, publication{
		Ref: checkout.Ref{Owner: p.Owner}, Type: got.EventType, SubjectID: p.ID,
		SessionID: p.SessionID, Data: p.Transaction,
		At: p.Now, WebhookURL: p.WebhookURL, SigningEndpoint: p.SigningEndpoint,
	}, *write)
	return got, err
}

func (p *payment) eventType() webhook.EventType {
	if p.Transaction.Status == checkout.TransactionSucceeded {
		return webhook.CheckoutCompleted
	}
	return webhook.CheckoutFailed
}

// write stores the decision. When the session ends, its other payments cannot begin any more.
//
// The session is locked first, then the payment, and both must be as p was read. A query that locks a row reads it
// again when it has waited for it, so no other transaction can be in between.
func (p *payment) write() *decisionSQL {
	return &decisionSQL{sql: `session AS (
			SELECT id FROM checkout_session WHERE id = @session AND merchant_id = @merchant AND mode = @mode
				AND status = 'pending' AND xmin::text = @session_version FOR NO KEY UPDATE
		), decided AS (
			SELECT t.id FROM session s CROSS JOIN transaction t WHERE t.id = @subject AND t.session_id = @session
				AND t.status = 'processing' AND t.xmin::text = @version FOR NO KEY UPDATE OF t
		), payment AS (
			UPDATE transaction SET status = @status, fee = @fee, net = @net, exchange_rate = @rate,
				attempts_remaining = @remaining, session_status = @session_status, completed_at = @at,
				card_token = NULL, action_url = NULL, plan = @plan, fee_basis_points = @basis_points, fee_fixed = @fixed
			FROM decided WHERE transaction.id = @subject
		), untried AS (
			UPDATE transaction SET card_token = NULL FROM decided
			WHERE session_id = @session AND status = 'created' AND card_token IS NOT NULL AND @session_status <> 'pending'
		), ended AS (
			UPDATE checkout_session SET status = @session_status, payment_in_flight = false,
				ended_at = CASE WHEN @session_status = 'pending' THEN NULL ELSE @at::timestamptz END
			FROM decided WHERE checkout_session.id = @session
		)`, args: pgx.NamedArgs{
		"version": p.Version, "session_version": p.SessionVersion, "status": p.Transaction.Status,
		"session_status": p.SessionStatus, "fee": p.Fee, "net": p.Net, "rate": p.ExchangeRate,
		"remaining": p.AttemptsRemaining, "plan": p.Plan, "basis_points": p.FeeBasisPoints, "fixed": p.FeeFixed,
	}}
}

// insertPayout creates the pending payout with the decision. A merchant without a payout address gets a payout with
// an empty one; the network refuses it, and payout.failed tells the merchant.
func (p *payment) insertPayout(with *decisionSQL, id string) {
	with.sql += `, payout AS (
			INSERT INTO payout (id, session_id, transaction_id, merchant_id, mode, status, currency, network, destination,
				source_amount, source_currency, deducted, exchange_rate, created_at)
			SELECT @payout, @session, @subject, @merchant, @mode, 'pending', @payout_currency, coalesce(a.network, @network),
				coalesce(a.address, ''), @net, @currency, @reserved::bigint, @rate, @at
			FROM decided LEFT JOIN current_payout_address a ON a.merchant_id = @merchant AND a.mode = @mode
				AND a.currency = @payout_currency
		)`
	maps.Copy(with.args, pgx.NamedArgs{
		"payout": id, "payout_currency": p.PayoutCurrency, "network": p.PayoutCurrency.Network(), "currency": p.Currency,
		"reserved": p.reserved(),
	})
}

// earlierFollowUp reads the follow-up of an earlier decidePayment.
func (p *payment) earlierFollowUp(ctx context.Context, tx pgx.Tx) (FollowUp, error) {
	got := FollowUp{Status: p.SessionStatus, EventType: p.eventType()}
	var err error
	if got.Deliveries, err = published(ctx, tx, p.Owner, p.ID, got.EventType, 1); err != nil {
		return FollowUp{}, err
	}
	got.PayoutID, err = pg.Value[string](ctx, tx, `
		SELECT id FROM payout WHERE transaction_id = $1 AND merchant_id = $2 AND mode = $3`, p.ID, p.MerchantID, p.Mode)
	return got, pg.Optional(err)
}

// mailReceipt writes a receipt to the customer, with the decision that completes the session. It writes none when the
// merchant wants none. In test mode only the merchant's own people get one, who have joined and so read the address:
// anybody with a test key could otherwise send mails to strangers. The language is the page's, "" when it is unknown.
func (p *payment) mailReceipt(with *decisionSQL) {
	if !p.Receipts || p.CustomerEmail == nil {
		return
	}
	with.sql += `, receipt AS (
			INSERT INTO mail (kind, session_id, detail, next_at)
			SELECT @mail, @session, coalesce(t.language, ''), clock_timestamp()
			FROM decided CROSS JOIN transaction t WHERE t.id = @subject
				AND (t.mode = 'live' OR EXISTS (SELECT FROM member m WHERE m.merchant_id = @merchant
					AND lower(m.email) = lower(@email) AND m.removed_at IS NULL AND m.password_hash IS NOT NULL))
		)`
	with.args["mail"], with.args["email"] = merchant.MailReceipt, *p.CustomerEmail
}
