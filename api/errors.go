package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"example.com/checkout/workflows/runs"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Error codes. Source: interface document, "Errors", and api/decisions.md.
const (
	codeInvalidRequest   = "invalid_request"
	codeInvalidAPIKey    = "invalid_api_key"
	codeForbidden        = "forbidden"
	codeNotFound         = "not_found"
	codeMethodNotAllowed = "method_not_allowed"
	codeNotPending       = "session_not_pending"
	codePayment          = "payment_in_progress"
	codeOrderIDInUse     = "order_id_in_use"
	codeInProgress       = "delivery_in_progress"
	codeDeliveryEnded    = "delivery_not_pending"
	codeDeliveryHeld     = "delivery_held"
	codeWebhookDeleted   = "webhook_deleted"
	codeReplayRunning    = "replay_running"
	codeReplayRate       = "replay_rate_exceeded"
	codeTooLarge         = "payload_too_large"
	codeMediaType        = "unsupported_media_type"
	codeRateLimited      = "rate_limited"
	codeIdempotency      = "idempotency_conflict"
	codeInternal         = "internal_error"
	codeUnavailable      = "unavailable"
)

// errorBody is every error that a merchant sees.
type errorBody struct {
	Error     string          `json:"error"`
	Message   string          `json:"message"`
	Param     string          `json:"param,omitempty"`      // the first fault's
	Errors    []fault         `json:"errors,omitempty"`     // all faults
	Status    checkout.Status `json:"status,omitempty"`     // session_not_pending, payment_in_progress, order_id_in_use
	SessionID string          `json:"session_id,omitempty"` // order_id_in_use
	URL       string          `json:"url,omitempty"`        // order_id_in_use
	Checks    *checks         `json:"checks,omitempty"`     // readyz
	RequestID string          `json:"request_id"`
}

// refusal is an error in words meant for the merchant; every other error is
// answered in the fixed words of its kind.
type refusal struct {
	status int
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

func refuse(status int, code, message string) *refusal {
	return &refusal{status: status, body: errorBody{Error: code, Message: message}}
}

func forbidden(message string) *refusal {
	return refuse(http.StatusForbidden, codeForbidden, message)
}

func invalid(message string) *refusal {
	return refuse(http.StatusBadRequest, codeInvalidRequest, message)
}

func methodNotAllowed(allow string) *refusal {
	e := refuse(http.StatusMethodNotAllowed, codeMethodNotAllowed, "This address does not support the method; it supports "+allow+".")
	e.header = map[string]string{"Allow": allow}
	return e
}

// tooLarge closes the connection, so that the rest of the body is not read.
func tooLarge() *refusal {
	e := refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "The body must not be larger than 64 KiB.")
	e.header = map[string]string{"Connection": "close"}
	return e
}

// notPending tells the status of a session that is no longer pending.
func notPending(status checkout.Status) *refusal {
	e := refuse(http.StatusConflict, codeNotPending, "The session is "+string(status)+"; only a pending session can be expired.")
	e.body.Status = status
	return e
}

// paymentInProgress says that a pending session must wait for its payment. Most
// are decided within seconds; one with 3-D Secure waits for the customer.
func paymentInProgress() *refusal {
	e := refuse(http.StatusConflict, codePayment,
		"A payment of the session is being decided. Only when it fails can the session be expired; try again then.")
	e.header = map[string]string{"Retry-After": "5"}
	e.body.Status = checkout.StatusPending
	return e
}

// orderIDInUse tells which session has the order id, and what can be done about
// it: nothing when it is completed.
func orderIDInUse(holder checkout.Session) *refusal {
	message := "A pending session has this metadata.order_id already. Send the customer to its url, or expire it first."
	if holder.Status == checkout.StatusCompleted {
		message = "The order with this metadata.order_id is paid already: its session is completed."
	}
	e := refuse(http.StatusConflict, codeOrderIDInUse, message)
	e.body.Status, e.body.SessionID, e.body.URL = holder.Status, holder.ID, holder.URL
	return e
}

