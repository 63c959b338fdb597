package acquirer

import (
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

var bankPage = template.Must(template.ParseFS(embedded, "static/bank.html"))

// A question is the content of the bank's page.
type question struct {
	Amount, Last4, Back string
	open                bool // the intent waits for the answer
}

// serveBank is the bank's page (3-D Secure). The customer can confirm, refuse, or leave. Afterwards,
// and when the answer comes too late, the customer is sent back to the shop.
func (a *Acquirer) serveBank(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'")
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	var asked question
	err := a.act(r.Context(), request{}, func(d desk) (err error) {
		asked, err = d.hearCustomer(r.PathValue("intent"), r.Method, r.PostFormValue("answer"))
		return err
	})
	switch {
	case errors.As(err, &answer{}):
		http.Error(w, "There is nothing to confirm here.", http.StatusNotFound)
	case err != nil:
		slog.ErrorContext(r.Context(), "acquirer bank", "error", err)
		http.Error(w, "The bank does not answer.", http.StatusServiceUnavailable)
	case !asked.open:
		http.Redirect(w, r, asked.Back, http.StatusSeeOther)
	default:
		_ = bankPage.Execute(w, asked) // an error means that the browser has gone
	}
}

// hearCustomer returns the question as it is after the request.
func (d desk) hearCustomer(intentID, method, said string) (question, error) {
	i, err := d.find(kindIntent, intentID)
	if err != nil {
		return question{}, err
	}
	back := i.part("next_action").part("redirect_to_url").text("return_url")
	waits := i.text("status") == needsAction
	if !waits && back == "" {
		back, err = d.lastReturn(intentID)
		return question{Back: backTo(back, i)}, err
	}
	m, err := d.find(kindMethod, i.text("payment_method"))
	if err != nil {
		return question{}, err
	}
	if waits && method == http.MethodPost {
		return question{Back: backTo(back, i)}, d.authenticate3D(i, m, said == "confirm")
	}
	amount := strconv.FormatInt(i.number("amount"), 10)
	amount = amount[:len(amount)-2] + "." + amount[len(amount)-2:] // at least 30: see minimums
	return question{
		Amount: amount + " " + strings.ToUpper(i.text("currency")), Last4: m.part("card").text("last4"),
		Back: backTo(back, i), open: waits,
	}, nil
}

// lastReturn finds where a customer belongs whose intent was decided meanwhile: the event that sent them here knows it.
func (d desk) lastReturn(intentID string) (string, error) {
	const asks = "payment_intent.requires_action"
	events, _, err := d.list(page{kind: kindEvent, intentID: intentID, types: []string{asks}, limit: 1})
	if err == nil && len(events) == 0 {
		err = missing(asks, intentID)
	}
	if err != nil {
		return "", err
	}
	asked := events[0].part("data").part("object").part("next_action").part("redirect_to_url")
	return asked.text("return_url"), nil
}

// authenticate3D records the customer's answer at the bank. With manual confirmation the bank's yes
// charges nothing: the owner of the secret key confirms once more.
func (d desk) authenticate3D(i, method object, agreed bool) error {
	c, err := d.cardOf(method)
	if err != nil {
		return err
	}
	if agreed && !c.refuses {
		if i.text("confirmation_method") != "manual" {
			_, err := d.charge(i, method)
			return err
		}
		i["status"], i["next_action"] = needsConfirmation, nil
		return d.update(i) // without an event
	}
	i["status"], i["next_action"], i["payment_method"] = needsMethod, nil, nil
	i["last_payment_error"] = object{
		"type": "invalid_request_error", "code": "payment_intent_authentication_failure",
		"message":        "The provided PaymentMethod has failed authentication.",
		"payment_method": method,
	}
	return d.emit("payment_intent.payment_failed", i)
}

// backTo is the shop's address with what Stripe adds to it.
func backTo(returnURL string, i object) string {
	u, err := url.Parse(returnURL)
	if err != nil {
		return returnURL
	}
	query := u.Query()
	query.Set("payment_intent", i.text("id"))
	query.Set("payment_intent_client_secret", i.text("client_secret"))
	u.RawQuery = query.Encode()
	return u.String()
}
