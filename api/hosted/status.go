package hosted

import (
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
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
func (s *server) status(w http.ResponseWriter, r *http.Request) error {
	id, payment := mux.Vars(r)["id"], r.URL.Query().Get(paramPayment)
	if !checkout.IsID(checkout.PrefixSession, id) {
		return failure.NotFound
	}
	session, _, err := s.Store.CustomerSession(r.Context(), id)
	if err != nil {
		return err
	}

	unknown := false
	if checkout.IsID(checkout.PrefixTransaction, payment) && undecided(session) {
		unknown = errors.Is(s.ask(r.Context(), session, payment), runs.ErrOutcomeUnknown)
		if session, _, err = s.Store.CustomerSession(r.Context(), id); err != nil {
			return err
		}
	}

	bank := ""
	if session.PaymentInFlight {
		if _, bank, err = s.Store.PaymentAction(r.Context(), id); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, answer{
		Status: session.Status, PaymentInFlight: session.PaymentInFlight, Action: bank != "",
		Checking: unknown && undecided(session), ExpiresAt: checkout.FormatTime(session.ExpiresAt), Now: checkout.FormatTime(s.now()),
	})
	return nil
}

// undecided reports whether a session can be paid and no payment is under way.
func undecided(session checkout.Session) bool {
	return session.Status == checkout.StatusPending && !session.PaymentInFlight
}
