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

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

const idempotencyHeader = "Idempotency-Key"

// replayed is the body of a kept answer.
type replayed struct {
	body any
}

// serveOnce serves a POST that may have an Idempotency-Key. It keeps the first answer and repeats it.
//
// A process may die in the middle, or may not learn the outcome. The request's seed stays stored then. A repeat makes
// the same ids and secrets from the seed, so that nothing is done twice. Source: api/decisions/idempotency.md,
// "idempotency".
func (s *Server) serveOnce(r *http.Request, turn *limit.Turn, h handler) (int, any, error) {
	key, err := idempotencyKey(r.Header.Values(idempotencyHeader))
	if err != nil || key == "" {
		if err != nil {
			return 0, nil, err
		}
		return h(r)
	}
	if len(r.URL.EscapedPath()) > maxPath {
		return notFound(r)
	}

	body, err := readBody(r)
	if err != nil {
		return 0, nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))

	ctx, caller := r.Context(), callerFrom(r.Context())
	request := storage.IdempotentRequest{Owner: caller.Key.Owner, Route: r.Method + " " + r.URL.EscapedPath(), Key: key}
	fingerprint := sha256.Sum256(body)

	kept, seed, err := s.claimRequest(ctx, turn, request, fingerprint[:])
	if err != nil {
		return 0, nil, err
	}
	if kept != nil {
		if id, ok := strings.CutPrefix(kept.Location, sessionsPath); ok {
			exchangeFrom(ctx).sessionID = id
		}
		return kept.Status, replayed{located{kept.Location, json.RawMessage(kept.Body)}}, nil
	}
	exchangeFrom(ctx).seed = seed
	return s.keepAnswer(ctx, request, r, h)
}

// defaultIdempotencyWait is how long a repeat waits for the answer to its first request.
const defaultIdempotencyWait = 5 * time.Second

// maxRepeats is how many repeats of one merchant wait at once in this process.
const maxRepeats = 20

// claimRequest claims a request. While another call works on it, claim waits: few HTTP clients repeat a 409.
func (s *Server) claimRequest(
	ctx context.Context, turn *limit.Turn, request storage.IdempotentRequest, fingerprint []byte,
) (*storage.KeptAnswer, []byte, error) {
	kept, seed, err := s.Store.Requests.ClaimRequest(ctx, request, fingerprint)
	if !errors.Is(err, storage.ErrRequestInProgress) {
		return kept, seed, err
	}
	place, ok := s.repeats.TryEnter(request.MerchantID)
	if !ok {
		return nil, nil, err
	}
	defer place.Leave(false)

	// It asks with growing pauses. In a pause it holds no connection, and others have its turn.
	giveUp := time.Now().Add(s.IdempotencyWait)
	pause := 50 * time.Millisecond
	for errors.Is(err, storage.ErrRequestInProgress) && time.Now().Add(pause).Before(giveUp) {
		if turn.Pause(ctx, pause) != nil {
			return nil, nil, err // the client has gone, or no turn came
		}
		kept, seed, err = s.Store.Requests.ClaimRequest(ctx, request, fingerprint)
		pause = min(2*pause, time.Second)
	}
	return kept, seed, err
}

// keepTimeout bounds the work after a request. keepTimeout and requestTimeout together are shorter
// than a claim, so that no other process works on the request yet.
const keepTimeout = 4 * time.Second

// keepAnswer works on a claimed request and keeps its answer. It forgets a refused request. It releases a
// request with an unknown outcome, so that the client may repeat it.
func (s *Server) keepAnswer(
	ctx context.Context, request storage.IdempotentRequest, r *http.Request, h handler,
) (int, any, error) {
	status, body, err := call(h, r)

	// Release the claim even when the client has gone: its repeat must not wait.
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()

	if err != nil {
		// A suspension may have come after a first try of unknown outcome, whose session a repeat must find.
		refused := refusalOf(err).kind.Status() < http.StatusInternalServerError &&
			!errors.Is(err, checkout.ErrMerchantSuspended)
		if releaseErr := s.Store.Requests.ReleaseRequest(done, request, refused); releaseErr != nil {
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
	if err := s.Store.Requests.KeepAnswer(done, request, answer); err != nil {
		// The work is done. A repeat makes the same ids and finds it.
		return 0, nil, errors.Join(err, s.Store.Requests.ReleaseRequest(done, request, false))
	}
	return status, body, nil
}

const maxIdempotencyKey = 255

// maxPath is longer than every path with an id. The path is part of an index, which takes no long texts.
const maxPath = 255

// idempotencyKey returns the request's key, "" without one.
func idempotencyKey(headers []string) (string, error) {
	if len(headers) == 0 {
		return "", nil
	}
	key := headers[0]
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if len(headers) > 1 || key == "" || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, unprintable) {
		var f faults
		f.add(idempotencyHeader, "must appear once and have 1 to 255 printable ASCII characters")
		return "", f.err()
	}
	return key, nil
}

// newID returns a new id. An idempotent request gets the same id each time.
func newID(ctx context.Context, prefix string) string {
	if seed := exchangeFrom(ctx).seed; seed != nil {
		return checkout.SeededID(prefix, seed)
	}
	return checkout.NewID(prefix)
}

// newSecret returns a new webhook secret. An idempotent request gets the same secret each time.
func newSecret(ctx context.Context) string {
	if seed := exchangeFrom(ctx).seed; seed != nil {
		return webhook.SeededSecret(seed)
	}
	return webhook.NewSecret()
}
