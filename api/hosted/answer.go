package hosted

import (
	"net/http"
	"strings"

	"example.com/checkout/workflows/checkout"
)

// formAnswer is what checkout.js reads after it has sent the form: an address to go to, or a message about
// the form that stays open. It holds nothing that the customer typed.
type formAnswer struct {
	Next    string   `json:"next,omitempty"`
	Alert   string   `json:"alert,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Faults  []fault  `json:"faults,omitempty"`
	Empty   []string `json:"empty,omitempty"` // fields that the customer fills in again
	Attempt int      `json:"attempt"`
	Payment string   `json:"payment,omitempty"`
}

// wantsJSON reports whether checkout.js sent the form. A browser without JavaScript gets a page.
func wantsJSON(r *http.Request) bool { return r.Header.Get("Accept") == "application/json" }

// refuse shows the form again, without any card data.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, v view, alert, reason string) {
	s.answerForm(w, r, status, v.alerting(alert, reason))
}

// answerForm shows the form of v with its message. A script gets 200 always: browsers complain about
// another status as if something were broken.
func (s *server) answerForm(w http.ResponseWriter, r *http.Request, status int, v view) {
	if !wantsJSON(r) {
		s.render(w, r, status, v.asForm())
		return
	}
	a := formAnswer{
		Alert: v.Alert, Reason: strings.TrimSpace(v.Reason + " " + v.Attempts), Faults: v.Form.Faults.All(),
		Attempt: v.Form.Attempt, Payment: v.Form.Payment,
	}
	switch {
	case len(a.Faults) > 0: // the rest stays as it is
	case v.onlyCVCWrong():
		a.Empty = []string{fieldCVC}
	default:
		a.Empty = []string{fieldCardNumber, fieldCVC}
	}
	writeJSON(w, http.StatusOK, a)
}

// onlyCVCWrong reports whether the message is about the security code alone. The card number then stays in
// the customer's open page. No server and no storage of the browser keeps it.
func (v view) onlyCVCWrong() bool {
	t := v.Session.Transaction()
	return t != nil && t.Failure == checkout.FailureIncorrectCVC && v.Reason == v.T.IncorrectCVC
}
