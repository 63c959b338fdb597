package storage

import (
	"context"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
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
	Language      string // of the page, a BCP 47 tag; "" when nobody knows
	Address       string // of the customer: see DeclineRates
	// Acquirer is the network that CardToken is of, and ChainRef the chain of the payout.
	Acquirer checkout.Acquirer
	ChainRef string
}

// CreatePayment stores a payment that a customer asks for. It charges nothing and changes no session; the workflow may
// still refuse the payment. The customer has no API key, so the query takes the merchant and mode from the session. It
// returns checkout.ErrNotPending when the session cannot be paid, *SlowedError when the customer's address must wait,
// and checkout.ErrPaymentExists when the id is taken: the browser sent the form twice.
func (s *Sessions) CreatePayment(ctx context.Context, p NewPayment) error {
	tag, err := s.pool.Exec(ctx, `
		INSERT INTO transaction (id, session_id, merchant_id, mode, status, customer_email,
			card_token, payment_method, acquirer, chain_ref, language, created_at)
		SELECT $1, id, merchant_id, mode, 'created', $3, $4, $5, $6, $7, nullif($8, ''),
			date_trunc('milliseconds', clock_timestamp())
		FROM checkout_session s WHERE id = $2 AND `+mayBePaid+` AND coalesce(`+declineWait("$9")+`, 0) <= 0`,
		p.ID, p.SessionID, p.CustomerEmail, p.CardToken, p.Method, p.Acquirer, p.ChainRef, p.Language, p.Address)
	if pg.Violates(err, "transaction_pkey") {
		return checkout.ErrPaymentExists
	}
	if err == nil && tag.RowsAffected() == 0 {
		err = s.whyNotCreated(ctx, p)
	}
	return pg.Wrap("create payment", err)
}

// mayBePaid selects a session s of which a payment may begin.
const mayBePaid = `s.status = 'pending' AND s.expires_at > clock_timestamp()
	AND NOT (SELECT ` + paymentsSuspended + ` FROM merchant m WHERE m.id = s.merchant_id)`

// DropPayment deletes a payment that the workflow refused, and with it the card's token. An accepted payment stays.
func (s *Sessions) DropPayment(ctx context.Context, sessionID, id string) error {
	return pg.Exec(ctx, s.pool, "drop payment", `
		DELETE FROM transaction WHERE id = $1 AND session_id = $2 AND status = 'created'`, id, sessionID)
}

// ForgetCardTokens removes up to limit tokens of cards whose payment has not begun and cannot begin, because its
// session has ended. It works for all merchants. It returns their number; 0 means that none is left.
func (s *Installation) ForgetCardTokens(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, `
		UPDATE transaction SET card_token = NULL WHERE id IN (`+uselessCards+` LIMIT $1 FOR UPDATE OF t SKIP LOCKED)`, limit)
	return int(tag.RowsAffected()), pg.Wrap("forget card tokens", err)
}

const uselessCards = `
	SELECT t.id FROM transaction t JOIN checkout_session s ON s.id = t.session_id
	WHERE t.status = 'created' AND t.card_token IS NOT NULL AND s.status <> 'pending' ORDER BY t.id`

// HasPayment reports whether the session has a payment with this id, in any state. The customer has
// no key: see CustomerSession.
func (s *SessionReader) HasPayment(ctx context.Context, sessionID, id string) (bool, error) {
	there, err := pg.Value[bool](ctx, s.pool, `
		SELECT EXISTS (SELECT FROM transaction WHERE id = $1 AND session_id = $2)`, id, sessionID)
	return there, pg.Wrap("find payment", err)
}

// PaymentInFlight is what a customer's page needs of a payment in flight.
type PaymentInFlight struct {
	ID        string // txn_…; "" when no payment is in flight
	Acquirer  checkout.Acquirer
	ActionURL string // where the customer confirms it (3-D Secure); "" when nothing needs confirming
}

// PaymentInFlight returns the session's payment in flight, the zero value when there is none. The
// customer has no key: see CustomerSession.
func (s *SessionReader) PaymentInFlight(ctx context.Context, sessionID string) (PaymentInFlight, error) {
	p, err := pg.One[PaymentInFlight](ctx, s.pool, `
		SELECT t.id, t.acquirer, coalesce(t.action_url, '') AS action_url FROM transaction t
		WHERE t.session_id = $1 AND t.status = 'processing'`, sessionID)
	return p, pg.Wrap("payment in flight", pg.Optional(err))
}

// Charge is what the card network must know about a payment, and what was stored about its charge.
type Charge struct {
	checkout.ChargeRequest

	PayoutCurrency money.PayoutCurrency
	Fee            merchant.Fee // of the merchant's present plan
	Reference      string       // the network's name of the charge; "" before BeginPayment
	Confirms       int          // the number of the last confirmation that was sent or was about to be
	ActionURL      string       // where the customer confirms (3-D Secure); "" when nothing needs confirming
	Acquirer       checkout.Acquirer
	ChainRef       string
}

// Began reports whether BeginPayment has accepted the payment.
func (c Charge) Began() bool { return c.Attempt > 0 }

