package hosted

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/web"
	"example.com/checkout/workflows/checkout"
)

// retryAfter is how long a browser waits before it asks again for an unavailable page.
const retryAfter = 5 * time.Second

// fail answers an error with the page for its kind.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	kind := s.begin(w, r, err)
	v := problem(textsOf(r), kind, err)
	again := kind == failure.RateLimited || kind.Status() >= http.StatusInternalServerError
	if id := sessionID(r); again && id != "" {
		v.Next = s.path(id)
	}
	s.render(w, r, kind.Status(), v)
}

// failing answers every request with the page for a kind.
func (s *server) failing(kind failure.Kind) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, kind) })
}

// failJSON is fail for checkout.js.
func (s *server) failJSON(w http.ResponseWriter, r *http.Request, err error) {
	kind := s.begin(w, r, err)
	code, ok := map[failure.Kind]string{
		failure.NotFound: "not_found", failure.RateLimited: "rate_limited", failure.Unavailable: "unavailable",
	}[kind]
	if !ok {
		code = "internal_error"
	}
	writeJSON(w, kind.Status(), map[string]string{"error": code})
}

// begin logs an error, sets Retry-After and returns the error's kind.
func (s *server) begin(w http.ResponseWriter, r *http.Request, err error) failure.Kind {
	kind := failure.KindOf(err)
	web.LogFailure(r, s.Log, "hosted page", kind.Status(), err, slog.String("session_id", sessionID(r)))
	if wait, ok := failure.RetryAfter(kind, err, retryAfter); ok {
		w.Header().Set("Retry-After", wait)
	}
	return kind
}

// sessionID returns the id in the path, "" when it does not have the shape of an id.
func sessionID(r *http.Request) string {
	if id := mux.Vars(r)["id"]; checkout.IsID(checkout.PrefixSession, id) {
		return id
	}
	return ""
}

// problem returns the page that explains a kind of error.
func problem(t *texts, kind failure.Kind, err error) view {
	heading, explanation := t.AwayTitle, t.AwayText
	switch kind {
	case failure.NotFound:
		heading, explanation = t.UnknownTitle, t.UnknownText
	case failure.MethodNotAllowed:
		heading, explanation = t.MethodTitle, t.MethodText
	case failure.Forbidden, failure.Unauthorized:
		heading, explanation = t.ForbiddenTitle, t.ForbiddenText
	case failure.TooLarge:
		heading, explanation = t.TooLargeTitle, t.TooLargeText
	case failure.Invalid, failure.UnsupportedMedia:
		heading, explanation = t.UnreadableTitle, t.UnreadableText
	case failure.RateLimited:
		wait := time.Second
		if often, ok := errors.AsType[*limit.TooOftenError](err); ok {
			wait = often.Wait
		}
		heading, explanation = t.TooManyTitle, fmt.Sprintf(t.TooManyText, failure.Seconds(wait))
	}
	return view{
		State: stateProblem, Template: string(stateProblem), Title: heading, Heading: heading, Explanation: explanation,
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the customer has gone
}
