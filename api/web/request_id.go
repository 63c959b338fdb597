package web

import (
	"context"
	"net/http"
	"regexp"

	"example.com/checkout/workflows/checkout"
)

const requestIDHeader = "X-Request-Id"

var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

type requestIDKey struct{}

// WithRequestID gives every request an id and returns it in a header. It keeps a well-formed id
// that came with the request.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := requestID(r.Header.Values(requestIDHeader))
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

func requestID(incoming []string) string {
	if len(incoming) == 1 && requestIDPattern.MatchString(incoming[0]) {
		return incoming[0]
	}
	return checkout.NewID(checkout.PrefixRequest)
}

// RequestID returns the request's id, "" when the request did not come through WithRequestID.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