// Charge returns a payment's charge, without ReturnURL. It returns checkout.ErrNotFound.
func (s *Sessions) Charge(ctx context.Context, ref checkout.Ref, transactionID string) (Charge, error) {
	c := Charge{ChargeRequest: checkout.ChargeRequest{TransactionID: transactionID, SessionID: ref.ID}}
	err := s.pool.QueryRow(ctx, `
		SELECT s.amount, s.currency, s.payout_currency, m.fee_basis_points, m.fee_fixed, coalesce(t.attempt, 0),
			coalesce(t.card_token, ''), coalesce(t.acquirer_ref, ''), t.confirms,
			coalesce(t.action_url, ''), t.acquirer, t.chain_ref
		FROM checkout_session s JOIN transaction t ON t.session_id = s.id AND t.id = $4
			JOIN merchant m ON m.id = s.merchant_id
		WHERE s.id = $1 AND s.merchant_id = $2 AND s.mode = $3`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID).Scan(
		&c.Amount, &c.Currency, &c.PayoutCurrency, &c.Fee.BasisPoints, &c.Fee.Fixed, &c.Attempt, &c.Token,
		&c.Reference, &c.Confirms, &c.ActionURL, &c.Acquirer, &c.ChainRef)
	return c, pg.Wrap("charge", pg.Found(err))
}

// BeginPayment marks the payment as in flight. It stores the exchange rate, the network's name of the charge and the
// first confirmation, which the caller sends next. This is the last check of the session's time: afterwards the session
// does not expire until the payment is decided. A repeat keeps what the first call stored and returns first = false;
// the caller must then ask the network before it confirms again.
//
// It returns checkout.ErrNotPending when the session has ended or its time is over, checkout.ErrPaymentInFlight when
// another payment is in flight, checkout.ErrMerchantSuspended when payments are suspended, and checkout.ErrNotFound
// when the payment does not exist or was given up before it began.
func (s *Sessions) BeginPayment(
	ctx context.Context, ref checkout.Ref, transactionID string, rate checkout.Quote, reference string,
) (first bool, err error) {
	// One statement locks the session, then reads the clock: a reader that later sees the time over must also see
	// this payment. It locks the payment too: DropPayment may delete it at this moment. After a wait, answer is of both
	// rows as they are then, because a query that locks a row reads it again when it has changed. Of the
	// merchant it reads whether payments were suspended when the statement began.
	answer, err := pg.Value[beginAnswer](ctx, s.pool, `
		WITH session AS (
			SELECT status, payment_in_flight, expires_at, attempts
			FROM checkout_session WHERE id = $1 AND merchant_id = $2 AND mode = $3 FOR NO KEY UPDATE
		), payment AS (
			SELECT s.attempts + 1 AS attempt, CASE
				WHEN t.attempt > 0 THEN 'begun'
				WHEN t.outcome IS NOT NULL THEN 'given up' -- GiveUpPayment was faster: this call was believed dead
				WHEN s.status <> 'pending' THEN 'not pending'
				WHEN s.payment_in_flight THEN 'in flight'
				WHEN s.expires_at <= clock_timestamp() THEN 'not pending'
				WHEN (SELECT `+paymentsSuspended+` FROM merchant m WHERE m.id = $2) THEN 'suspended'
				ELSE 'begins' END AS answer
			FROM session s CROSS JOIN transaction t WHERE t.id = $4 AND t.session_id = $1 FOR NO KEY UPDATE OF t
		), in_flight AS (
			UPDATE checkout_session SET payment_in_flight = true, attempts = payment.attempt
			FROM payment WHERE id = $1 AND answer = 'begins'
		), begins AS (
			UPDATE transaction SET status = 'processing', attempt = payment.attempt, acquirer_ref = $5, confirms = 1,
				exchange_rate = $6, rate_at = $7, rate_sources = $8, rate_until = $9
			FROM payment WHERE id = $4 AND answer = 'begins'
		)
		SELECT answer FROM payment`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID, reference,
		rate.Rate, orNull(rate.At), sourceRates(rate.Sources), orNull(rate.Until))
	if err == nil {
		err = answer.err()
	}
	return answer == paymentBegins, pg.Wrap("begin payment", err)
}

// beginAnswer is what BeginPayment found.
type beginAnswer string

const (
	paymentBegins beginAnswer = "begins"
	paymentBegun  beginAnswer = "begun" // in an earlier call
)

func (a beginAnswer) err() error {
	switch a {
	case paymentBegins, paymentBegun:
		return nil
	case "not pending":
		return checkout.ErrNotPending
	case "in flight":
		return checkout.ErrPaymentInFlight
	case "suspended":
		return checkout.ErrMerchantSuspended
	}
	return checkout.ErrNotFound
}

// sourceRates returns nil, an SQL null, when there is none.
func sourceRates(all []checkout.SourceRate) any {
	if len(all) == 0 {
		return nil
	}
	return all
}

// BeginConfirm notes the next confirmation of a payment in flight, and the rate at which the confirmed payment is paid
// out. The caller sends the confirmation next. BeginConfirm returns false when the number is not the next one or the
// payment has a final answer: another process was faster, and the caller must ask the network again.
func (s *Sessions) BeginConfirm(
	ctx context.Context, ref checkout.Ref, transactionID string, number int, rate checkout.Quote,
) (bool, error) {
	tag, err := s.pool.Exec(ctx, `
		UPDATE transaction SET confirms = $5, exchange_rate = $6, rate_at = $7, rate_sources = $8, rate_until = $9
		WHERE id = $4 AND session_id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'processing'
			AND confirms = $5 - 1 AND coalesce(outcome, '') NOT IN ('succeeded', 'failed')`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID, number, rate.Rate, orNull(rate.At), sourceRates(rate.Sources),
		orNull(rate.Until))
	return tag.RowsAffected() == 1, pg.Wrap("begin confirmation", err)
}

// GiveUpPayment makes sure that a payment without a charge never gets one. It stores the failure,
// and BeginPayment then refuses the payment. It returns false when the payment has begun meanwhile:
// only the network can give it up then. It returns checkout.ErrNotFound.
func (s *Sessions) GiveUpPayment(
	ctx context.Context, ref checkout.Ref, transactionID string, reason checkout.FailureCode,
) (bool, error) {
	tag, err := s.pool.Exec(ctx, `
		UPDATE transaction SET outcome = 'failed', failure = $5, card_token = NULL
		WHERE id = $4 AND session_id = $1 AND merchant_id = $2 AND mode = $3 AND acquirer_ref IS NULL AND status = 'created'`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID, reason)
	if err != nil {
		return false, pg.Wrap("give payment up", err)
	}
	if tag.RowsAffected() == 1 {
		return true, nil
	}
	_, err = s.Charge(ctx, ref, transactionID)
	return false, err
}

// RecordCharge stores the card network's answer about an undecided payment and returns the answer that counts. The
// first final answer counts: a late answer, from a call that was believed dead, changes nothing. When the network gives
// up a charge that never reached it, it names no card; then the tokenized card stays. RecordCharge decides nothing: see
// FinishPayment. It returns checkout.ErrNotFound.
func (s *Sessions) RecordCharge(
	ctx context.Context, ref checkout.Ref, transactionID string, result checkout.ChargeResult,
) (checkout.PaymentOutcome, checkout.FailureCode, error) {
	tag, err := s.pool.Exec(ctx, `
		UPDATE transaction SET outcome = $5, failure = $6, action_url = nullif($7, ''),
		       payment_method = CASE WHEN $9 THEN $8 ELSE payment_method END
		WHERE id = $4 AND session_id = $1 AND merchant_id = $2 AND mode = $3
			AND status IN ('created', 'processing') AND coalesce(outcome, '') NOT IN ('succeeded', 'failed')`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID, result.Outcome, result.Failure,
		result.ActionURL, result.Method, result.Method.Last4 != "")
	if err != nil || tag.RowsAffected() == 1 {
		return result.Outcome, result.Failure, pg.Wrap("record charge", err)
	}
	var (
		outcome checkout.PaymentOutcome
		failure checkout.FailureCode
	)
	err = s.pool.QueryRow(ctx, `
		SELECT coalesce(outcome, ''), failure FROM transaction
		WHERE id = $4 AND session_id = $1 AND merchant_id = $2 AND mode = $3`,
		ref.ID, ref.MerchantID, ref.Mode, transactionID).Scan(&outcome, &failure)
	return outcome, failure, pg.Wrap("record charge", pg.Found(err))
}

// decided is true for a transaction t that merchants see.
const decided = `t.status IN ('succeeded', 'failed')`

// TransactionFilter selects decided transactions. An empty field selects all.
type TransactionFilter struct {
	Status    checkout.TransactionStatus
	SessionID string
}

// Transactions lists decided transactions, newest first.
func (s *SessionReader) Transactions(
	ctx context.Context, owner checkout.Owner, f TransactionFilter, p pg.Page,
) ([]checkout.Transaction, error) {
	q := pg.NewList(owner, "t")
	q.Where(decided)
	q.Equal("t.status", string(f.Status))
	q.Equal("t.session_id", f.SessionID)
	q.Page(checkout.PrefixTransaction, "t", p)
	got, err := pg.Collect[checkout.Transaction](ctx, s.pool,
		`SELECT `+transactionColumns+transactionJoin+` `+q.SQL, q.Args...)
	return got, pg.Wrap("transactions", err)
}

// Transaction returns a decided transaction. It returns checkout.ErrNotFound.
func (s *SessionReader) Transaction(ctx context.Context, ref checkout.Ref) (checkout.Transaction, error) {
	got, err := pg.One[checkout.Transaction](ctx, s.pool, `
		SELECT `+transactionColumns+transactionJoin+`
		WHERE t.id = $1 AND t.merchant_id = $2 AND t.mode = $3 AND `+decided, ref.ID, ref.MerchantID, ref.Mode)
	return got, pg.Wrap("transaction", err)
}
