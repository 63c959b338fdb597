package health

import (
	"encoding/json"
	"net/http"

	"example.com/checkout/workflows/checkout"
)

// Checks holds "ok" or "down" for each system that the service uses.
type Checks struct {
	PostgreSQL string `json:"postgresql"`
	Temporal   string `json:"temporal"`
}

// Checks returns the answers of the systems.
func (r Readiness) Checks() *Checks { return &Checks{word(r.PostgreSQL), word(r.Temporal)} }

func word(err error) string {
	if err != nil {
		return "down"
	}
	return "ok"
}

// Message is the text of /readyz for a process that is not ready.
func (r Readiness) Message() string { return "The service is not ready: " + r.Fault + "." }

// OK is the body of /healthz, and with Checks that of /readyz.
type OK struct {
	Status string  `json:"status"`
	Checks *Checks `json:"checks,omitempty"`
}

// Handler serves GET and HEAD of /healthz and /readyz, with the bodies of the REST API. While the
// process is not ready, every other path answers 503 with the REST API's error. Otherwise next
// answers it: a request may arrive while the process starts, and be answered after that.
func (s *State) Handler(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, OK{Status: "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ready := s.Readiness(r.Context())
		if ready.Fault != "" {
			notReady(w, ready)
			return
		}
		write(w, http.StatusOK, OK{"ok", ready.Checks()})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if ready := s.Readiness(r.Context()); ready.Fault != "" {
			unavailable(w, ready)
			return
		}
		next.ServeHTTP(w, r)
	})
	return mux
}

// unavailable answers a request of a merchant.
func unavailable(w http.ResponseWriter, r Readiness) {
	id := checkout.NewID(checkout.PrefixRequest)
	w.Header().Set("Retry-After", "1")
	w.Header().Set("X-Request-Id", id)
	write(w, http.StatusServiceUnavailable, map[string]any{
		"error": "unavailable", "message": r.Message(), "request_id": id,
	})
}

func notReady(w http.ResponseWriter, r Readiness) {
	w.Header().Set("Retry-After", "1")
	write(w, http.StatusServiceUnavailable, map[string]any{
		"error": "unavailable", "message": r.Message(), "checks": r.Checks(),
	})
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has gone
}
