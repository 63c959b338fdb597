package acquirer

import (
	"cmp"
	"strings"
	"time"
)

// Statuses of an intent.
const (
	needsMethod       = "requires_payment_method"
	needsConfirmation = "requires_confirmation"
	needsAction       = "requires_action"
	succeeded         = "succeeded"
	canceled          = "canceled"
)

// minimums are the smallest amounts that Stripe charges, in minor units.
// Source: docs.stripe.com/currencies#minimum-and-maximum-charge-amounts.
var minimums = map[string]int64{"usd": 50, "eur": 50, "gbp": 30, "cad": 50, "aud": 50}

// createIntent serves POST /v1/payment_intents.
func (d desk) createIntent() (object, error) {
	amount, currency := number(d.form.Get("amount")), d.form.Get("currency")
	switch {
	case amount < minimums[currency]:
		return nil, invalid("amount_too_small", "Amount must be at least "+currency+" "+d.form.Get("amount"))
	case amount > 99_999_999:
		return nil, invalid("amount_too_large", "Amount has more than eight digits.")
	case d.form.Get("confirm") == "true":
		return nil, invalid("", "The double confirms in a separate request.")
	}
	id, i := newID("pi_"), d.fixture
	for _, name := range []string{
		"canceled_at", "cancellation_reason", "last_payment_error", "next_action", "latest_charge", "payment_method",
		"processing", "transfer_data", "automatic_payment_methods", "shipping", "managed_payments", "customer",
		"payment_method_configuration_details",
	} {
		i[name] = nil // the fixture shows every field in use
	}
	i["id"], i["client_secret"] = id, id+"_secret_"+newID("")
	i["amount"], i["amount_received"], i["amount_capturable"], i["currency"] = amount, int64(0), int64(0), currency
	i["confirmation_method"] = cmp.Or(d.form.Get("confirmation_method"), "automatic")
	i["capture_method"] = cmp.Or(d.form.Get("capture_method"), "automatic_async")
	i["created"], i["livemode"], i["metadata"] = time.Now().Unix(), d.options.Livemode, d.metadata()
	i["status"] = needsMethod
	if err := d.insert(i, id, ""); err != nil {
		return nil, err
	}
	return i, d.emit("payment_intent.created", i)
}

// metadata reads the fields metadata[…].
func (q request) metadata() object {
	data := object{}
	for name := range q.form {
		if inner, ok := strings.CutPrefix(name, "metadata["); ok {
			data[strings.TrimSuffix(inner, "]")] = q.form.Get(name)
		}
	}
	return data
}

// intent reads and locks the intent of the request. It serves GET /v1/payment_intents/{id}.
func (d desk) intent() (object, error) {
	i, err := d.find(kindIntent, d.path[1])
	if err == nil && d.publishable && d.form.Get("client_secret") != i.text("client_secret") {
		err = missing(kindIntent, d.path[1])
	}
	return i, err
}

// cancelIntent serves POST /v1/payment_intents/{id}/cancel.
func (d desk) cancelIntent() (object, error) {
	i, err := d.intent()
	if err != nil {
		return nil, err
	}
	if i.text("status") == succeeded || i.text("status") == canceled {
		return nil, unexpectedState(i, "cancel")
	}
	i["status"], i["canceled_at"], i["next_action"] = canceled, time.Now().Unix(), nil
	if reason := d.form.Get("cancellation_reason"); reason != "" {
		i["cancellation_reason"] = reason
	}
	return i, d.emit("payment_intent.canceled", i)
}

// unexpectedState refuses what the intent's status does not allow.
func unexpectedState(i object, what string) answer {
	got := invalid("payment_intent_unexpected_state",
		"You cannot "+what+" this PaymentIntent because it has a status of "+i.text("status")+".")
	got.body.part("error")["payment_intent"] = i
	return got
}
