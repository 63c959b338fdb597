package hosted

import (
	"context"
	"net/http"
	"strings"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// bankPage returns the address where a customer confirms the payment in flight. A form must not
// lead to another origin (see web.Policy). So the address is a page of this server, and that page
// goes on to the bank by itself.
func (s *server) bankPage(ctx context.Context, sessionID string) string {
	here := s.path(sessionID)
	payment, err := s.Sessions.PaymentInFlight(ctx, sessionID)
	if err != nil {
		s.Log.ErrorContext(ctx, "bank page not read", "session_id", sessionID, "error", err)
		return here
	}
	if _, ok := linkTo(payment.ActionURL); ok && strings.HasPrefix(payment.ActionURL, s.origin+"/") {
		return payment.ActionURL
	}
	return here + "?" + paramForward
}

// isDecided reports whether it is worth asking the workflow about the payment. The sandbox is asked first:
// every question adds to the workflow's history, and a customer may come back many times. For another
// network this process has no key to ask with; the workflow answers a bounded number of questions.
func (s *server) isDecided(ctx context.Context, p storage.PaymentInFlight) bool {
	if p.Acquirer != checkout.AcquirerSandbox {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	got, err := s.TestCards.Payment(ctx, p.ID)
	return err == nil && got.Outcome.Final()
}

// returnFromBank serves GET and POST /{id}/return. The bank sends the customer there. Nothing in the
// request is trusted.
func (s *server) returnFromBank(w http.ResponseWriter, r *http.Request, v view) error {
	ctx, id := r.Context(), v.Session.ID
	payment, err := s.Sessions.PaymentInFlight(ctx, id)
	if err != nil {
		return err
	}
	if payment.ID != "" && s.isDecided(ctx, payment) {
		got, err := s.Runs.Complete(context.WithoutCancel(ctx), id, payment.ID)
		s.Log.InfoContext(
			ctx, "customer came back", "session_id", id, "transaction_id", payment.ID, "outcome",
			got.Outcome, "error", err,
		)
	}
	http.Redirect(w, r, s.path(id), http.StatusSeeOther)
	return nil
}
