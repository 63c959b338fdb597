package acquirer

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// tokenLifetime is how long a confirmation token may be used.
const tokenLifetime = 12 * time.Hour

// A typedCard is what a customer typed into the form's frame.
type typedCard struct {
	Number string `json:"number"`
	Month  int    `json:"exp_month"`
	Year   int    `json:"exp_year"`
	CVC    string `json:"cvc"`
}

// createTestToken serves POST /v1/test_helpers/confirmation_tokens, by which tests without a browser
// get a token of Stripe's test cards (pm_card_…).
func (d desk) createTestToken() (object, error) {
	name, isTest := strings.CutPrefix(d.form.Get("payment_method"), "pm_card_")
	if d.path[1] != "confirmation_tokens" || !isTest {
		return nil, invalid("", "The double makes test tokens of pm_card_… only.")
	}
	c := cardNamed(name)
	if c.name != name {
		return nil, invalid("resource_missing", "No such PaymentMethod: 'pm_card_"+name+"'")
	}
	return d.newToken(c, c.number, 12, time.Now().UTC().Year()+1)
}

// newToken stores a confirmation token. Of the number it keeps the last four digits.
func (d desk) newToken(c card, number string, month, year int) (object, error) {
	token, err := d.newObject("/v1/confirmation_tokens/", "ctoken_")
	if err != nil {
		return nil, err
	}
	token["expires_at"], token["payment_intent"] = time.Now().Add(tokenLifetime).Unix(), nil
	token["mandate_data"], token["shipping"], token["setup_future_usage"] = nil, nil, nil
	token["payment_method_preview"] = object{"type": "card", "billing_details": object{}, "card": object{
		"brand": c.brand, "country": c.country, "exp_month": int64(month), "exp_year": int64(year), "funding": "credit",
		"last4": number[max(0, len(number)-4):],
	}}
	return token, d.insert(token, "", c.name)
}

// serveToken takes the card that a customer typed into the frame, as Stripe's own frame does. It is
// in the frame's origin: no page of ours can read what is sent here.
func (a *Acquirer) serveToken(w http.ResponseWriter, r *http.Request) {
	var typed typedCard
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&typed); err != nil {
		write(w, invalid("", "The card cannot be read."))
		return
	}
	if no := typed.fault(time.Now().UTC()); no.status != 0 {
		write(w, no)
		return
	}
	var token object
	err := a.act(r.Context(), request{}, func(d desk) (err error) {
		token, err = d.newToken(cardNumbered(typed.Number), typed.Number, typed.Month, typed.Year)
		return err
	})
	if err != nil {
		write(w, refusal(http.StatusInternalServerError, "api_error", "", "The double has failed."))
		return
	}
	write(w, ok(token))
}

// fault returns the refusal of a malformed card, before any bank is asked; status 0: there is none.
func (t typedCard) fault(now time.Time) answer {
	declined := func(code, message string) answer {
		return refusal(http.StatusPaymentRequired, "card_error", code, message)
	}
	switch {
	case len(t.Number) < 12 || len(t.Number) > 19 || !luhn(t.Number):
		return declined("incorrect_number", "Your card number is invalid.")
	case t.Month < 1 || t.Month > 12:
		return declined("invalid_expiry_month", "Your card's expiration date is invalid.")
	case !now.Before(time.Date(t.Year, time.Month(t.Month)+1, 1, 0, 0, 0, 0, time.UTC)):
		return declined("invalid_expiry_year", "Your card's expiration date is in the past.")
	case len(t.CVC) < 3 || len(t.CVC) > 4:
		return declined("invalid_cvc", "Your card's security code is incomplete.")
	}
	return answer{}
}

// luhn reports whether the digits have the right check digit.
func luhn(number string) bool {
	sum := 0
	for i := range len(number) {
		digit := int(number[len(number)-1-i] - '0')
		if digit < 0 || digit > 9 {
			return false
		}
		if i%2 == 1 {
			if digit *= 2; digit > 9 {
				digit -= 9
			}
		}
		sum += digit
	}
	return sum%10 == 0
}