// rateLimited tells when the next request is let through.
func rateLimited(a storage.Allowance) *refusal {
	e := refuse(http.StatusTooManyRequests, codeRateLimited, "Too many requests. Wait as long as Retry-After says, and longer after each further 429.")
	e.header = map[string]string{"Retry-After": strconv.Itoa(max(1, wholeSeconds(a.Wait)))}
	return e
}

// unavailable says that nothing is known about the outcome.
func unavailable(cause error) *refusal {
	e := refuse(http.StatusServiceUnavailable, codeUnavailable,
		"The service could not answer in time. The outcome is unknown; repeating the request is safe.")
	e.header = map[string]string{"Retry-After": "1"}
	e.cause = cause
	return e
}

// conflicts says what a merchant is told of an error of steering a delivery, or
// of starting a bulk replay.
var conflicts = []struct {
	err           error
	code, message string
}{
	{webhook.ErrDeliveryInProgress, codeInProgress, "The delivery is in progress: an attempt is under way, or attempts are left."},
	{webhook.ErrDeliveryNotPending, codeDeliveryEnded, "The delivery has ended; only a replay starts it again."},
	{webhook.ErrDeliveryHeld, codeDeliveryHeld, "The delivery or its webhook registration is on hold; resume it first."},
	{webhook.ErrEndpointDeleted, codeWebhookDeleted, "The delivery's webhook registration was deleted; nothing is sent to it any more."},
	{webhook.ErrReplayRunning, codeReplayRunning, "A bulk replay of this webhook registration is running. Wait until it ends, or cancel it."},
	{webhook.ErrReplayRate, codeReplayRate, "Your bulk replays that are running leave less than this rate: all of them together may start 100 deliveries a second. " +
		"Wait until one ends, or choose a lower rate."},
}

// conflict returns the refusal of an error of conflicts, nil for others.
func conflict(err error) *refusal {
	for _, c := range conflicts {
		if errors.Is(err, c.err) {
			return refuse(http.StatusConflict, c.code, c.message)
		}
	}
	return nil
}

// refusal is the one door by which errors leave: it turns err into what the
// merchant is told. Nothing of the text of an unknown error passes.
func (s *Server) refusal(err error) *refusal {
	var known *refusal
	if e := conflict(err); e != nil {
		return e
	}
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, checkout.ErrAPIKey):
		e := refuse(http.StatusUnauthorized, codeInvalidAPIKey,
			"The API key is missing, malformed, unknown or revoked. Send it as \"Authorization: Bearer <API_KEY>\".")
		e.header = map[string]string{"WWW-Authenticate": "Bearer"}
		return e
	case errors.Is(err, checkout.ErrWrongMode):
		return forbidden("This belongs to your other mode; use a key of that mode.")
	case errors.Is(err, checkout.ErrNotFound):
		return refuse(http.StatusNotFound, codeNotFound, "There is nothing at this address.")
	case errors.Is(err, checkout.ErrPaymentInFlight):
		return paymentInProgress()
	case errors.Is(err, checkout.ErrNotPending):
		return refuse(http.StatusConflict, codeNotPending, "The session is no longer pending.")
	case errors.Is(err, storage.ErrIdempotencyConflict):
		return refuse(http.StatusConflict, codeIdempotency, "This Idempotency-Key came before with another body. Use another key for another request.")
	case errors.Is(err, storage.ErrRequestInProgress):
		e := refuse(http.StatusConflict, codeIdempotency, "The request with this Idempotency-Key is still being worked on. Repeat it in a moment.")
		e.header = map[string]string{"Retry-After": "1"}
		return e
	case errors.Is(err, storage.ErrTooManyEndpoints):
		return invalid("There are already 50 webhook registrations in this mode, which is the limit.")
	case errors.Is(err, runs.ErrOutcomeUnknown), errors.Is(err, checkout.ErrOrderIDInUse), storage.Unavailable(err),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable(err)
	}
	return refuse(http.StatusInternalServerError, codeInternal, "Something went wrong on our side. Tell us the request id if it goes on.")
}
