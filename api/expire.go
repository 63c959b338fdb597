package api

import (
	"errors"
	"net/http"

	"example.com/checkout/workflows/checkout"
)

// expireSession serves POST /v1/checkout/{id}/expire. A repeat gives the same answer.
func (s *Server) expireSession(r *http.Request, session checkout.Session) (int, any, error) {
	return s.answerEnded(s.actions.ExpireSession(r.Context(), session, actor(r)))
}

// answerEnded answers with a session that should end: 409 when it has ended otherwise.
func (s *Server) answerEnded(session checkout.Session, err error) (int, any, error) {
	if errors.Is(err, checkout.ErrNotPending) {
		err = notPending(session.Status)
	}
	return http.StatusOK, s.withURL(session), err
}

// advanceSession serves POST /v1/test/checkout/{id}/advance. It moves the clock of a test session to its expiry. The
// session then does what it does when its timer fires. If a payment is in flight, its decision comes first and the
// answer is the session as it is now. Source: api/decisions/sessions.md, "test clock".
func (s *Server) advanceSession(r *http.Request) (int, any, error) {
	if callerFrom(r.Context()).Key.Mode.Live() {
		return 0, nil, forbidden("The clock of live sessions cannot be advanced: use a test key.")
	}
	return withObjectAndNoBody(s.session, func(r *http.Request, session checkout.Session) (int, any, error) {
		return s.answerEnded(s.actions.AdvanceSession(r.Context(), session))
	})(r)
}
