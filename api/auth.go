package api

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// authenticated lets only callers with a key through to h. It comes before
// anything of the request is looked at, and asks storage each time, so that a
// revoked key fails at once. Source: interface document, "Authentication".
func (s *Server) authenticated(h handler) handler {
	return func(r *http.Request) (int, any, error) {
		hash, ok := bearerHash(r.Header.Values("Authorization"))
		if !ok {
			return 0, nil, checkout.ErrAPIKey
		}
		caller, err := s.Store.Authenticate(r.Context(), hash)
		if err != nil {
			return 0, nil, err
		}
		exchangeFrom(r.Context()).caller = caller
		trace.SpanFromContext(r.Context()).SetAttributes(
			attribute.String("merchant_id", caller.Merchant.ID), attribute.String("mode", string(caller.Key.Mode)))
		return h(r)
	}
}

// callerFrom returns who makes an authenticated request.
func callerFrom(ctx context.Context) storage.Caller { return exchangeFrom(ctx).caller }

// bearerHash reads the Authorization headers of a request: exactly one, the
// scheme in any case, one space, a key. It returns the hash of the key.
func bearerHash(headers []string) ([]byte, bool) {
	if len(headers) != 1 {
		return nil, false
	}
	scheme, key, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || strings.ContainsFunc(key, outsideKey) {
		return nil, false
	}
	return checkout.HashAPIKey(key)
}

func outsideKey(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
}
