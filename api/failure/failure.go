// Package failure says what kind an error is to the client who gets it. The REST
// API, the hosted page and the dashboard answer with the kind's status, each in its
// own words.
package failure

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

// Kind is what an error is to the client. A Kind is itself an error of that kind.
type Kind int

// Kinds of errors. What is not known is Internal.
const (
	Internal         Kind = iota
	Invalid               // the request cannot be understood, or a value in it is wrong
	Unauthorized          // nobody knows who asks
	Forbidden             // known, and not allowed
	NotFound              // nothing is there, or nothing that the client may see
	MethodNotAllowed      // the address does something else
	Conflict              // the state of things does not allow it now
	TooLarge              // the body
	UnsupportedMedia      // the body's media type
	RateLimited           // the client asks too often
	Busy                  // many clients ask for something heavy; nothing was done
	Unavailable           // something did not answer; the outcome is unknown
)

// Kinds are all kinds.
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

// Status is the HTTP status of answers of the kind.
func (k Kind) Status() int { return statuses[k] }

// Error is for logs.
func (k Kind) Error() string { return http.StatusText(k.Status()) }

// Kind makes a Kind an error that knows its kind.
func (k Kind) Kind() Kind { return k }

// kinded is an error that knows its kind.
type kinded interface {
	error
	Kind() Kind
}

// known are the kinds of the errors that the service itself names. The first line
// that fits decides.
var known = []struct {
	kind Kind
	errs []error
}{
	{Unauthorized, []error{checkout.ErrAPIKey}},
	{Forbidden, []error{checkout.ErrWrongMode}},
	{NotFound, []error{checkout.ErrNotFound, runs.ErrPaymentNotFound}},
	{Conflict, []error{
		checkout.ErrNotPending, checkout.ErrPaymentInFlight, checkout.ErrPaymentUndecided, checkout.ErrPaymentExists,
		checkout.ErrEmailInUse, checkout.ErrLastOwner,
		webhook.ErrDeliveryInProgress, webhook.ErrDeliveryNotPending, webhook.ErrDeliveryHeld, webhook.ErrEndpointDeleted,
		webhook.ErrReplayRunning, webhook.ErrReplayRate,
		storage.ErrIdempotencyConflict, storage.ErrRequestInProgress,
	}},
	{Invalid, []error{storage.ErrTooManyEndpoints, storage.ErrColor, storage.ErrLogo, storage.ErrLogoLarge}},
	{Busy, []error{limit.ErrBusy}},
	// The session that holds the order id could not be told, so it is about to free it.
	{Unavailable, []error{runs.ErrOutcomeUnknown, checkout.ErrOrderIDInUse}},
}

// KindOf says what kind an error is. An error that knows its kind, such as a Kind,
// is of that one.
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

// kindOfCause looks for the errors of the systems below.
func kindOfCause(err error) Kind {
	if _, often := errors.AsType[*limit.TooOftenError](err); often {
		return RateLimited
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return TooLarge
	}
	if _, faster := errors.AsType[*storage.ChangedError](err); faster {
		return Conflict
	}
	switch {
	case storage.Malformed(err):
		return NotFound // nothing is stored by a name that PostgreSQL cannot even read
	case storage.Unavailable(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Unavailable
	}
	return Internal
}

// RetryAfter is the header of an answer of kind to err: as long as a limit says,
// else unknown. It is false for a kind that waiting does not change.
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

// Seconds are whole seconds, at least one: a client who waits so long has waited
// long enough.
func Seconds(wait time.Duration) int { return max(1, int((wait+time.Second-1)/time.Second)) }
