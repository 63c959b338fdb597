package hosted

import (
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// answer is the JSON that a waiting page reads. It holds no personal data.
type answer struct {
	Status          checkout.Status `json:"status"`
	PaymentInFlight bool            `json:"payment_in_flight"`
	Action          bool            `json:"action"`   // the bank waits for the customer
	Checking        bool            `json:"checking"` // the outcome of the payment in the query is unknown
	// NotPossible: that payment was refused because there is no exchange rate.
	NotPossible bool   `json:"not_possible"`
	ExpiresAt   string `json:"expires_at"`
	Now         string `json:"now"`
}

// status serves GET /{id}/status. With ?payment= it also asks for the outcome of that payment.
func (s *server) status(w http.ResponseWriter, r *http.Request) error {
	id, payment := mux.Vars(r)["id"], r.URL.Query().Get(paramPayment)
	if !checkout.IsID(checkout.PrefixSession, id) {
		return failure.NotFound
	}
	session, _, err := s.Sessions.CustomerSession(r.Context(), id)
	if err != nil {
		return err
	}

	unknown, notPossible := false, false
	if checkout.IsID(checkout.PrefixTransaction, payment) && isUndecided(session) {
		_, err := s.askWorkflow(r.Context(), session, payment)
		unknown, notPossible = errors.Is(err, runs.ErrOutcomeUnknown), errors.Is(err, checkout.ErrPaymentNotPossible)
		if session, _, err = s.Sessions.CustomerSession(r.Context(), id); err != nil {
			return err
		}
	}

	var inFlight storage.PaymentInFlight
	if session.PaymentInFlight {
		if inFlight, err = s.Sessions.PaymentInFlight(r.Context(), id); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, answer{
		Status: session.Status, PaymentInFlight: session.PaymentInFlight, Action: inFlight.ActionURL != "",
		Checking: unknown && isUndecided(session), NotPossible: notPossible,
		ExpiresAt: checkout.FormatTime(session.ExpiresAt), Now: checkout.FormatTime(s.now()),
	})
	return nil
}

// isUndecided reports whether a session is pending without a payment in flight.
func isUndecided(session checkout.Session) bool {
	return session.Status == checkout.StatusPending && !session.PaymentInFlight
}
