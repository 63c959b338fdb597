package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

const idempotencyHeader = "Idempotency-Key"

// replayed is the body of an answer that was kept.
type replayed struct {
	body any
}

// once serves a POST that may come with an Idempotency-Key: the first answer is
// kept and repeated. A process that dies in the middle, or that does not know
// the outcome, leaves a seed from which whoever works on the request again makes
// the same ids and secrets, so that nothing is done twice. Source: api/decisions.md,
// "idempotency".
func (s *Server) once(r *http.Request, h handler) (int, any, error) {
	key, err := idempotencyKey(r.Header.Values(idempotencyHeader))
	if err != nil || key == "" {
		if err != nil {
			return 0, nil, err
		}
		return h(r)
	}
	if err := checkLength(r); err != nil {
		return 0, nil, err
	}
	body, err := readBody(r)
	if err != nil {
		return 0, nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	ctx, caller := r.Context(), callerFrom(r.Context())
	request := storage.IdempotentRequest{
		Owner: caller.Key.Owner, Route: r.Method + " " + r.URL.EscapedPath(), Key: key,
	}
	fingerprint := sha256.Sum256(body)
	kept, seed, err := s.Store.ClaimRequest(ctx, request, fingerprint[:])
	if err != nil {
		return 0, nil, err
	}
	if kept != nil {
		return kept.Status, replayed{located{kept.Location, json.RawMessage(kept.Body)}}, nil
	}
	exchangeFrom(ctx).seed = seed
	return s.keep(ctx, request, r, h)
}

// keepTimeout bounds what follows a request: together with requestTimeout it is
// shorter than a claim, so that no other process works on the request yet.
const keepTimeout = 4 * time.Second

// keep works on a claimed request and keeps its answer. One that was refused is
// forgotten, one whose outcome is unknown may be repeated.
func (s *Server) keep(ctx context.Context, request storage.IdempotentRequest, r *http.Request, h handler) (int, any, error) {
	status, body, err := call(h, r)
	// The client may have gone; its repeat shall not wait.
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	if err != nil {
		refused := refusalOf(err).kind.Status() < http.StatusInternalServerError
		if releaseErr := s.Store.ReleaseRequest(done, request, refused); releaseErr != nil {
			s.Log.WarnContext(ctx, "request not released", "error", releaseErr, "request_id", exchangeFrom(ctx).requestID)
		}
		return status, body, err
	}
	answer := storage.KeptAnswer{Status: status}
	inner := body
	if at, ok := body.(located); ok {
		answer.Location, inner = at.location, at.body
	}
	if answer.Body, err = checkout.EncodeJSON(inner); err != nil {
		return 0, nil, err
	}
	if err := s.Store.KeepAnswer(done, request, answer); err != nil {
		// The effect is there. A repeat makes the same ids and finds it.
		return 0, nil, errors.Join(err, s.Store.ReleaseRequest(done, request, false))
	}
	return status, body, nil
}

const maxIdempotencyKey = 255

// idempotencyKey returns the key of a request, "" when it has none.
func idempotencyKey(headers []string) (string, error) {
	if len(headers) == 0 {
		return "", nil
	}
	key := headers[0]
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if len(headers) > 1 || key == "" || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, unprintable) {
		var f faults
		f.add(idempotencyHeader, "must be there once and have 1 to 255 printable ASCII characters")
		return "", f.err()
	}
	return key, nil
}

// newID is checkout.NewID, for an idempotent request the same id each time.
func newID(ctx context.Context, prefix string) string {
	if seed := exchangeFrom(ctx).seed; seed != nil {
		return checkout.SeededID(prefix, seed)
	}
	return checkout.NewID(prefix)
}

// newSecret is webhook.NewSecret, for an idempotent request the same secret each
// time.
func newSecret(ctx context.Context) string {
	if seed := exchangeFrom(ctx).seed; seed != nil {
		return webhook.SeededSecret(seed)
	}
	return webhook.NewSecret()
}
