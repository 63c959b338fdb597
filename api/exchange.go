package api

import (
	"context"
	"net/http"

	"example.com/checkout/api/web"
	"example.com/checkout/storage"
)

// exchange is what is known about one request besides the request.
type exchange struct {
	requestID string
	caller    storage.Caller     // of no key before authentication
	allowance *storage.Allowance // nil before authentication
	seed      []byte             // of an idempotent request; nil: ids are random
}

type exchangeKey struct{}

// withExchange gives every request an id and an exchange.
func withExchange(next http.Handler) http.Handler {
	return web.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ex := &exchange{requestID: web.RequestID(r.Context())}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, ex)))
	}))
}

// exchangeFrom returns the exchange of a request that came through withExchange.
func exchangeFrom(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }
