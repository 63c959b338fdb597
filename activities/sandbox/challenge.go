package sandbox

import (
	_ "embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

//go:embed challenge.html
var challengeHTML string

var challengePage = template.Must(template.New("challenge").Parse(challengeHTML))

// Challenge serves the page on which a bank asks its customer to confirm a payment (3-D Secure).
// The page is at /{transaction id} below the handler's path. The card decides whether a
// confirmation succeeds; the customer can always refuse.
type Challenge struct{ Cards *CardNetwork }

// ServeHTTP implements http.Handler.
func (h Challenge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	id := r.URL.Path[1:]
	if !checkout.IsID(checkout.PrefixTransaction, id) {
		http.Error(w, "There is nothing to confirm here.", http.StatusNotFound)
		return
	}

	c, err := h.Cards.Sandbox.SandboxCharge(r.Context(), id)
	switch {
	case errors.Is(err, checkout.ErrNotFound):
		http.Error(w, "There is nothing to confirm here.", http.StatusNotFound)
	case err != nil:
		slog.ErrorContext(r.Context(), "sandbox challenge", "error", err)
		http.Error(w, "The bank does not answer. Try again.", http.StatusServiceUnavailable)
	case c.Outcome != checkout.OutcomeActionRequired: // already decided, or no confirmation was asked for
		http.Redirect(w, r, c.ReturnURL, http.StatusSeeOther)
	case r.Method == http.MethodPost:
		h.answer(w, r, c)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = challengePage.Execute(w, map[string]any{ // an error means that the browser has gone
			"Amount": c.Amount.String() + " " + string(c.Currency), "Last4": c.Method.Last4,
		})
	}
}

// answer decides the charge as the card says and sends the customer back.
func (h Challenge) answer(w http.ResponseWriter, r *http.Request, c storage.SandboxCharge) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	outcome, failure := checkout.OutcomeSucceeded, checkout.FailureCode("")
	switch {
	case r.PostFormValue("answer") != "confirm", behavior(c.Behavior) == asksAndIsAbandoned:
		outcome, failure = checkout.OutcomeFailed, checkout.FailureThreeDSAbandoned
	case behavior(c.Behavior) == asksAndFails:
		outcome, failure = checkout.OutcomeFailed, checkout.FailureThreeDSFailed
	}
	_, err := h.Cards.Sandbox.DecideSandboxCharge(r.Context(), c.TransactionID, outcome, failure)
	if err != nil {
		slog.ErrorContext(r.Context(), "sandbox challenge", "error", err)
		http.Error(w, "The bank does not answer. Try again.", http.StatusServiceUnavailable)
		return
	}
	http.Redirect(w, r, c.ReturnURL, http.StatusSeeOther)
}
