package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/stripe/stripe-go/v85"
)

// Error is Stripe's refusal of a request. It holds no text of Stripe's answer: such texts quote
// keys, client secrets and addresses.
type Error struct {
	Status    int    // of HTTP
	Code      string // "" when Stripe gave none
	RequestID string // req_…, by which Stripe's dashboard finds the request
}

// Error returns the error's fixed words.
func (e *Error) Error() string {
	words := "Stripe answered " + strconv.Itoa(e.Status)
	if e.Code != "" {
		words += ", code " + e.Code
	}
	if e.RequestID != "" {
		words += ", request " + e.RequestID
	}
	return words
}

// definite reports whether Stripe refused this request for good. It says nothing about earlier
// requests. 401 and 403 are not among them: they are about our account and pass when it is mended.
func (e *Error) definite() bool {
	return e.Status == http.StatusBadRequest || e.Status == http.StatusPaymentRequired ||
		e.Status == http.StatusNotFound
}

// ErrNoAnswer means that Stripe gave no answer that can be read: the outcome is unknown.
var ErrNoAnswer = errors.New("Stripe gave no answer that can be read") //nolint:staticcheck // ST1005: a name

// publicError turns an error of the SDK into one that may be logged.
func publicError(err error) error {
	var refusal *stripe.Error
	switch {
	case errors.As(err, &refusal):
		return &Error{
			Status: refusal.HTTPStatusCode, Code: safeWord(string(refusal.Code)), RequestID: safeWord(refusal.RequestID),
		}
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrNoAnswer, context.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", ErrNoAnswer, context.Canceled)
	}
	return ErrNoAnswer
}

// wordShape is the shape of Stripe's codes and of its requests' ids.
var wordShape = regexp.MustCompile(`^[0-9A-Za-z_]{1,64}$`)

// safeWord returns a word of Stripe's answer when it has the shape of a code or an id.
func safeWord(word string) string {
	if !wordShape.MatchString(word) {
		return ""
	}
	return word
}
