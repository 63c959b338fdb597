// Package failure maps errors to the kinds of error that a client gets. The REST API, the hosted page and the
// dashboard answer with the kind's status. Each of them has its own texts.
package failure

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

// Kind is the kind of an error for the client. A Kind is itself an error of that kind.
type Kind int

// Kinds of errors. An unknown error is Internal.
const (
	Internal         Kind = iota
	Invalid               // the request cannot be understood, or a value in it is wrong
	Unauthorized          // the client has not proved who it is
	Forbidden             // the client is known, but it may not do this
	NotFound              // the object does not exist, or the client may not see it
	MethodNotAllowed      // the address has other methods
	Conflict              // the state of the object does not allow it now
	TooLarge              // the body is too large
	UnsupportedMedia      // the body has another media type
	RateLimited           // the client sends too many requests
	Busy                  // too much heavy work at once; nothing was done
	Unavailable           // another system did not answer; the outcome is unknown
)

// Kinds lists all kinds.
var Kinds = []Kind{
	Internal, Invalid, Unauthorized, Forbidden, NotFound, MethodNotAllowed, Conflict, TooLarge, UnsupportedMedia,
	RateLimited, Busy, Unavailable,
}

var statuses = map[Kind]int{
	Internal:         http.StatusInternalServerError,
	Invalid:          http.StatusBadRequest,
	Unauthorized:     http.StatusUnauthorized,
	Forbidden:        http.StatusForbidden,
	NotFound:         http.StatusNotFound,
	MethodNotAllowed: http.StatusMethodNotAllowed,
	Conflict:         http.StatusConflict,
	TooLarge:         http.StatusRequestEntityTooLarge,
	UnsupportedMedia: http.StatusUnsupportedMediaType,
	RateLimited:      http.StatusTooManyRequests,
	Busy:             http.StatusServiceUnavailable,
	Unavailable:      http.StatusServiceUnavailable,
}

// Status returns the HTTP status for the kind.
func (k Kind) Status() int { return statuses[k] }

// Error returns the status text, for logs.
func (k Kind) Error() string { return http.StatusText(k.Status()) }

// Kind returns k, so that KindOf finds a Kind like other errors that know their kind.
func (k Kind) Kind() Kind { return k }

type kinded interface {
	error
	Kind() Kind
}

// known lists the kinds of the service's own errors. The first line that fits decides.
var known = []struct {
	kind Kind
	errs []error
}{
	{Unauthorized, []error{checkout.ErrAPIKey}},
	{Forbidden, []error{checkout.ErrWrongMode, checkout.ErrMerchantSuspended}},
	{NotFound, []error{checkout.ErrNotFound, runs.ErrPaymentNotFound}},
	{Conflict, []error{
		checkout.ErrNotPending, checkout.ErrPaymentInFlight, checkout.ErrPaymentUndecided, checkout.ErrPaymentExists,
		merchant.ErrEmailInUse, merchant.ErrTooManyInvitations, merchant.ErrLastOwner, checkout.ErrConflict,
		webhook.ErrDeliveryInProgress, webhook.ErrDeliveryNotPending, webhook.ErrDeliveryHeld, webhook.ErrEndpointDeleted,
		webhook.ErrReplayRunning, webhook.ErrReplayRate,
		storage.ErrIdempotencyConflict, storage.ErrRequestInProgress,
	}},
	{Invalid, []error{storage.ErrTooManyEndpoints, people.ErrColor, people.ErrLogo, people.ErrLogoLarge}},
	{Busy, []error{limit.ErrBusy}},
	// ErrOrderIDInUse comes alone only when the session with the order id is about to free it.
	{Unavailable, []error{
		runs.ErrOutcomeUnknown, checkout.ErrOrderIDInUse, checkout.ErrNoRate, checkout.ErrPaymentNotPossible,
	}},
}

// KindOf returns the kind of an error. If an error has a method Kind, that method decides.
func KindOf(err error) Kind {
	if own, ok := errors.AsType[kinded](err); ok {
		return own.Kind()
	}
	for _, k := range known {
		for _, target := range k.errs {
			if errors.Is(err, target) {
				return k.kind
			}
		}
	}
	return kindOfCause(err)
}

// kindOfCause returns the kind of errors from other systems and of error types.
func kindOfCause(err error) Kind {
	if _, often := errors.AsType[*limit.TooOftenError](err); often {
		return RateLimited
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return TooLarge
	}
	if _, faster := errors.AsType[*pg.ChangedError](err); faster {
		return Conflict
	}
	switch {
	case pg.Malformed(err):
		return NotFound // no column can hold this text, so no row has it
	case pg.Unavailable(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Unavailable
	}
	return Internal
}

// RetryAfter returns the value of the Retry-After header. It is the wait in *limit.TooOftenError,
// else unknown, in seconds. It returns false for a kind that waiting does not change.
func RetryAfter(kind Kind, err error, unknown time.Duration) (seconds string, ok bool) {
	switch kind {
	case RateLimited, Busy, Unavailable:
		if often, ok := errors.AsType[*limit.TooOftenError](err); ok {
			unknown = often.Wait
		}
		return strconv.Itoa(Seconds(unknown)), true
	default:
		return "", false
	}
}

// Seconds rounds up to whole seconds, at least one, so that a client never waits too short a time.
func Seconds(wait time.Duration) int { return max(1, int((wait+time.Second-1)/time.Second)) }
