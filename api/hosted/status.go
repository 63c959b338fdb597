package hosted

import (
	"encoding/json"
	"errors"
	"net/http"

	"example.com/checkout/workflows/runs"

	"github.com/gorilla/mux"

	"example.com/checkout/workflows/checkout"
)

// answer is what GET /{id}/status tells a page that waits. It holds no personal
// data.
type answer struct {
	Status          checkout.Status `json:"status"`
	PaymentInFlight bool            `json:"payment_in_flight"`
	Action          bool            `json:"action"`   // the customer's bank waits
	Checking        bool            `json:"checking"` // the payment asked about is still of unknown outcome
	ExpiresAt       string          `json:"expires_at"`
	Now             string          `json:"now"`
}

// status serves GET /{id}/status. With ?payment= it asks about that payment
// too.
func (s *server) status(w http.ResponseWriter, r *http.Request) {
	id, payment := mux.Vars(r)["id"], r.URL.Query().Get(paramPayment)
	if !checkout.IsID(checkout.PrefixSession, id) {
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "not_found"})
		return
	}
	session, _, err := s.Store.CustomerSession(r.Context(), id)
	checking := false
	if err == nil && session.Status == checkout.StatusPending && !session.PaymentInFlight && checkout.IsID(checkout.PrefixTransaction, payment) {
		checking = errors.Is(s.ask(r.Context(), session, payment), runs.ErrOutcomeUnknown)
		session, _, err = s.Store.CustomerSession(r.Context(), id)
	}
	address := ""
	if err == nil && session.PaymentInFlight {
		_, address, err = s.Store.PaymentAction(r.Context(), id)
	}
	switch {
	case errors.Is(err, checkout.ErrNotFound):
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "not_found"})
	case err != nil:
		s.statusAway(w, r, err)
	default:
		writeJSON(w, http.StatusOK, answer{
			Status: session.Status, PaymentInFlight: session.PaymentInFlight, Action: address != "",
			Checking: checking && session.Status == checkout.StatusPending && !session.PaymentInFlight, ExpiresAt: checkout.FormatTime(session.ExpiresAt),
			Now: checkout.FormatTime(s.now()),
		})
	}
}

// statusAway answers what went wrong on our side. Only the log gets the error.
func (s *server) statusAway(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		s.Log.ErrorContext(r.Context(), "hosted status", "session_id", mux.Vars(r)["id"], "error", err)
	}
	w.Header().Set("Retry-After", "5")
	writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "unavailable"})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the customer has gone
}
