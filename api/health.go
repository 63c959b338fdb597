package api

import (
	"net/http"

	"example.com/checkout/api/health"
)

// healthz serves GET /healthz. It always answers 200: the process runs.
func (s *Server) healthz(*http.Request) (int, any, error) {
	return http.StatusOK, health.OK{Status: "ok"}, nil
}

// readyz serves GET /readyz: 200 when the process can work, else 503.
func (s *Server) readyz(r *http.Request) (int, any, error) {
	ready := s.Health.Readiness(r.Context())
	if ready.Fault == "" {
		return http.StatusOK, health.OK{Status: "ok", Checks: ready.Checks()}, nil
	}
	e := unavailable(ready.Err())
	e.body.Message = ready.Message()
	e.body.Checks = ready.Checks()
	return 0, nil, e
}
