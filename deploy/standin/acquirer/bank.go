package acquirer

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

var bankPage = template.Must(template.ParseFS(embedded, "static/bank.html"))

// bankURL is the address of the bank's page for an intent.
func (a *Acquirer) bankURL(intentID string) string { return a.pageURL() + "/bank/" + intentID }

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
	err := pgx.BeginFunc(r.Context(), a.db, func(tx pgx.Tx) (err error) {
		asked, err = a.hearCustomer(r.Context(), tx, r.PathValue("intent"), r.Method, r.PostFormValue("answer"))
		return err
	})
	switch {
	case errors.Is(err, errMissing):
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
func (a *Acquirer) hearCustomer(ctx context.Context, tx pgx.Tx, intentID, method, said string) (question, error) {
	i, _, err := find(ctx, tx, kindIntent, intentID)
	if err != nil {
		return question{}, err
	}
	back := i.part("next_action").part("redirect_to_url").text("return_url")
	waits := i.text("status") == needsAction
	if !waits && back == "" {
		back, err = lastReturn(ctx, tx, intentID)
		return question{Back: backTo(back, i)}, err
	}
	m, cardName, err := find(ctx, tx, kindMethod, i.text("payment_method"))
	if err != nil {
		return question{}, err
	}
	if waits && method == http.MethodPost {
		if err := a.authenticate3D(ctx, tx, i, m, cardNamed(cardName), said == "confirm"); err != nil {
			return question{}, err
		}
		return question{Back: backTo(back, i)}, nil
	}
	amount := strconv.FormatInt(i.number("amount"), 10)
	amount = amount[:len(amount)-2] + "." + amount[len(amount)-2:] // at least 30: see minimums
	return question{
		Amount: amount + " " + strings.ToUpper(i.text("currency")), Last4: m.part("card").text("last4"),
		Back: backTo(back, i), open: waits,
	}, nil
}

// lastReturn finds where a customer belongs whose intent was decided meanwhile: the event that sent them here knows it.
func lastReturn(ctx context.Context, tx pgx.Tx, intentID string) (string, error) {
	events, _, err := list(ctx, tx, page{
		kind: kindEvent, intentID: intentID, types: []string{"payment_intent.requires_action"}, limit: 1,
	})
	if err != nil {
		return "", err
	}
	if len(events) == 0 {
		return "", errMissing
	}
	asked := events[0].part("data").part("object").part("next_action").part("redirect_to_url")
	return asked.text("return_url"), nil
}

// authenticate3D records the customer's answer at the bank. With manual confirmation the bank's yes
// charges nothing: the owner of the secret key confirms once more.
func (a *Acquirer) authenticate3D(ctx context.Context, tx pgx.Tx, i, method object, c card, agreed bool) error {
	if agreed && !c.refuses {
		if i.text("confirmation_method") != "manual" {
			_, err := a.charge(ctx, tx, request{}, i, method, c)
			return err
		}
		i["status"], i["next_action"] = needsConfirmation, nil
		return update(ctx, tx, i) // no event tells of it
	}
	i["status"], i["next_action"], i["payment_method"] = needsMethod, nil, nil
	i["last_payment_error"] = object{
		"type": "invalid_request_error", "code": "payment_intent_authentication_failure",
		"message":        "The provided PaymentMethod has failed authentication.",
		"payment_method": method,
	}
	return a.emit(ctx, tx, request{}, "payment_intent.payment_failed", i)
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
