package acquirer

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
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
func (a *Acquirer) createIntent(ctx context.Context, tx pgx.Tx, q request) (answer, error) {
	amount, currency := number(q.form.Get("amount")), q.form.Get("currency")
	switch {
	case q.publishable:
		return refusal(http.StatusForbidden, "invalid_request_error", "secret_key_required", "Use a secret key."), nil
	case amount < minimums[currency]:
		return invalid("amount_too_small", "Amount must be at least "+currency+" "+q.form.Get("amount")), nil
	case amount > 99_999_999:
		return invalid("amount_too_large", "Amount has more than eight digits."), nil
	case q.form.Get("confirm") == "true":
		return invalid("", "The double confirms in a separate request."), nil
	}
	id := newID("pi_")
	i := q.fixture
	for _, name := range []string{
		"canceled_at", "cancellation_reason", "last_payment_error", "next_action", "latest_charge", "payment_method",
		"processing", "transfer_data", "automatic_payment_methods", "shipping", "managed_payments", "customer",
		"payment_method_configuration_details",
	} {
		i[name] = nil // the fixture shows every field in use
	}
	i["id"], i["client_secret"] = id, id+"_secret_"+newID("")
	i["amount"], i["amount_received"], i["amount_capturable"], i["currency"] = amount, int64(0), int64(0), currency
	i["confirmation_method"] = cmp.Or(q.form.Get("confirmation_method"), "automatic")
	i["capture_method"] = cmp.Or(q.form.Get("capture_method"), "automatic_async")
	i["created"], i["livemode"], i["metadata"] = time.Now().Unix(), a.options.Livemode, metadata(q)
	i["status"] = needsMethod
	if err := insert(ctx, tx, i, id, ""); err != nil {
		return answer{}, err
	}
	return ok(i), a.emit(ctx, tx, q, "payment_intent.created", i)
}

// metadata reads the fields metadata[…].
func metadata(q request) object {
	data := object{}
	for name := range q.form {
		if inner, ok := strings.CutPrefix(name, "metadata["); ok {
			data[strings.TrimSuffix(inner, "]")] = q.form.Get(name)
		}
	}
	return data
}

// lockIntent reads the intent of the request. The answer has status 0 when there is one.
func lockIntent(ctx context.Context, tx pgx.Tx, q request) (object, answer, error) {
	i, _, err := find(ctx, tx, kindIntent, q.path[1])
	if errors.Is(err, errMissing) {
		return nil, missing("payment_intent", q.path[1]), nil
	}
	if err == nil && q.publishable && q.form.Get("client_secret") != i.text("client_secret") {
		return nil, missing("payment_intent", q.path[1]), nil
	}
	return i, answer{}, err
}

// readIntent serves GET /v1/payment_intents/{id}.
func readIntent(ctx context.Context, tx pgx.Tx, q request) (answer, error) {
	i, no, err := lockIntent(ctx, tx, q)
	if err != nil || no.status != 0 {
		return no, err
	}
	return ok(i), nil
}

// cancelIntent serves POST /v1/payment_intents/{id}/cancel.
func (a *Acquirer) cancelIntent(ctx context.Context, tx pgx.Tx, q request) (answer, error) {
	i, no, err := lockIntent(ctx, tx, q)
	switch {
	case err != nil || no.status != 0:
		return no, err
	case q.publishable:
		return refusal(http.StatusForbidden, "invalid_request_error", "secret_key_required", "Use a secret key."), nil
	case i.text("status") == succeeded || i.text("status") == canceled:
		return unexpectedState(i, "cancel"), nil
	}
	i["status"], i["canceled_at"], i["next_action"] = canceled, time.Now().Unix(), nil
	if reason := q.form.Get("cancellation_reason"); reason != "" {
		i["cancellation_reason"] = reason
	}
	return ok(i), a.emit(ctx, tx, q, "payment_intent.canceled", i)
}

// unexpectedState refuses what the intent's status does not allow.
func unexpectedState(i object, what string) answer {
	got := invalid("payment_intent_unexpected_state",
		"You cannot "+what+" this PaymentIntent because it has a status of "+i.text("status")+".")
	got.body.part("error")["payment_intent"] = i
	return got
}
