package api

import (
	"context"
	"net/http"

	"example.com/checkout/api/web"
	"example.com/checkout/storage"
)

// exchange holds the facts about one request that http.Request does not have.
type exchange struct {
	requestID string
	caller    storage.Caller     // zero before authentication
	allowance *storage.Allowance // nil before authentication
	sessionID string             // of the session that the answer is about, "" for none
	seed      []byte             // set for an idempotent request; nil: ids are random
}

type exchangeKey struct{}

// withExchange gives every request an id and an exchange.
func withExchange(next http.Handler) http.Handler {
	return web.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ex := &exchange{requestID: web.RequestID(r.Context())}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, ex)))
	}))
}

// exchangeFrom returns the exchange of a request. It panics without withExchange.
func exchangeFrom(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }
