package api

import "net/http"

// advanceSession serves POST /v1/test/checkout/{id}/advance. It moves the clock of a test session to its expiry. The
// session then does what it does when its timer fires. If a payment is in flight, its decision comes first and the
// answer is the session as it is now. Source: api/decisions/sessions.md, "test clock".
func (s *Server) advanceSession(r *http.Request) (int, any, error) {
	if callerFrom(r.Context()).Key.Mode.Live() {
		return 0, nil, forbidden("The clock of live sessions cannot be advanced: use a test key.")
	}
	session, err := s.session(r)
	if err != nil {
		return 0, nil, err
	}
	if err := readNothing(r); err != nil {
		return 0, nil, err
	}
	return s.answerEnded(s.actions.AdvanceSession(r.Context(), session))
}
