package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/health"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// Error codes of several errors. The others are in wordsOfKind, wordsOfError and the refusals below. Source:
// api/interface.md, "Errors", and api/decisions/answers.md, "error codes".
const (
	codeInvalidRequest = "invalid_request"
	codeForbidden      = "forbidden"
	codeNotFound       = "not_found"
	codeNotPending     = "session_not_pending"
	codeMediaType      = "unsupported_media_type"
	codeIdempotency    = "idempotency_conflict"
	codeUnavailable    = "unavailable"
)

// errorBody is the JSON of every error answer.
type errorBody struct {
	Error     string          `json:"error"`
	Message   string          `json:"message"`
	Param     string          `json:"param,omitempty"`              // of the first fault
	Errors    []fault         `json:"errors,omitempty"`             // all faults
	Status    checkout.Status `json:"status,omitempty"`             // of the session that is in the way
	Left      *money.Amount   `json:"refundable,omitempty"`         // refund_exceeds_payment
	Missing   *money.Amount   `json:"missing,omitempty"`            // insufficient_balance
	Currency  money.Currency  `json:"currency,omitempty"`           // of these two
	SessionID string          `json:"session_id,omitempty"`         // order_id_in_use
	URL       string          `json:"url,omitempty"`                // order_id_in_use
	ChangesAt string          `json:"address_changes_at,omitempty"` // payout_address_reverted
	Checks    *health.Checks  `json:"checks,omitempty"`             // readyz
	RequestID string          `json:"request_id"`
}

// refusal is an error with a text for the merchant.
type refusal struct {
	kind   failure.Kind
	header map[string]string
	body   errorBody
	cause  error // for the log only
}

func (e *refusal) Error() string {
	if e.cause != nil {
		return e.body.Message + ": " + e.cause.Error()
	}
	return e.body.Message
}

func (e *refusal) Unwrap() error { return e.cause }

// Kind lets failure.KindOf return the refusal's own kind.
func (e *refusal) Kind() failure.Kind { return e.kind }

func refuse(kind failure.Kind, code, message string) *refusal {
	return &refusal{kind: kind, header: map[string]string{}, body: errorBody{Error: code, Message: message}}
}

func forbidden(message string) *refusal { return refuse(failure.Forbidden, codeForbidden, message) }

func invalid(message string) *refusal { return refuse(failure.Invalid, codeInvalidRequest, message) }

func methodNotAllowed(allow string) *refusal {
	e := refuse(
		failure.MethodNotAllowed, "method_not_allowed",
		"This address does not support the method. Allowed: "+allow+".",
	)
	e.header["Allow"] = allow
	return e
}

// tooLarge also closes the connection, so that the server does not read the rest of the body.
func tooLarge(most int64) *refusal {
	e := refuse(failure.TooLarge, "payload_too_large", fmt.Sprintf("The body must not be larger than %d KiB.", most>>10))
	e.header["Connection"] = "close"
	return e
}

// notPending refuses to expire a session that has ended. The answer has the session's status.
func notPending(status checkout.Status) *refusal {
	e := refuse(
		failure.Conflict, codeNotPending,
		"The session is "+string(status)+"; only a pending session can be expired.",
	)
	e.body.Status = status
	return e
}

// orderIDInUse names the session that uses the order id. The message has the next step when
// the session is pending; a completed session leaves no step.
func orderIDInUse(holder checkout.Session) *refusal {
	message := "A pending session already has this metadata.order_id. Send the customer to its url, or expire it first."
	if holder.Status == checkout.StatusCompleted {
		message = "The order with this metadata.order_id is already paid: its session is completed."
	}
	e := refuse(failure.Conflict, "order_id_in_use", message)
	e.body.Status, e.body.SessionID, e.body.URL = holder.Status, holder.ID, holder.URL
	return e
}

// addressReverted refuses to retry a payout. The answer has the time of an announced change of the address.
func addressReverted(cause *checkout.AddressRevertedError) *refusal {
	e := refuse(
		failure.Conflict, "payout_address_reverted",
		"The network reverted a transfer of this payout to your current payout address. "+cause.Advice(),
	)
	if cause.ChangesAt != nil {
		e.body.ChangesAt = checkout.FormatTime(*cause.ChangesAt)
	}
	return e
}

// refundRefusal adds to the cause why the session is not refunded what leads the merchant on: the session's status, or
// amounts. It returns any other cause, and nil, as it is.
func refundRefusal(session checkout.Session, cause error) error {
	if errors.Is(cause, checkout.ErrNotPaid) {
		e := refuse(failure.Conflict, "session_not_paid",
			"The session is "+string(session.Status)+"; only the payment of a completed session can be refunded.")
		e.body.Status = session.Status
		return e
	}
	if large, ok := errors.AsType[*checkout.RefundTooLargeError](cause); ok {
		message := "Nothing is left of the payment: the customer has it already."
		if large.Left > 0 {
			message = fmt.Sprintf("amount must be at most %s %s: that is left of the payment.", large.Left, large.Currency)
		}
		e := refuse(failure.Conflict, "refund_exceeds_payment", message)
		e.body.Param, e.body.Left, e.body.Currency = "amount", &large.Left, large.Currency
		return e
	}
	if lacks, ok := errors.AsType[*checkout.InsufficientBalanceError](cause); ok {
		e := refuse(failure.Conflict, "insufficient_balance", fmt.Sprintf("Your balance lacks %s %s for this refund. "+
			"Repeat it when later payments have raised the balance.", lacks.Missing, lacks.Currency))
		e.body.Missing, e.body.Currency = &lacks.Missing, lacks.Currency
		return e
	}
	return cause
}

// unavailable returns the refusal for a request with an unknown outcome.
func unavailable(cause error) *refusal {
	return refusalFrom(failure.Unavailable, wordsOfKind[failure.Unavailable], cause)
}

// words are the merchant's text for an error.
type words struct {
	code, message string
	header        map[string]string
	status        checkout.Status // of the session
}

// newWords returns the words of an error. headers alternates names and values.
func newWords(code, message string, headers ...string) words {
	said := words{code: code, message: message, header: map[string]string{}}
	for pair := range slices.Chunk(headers, 2) {
		said.header[pair[0]] = pair[1]
	}
	return said
}

// wordsOfKind are the texts for errors that are not in wordsOfError.
var wordsOfKind = map[failure.Kind]words{
	failure.Internal: newWords("internal_error",
		"Something went wrong on our side. If this keeps happening, contact us with the request id."),
	failure.NotFound: newWords(codeNotFound, "This resource does not exist."),
	failure.RateLimited: newWords("rate_limited",
		"Too many requests. Wait for the time in Retry-After, and back off further after each 429."),
	failure.Unavailable: newWords(codeUnavailable,
		"The service could not answer in time. The outcome is unknown; repeating the request is safe."),
}

// wordsOfError are the texts for errors that tell more than their kind.
var wordsOfError = []struct {
	err error
	words
}{
	{checkout.ErrAPIKey, newWords("invalid_api_key",
		"The API key is missing, malformed, unknown or revoked. Send it as \"Authorization: Bearer <API_KEY>\".",
		"WWW-Authenticate", "Bearer")},
	{checkout.ErrWrongMode, newWords(codeForbidden, "This belongs to your other mode; use a key for that mode.")},
	{checkout.ErrMerchantSuspended, newWords("merchant_suspended",
		"New payments are suspended for this merchant. Contact the operator of this service.")},
	// Most payments are decided within seconds; one with 3-D Secure waits for the customer.
	{checkout.ErrPaymentInFlight, words{
		code:    "payment_in_progress",
		message: "A payment of the session is in progress. The session can be expired only if that payment fails; retry then.",
		header:  map[string]string{"Retry-After": "5"}, status: checkout.StatusPending,
	}},
	{checkout.ErrNoRate, newWords(codeUnavailable,
		"No trusted exchange rate is currently available. Nothing was created. Retry later.", "Retry-After", "30")},
	{checkout.ErrPaymentNotPossible, newWords(codeUnavailable,
		"Payout limits and network fees are not loaded yet. Nothing was created. Retry in a few seconds.",
		"Retry-After", "5")},
	{checkout.ErrNotPending, newWords(codeNotPending, "The session is no longer pending.")},
	{storage.ErrIdempotencyConflict, newWords(codeIdempotency,
		"This Idempotency-Key was already used with a different body. Use a new key for a new request.")},
	{storage.ErrRequestInProgress, newWords(codeIdempotency,
		"A request with this Idempotency-Key is still in progress. Retry in a moment.", "Retry-After", "1")},
	{storage.ErrTooManyEndpoints, newWords(codeInvalidRequest,
		"This mode already has 50 webhook registrations, the maximum.")},
	{webhook.ErrDeliveryInProgress, newWords("delivery_in_progress",
		"The delivery is still in progress: an attempt is running, or attempts remain.")},
	{webhook.ErrDeliveryNotPending, newWords("delivery_not_pending",
		"The delivery has ended; replay it to start it again.")},
	{webhook.ErrDeliveryHeld, newWords("delivery_held",
		"The delivery or its webhook registration is on hold; resume it first.")},
	{webhook.ErrEndpointDeleted, newWords("webhook_deleted",
		"The delivery's webhook registration was deleted; nothing more is sent to it.")},
	{checkout.ErrPayoutNotFailed, newWords("payout_not_failed",
		"The payout has not failed; only a failed payout can be retried.")},
	{checkout.ErrTransferStands, newWords("transfer_not_final",
		"A signed transfer may still pay the payout, so it cannot be retried.")},
	{checkout.ErrPaymentRefunded, newWords("payment_refunded",
		"The payment is refunded to the customer, so its payout cannot be retried.")},
	{checkout.ErrNothingLeft, newWords("payout_empty",
		"Nothing is left of the payout: deductions take all of it.")},
	{checkout.ErrDisputeOpen, newWords("dispute_open",
		"A dispute of the payment is open. The card network refunds nothing until it ends.")},
	{checkout.ErrDisputeNotOpen, newWords("dispute_not_open",
		"The bank takes no evidence about this dispute, or none any more.")},
	{checkout.ErrEvidenceSubmitted, newWords("evidence_submitted",
		"Evidence about this dispute is submitted. It is sent once.")},
	{checkout.ErrRefundPending, newWords("refund_pending",
		"A refund of this payment is pending. Wait until it succeeds or fails.")},
	{webhook.ErrReplayRunning, newWords("replay_running",
		"A bulk replay of this webhook registration is running. Wait until it ends, or cancel it.")},
	{webhook.ErrReplayRate, newWords("replay_rate_exceeded",
		"Your running bulk replays leave less than this rate: together they may start at most 100 deliveries a second. "+
			"Wait until one ends, or choose a lower rate.")},
}

// refusalOf returns the merchant's answer to an error. Only the text of a *refusal reaches the
// merchant. An error without a text in this file is answered as an internal error.
func refusalOf(err error) *refusal {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e
	}
	kind := failure.KindOf(err)
	for _, known := range wordsOfError {
		if errors.Is(err, known.err) {
			return refusalFrom(kind, known.words, err)
		}
	}
	said, ok := wordsOfKind[kind]
	if !ok {
		kind, said = failure.Internal, wordsOfKind[failure.Internal]
	}
	return refusalFrom(kind, said, err)
}

// refusalFrom builds a refusal from words. It adds Retry-After where the kind has one and the words have none.
func refusalFrom(kind failure.Kind, said words, cause error) *refusal {
	e := refuse(kind, said.code, said.message)
	e.body.Status, e.cause = said.status, cause
	if wait, ok := failure.RetryAfter(kind, cause, time.Second); ok {
		e.header["Retry-After"] = wait
	}
	maps.Copy(e.header, said.header) // words may know a better wait
	return e
}
