package api

import (
	"log/slog"
	"net/http"

	"github.com/gorilla/mux"

	"example.com/checkout/api/health"
)

// Waiting answers /healthz and /readyz as New does, and logs nothing: probes come every second. While the process is
// not ready, it refuses every other request with 503. Otherwise next answers it: a request may arrive while the
// process starts, and be answered after that.
func Waiting(state *health.State, next http.Handler) http.Handler {
	s := newServer(Config{Health: state, Log: slog.New(slog.DiscardHandler)})
	router := newRouter()
	s.healthRoutes(router)
	router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ready := state.Readiness(r.Context())
		if ready.Fault == "" {
			next.ServeHTTP(w, r)
			return
		}
		refuse := func(*http.Request) (int, any, error) { return 0, nil, notReady(ready) }
		s.serve(refuse).ServeHTTP(w, r)
	})
	return withExchange(router)
}

func (s *Server) healthRoutes(router *mux.Router) {
	s.route(router, "/healthz", methods{http.MethodGet: s.healthz})
	s.route(router, "/readyz", methods{http.MethodGet: s.readyz})
}

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
	e := notReady(ready)
	e.body.Checks = ready.Checks()
	return 0, nil, e
}

func notReady(ready health.Readiness) *refusal {
	e := unavailable(ready.Err())
	e.body.Message = ready.Message()
	return e
}
