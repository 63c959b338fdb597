package api

import (
	"context"
	"net/http"
	"regexp"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

const requestIDHeader = "X-Request-Id"

var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// exchange is what is known about one request besides the request.
type exchange struct {
	requestID string
	caller    storage.Caller     // of no key before authentication
	allowance *storage.Allowance // nil before authentication
	seed      []byte             // of an idempotent request; nil: ids are random
}

type exchangeKey struct{}

// withRequestID gives every request an id and every answer its header. A
// well-formed id that came with the request is kept.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ex := &exchange{requestID: requestID(r.Header.Values(requestIDHeader))}
		w.Header().Set(requestIDHeader, ex.requestID)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, ex)))
	})
}

func requestID(incoming []string) string {
	if len(incoming) == 1 && requestIDPattern.MatchString(incoming[0]) {
		return incoming[0]
	}
	return checkout.NewID(checkout.PrefixRequest)
}

// exchangeFrom returns the exchange of a request that came through
// withRequestID.
func exchangeFrom(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// mark writes the request's id into the span.
func (ex *exchange) mark(ctx context.Context) {
	trace.SpanFromContext(ctx).SetAttributes(attribute.String("request_id", ex.requestID))
}
