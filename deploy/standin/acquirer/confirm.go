package acquirer

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
)

// confirmIntent serves POST /v1/payment_intents/{id}/confirm.
func (a *Acquirer) confirmIntent(ctx context.Context, tx pgx.Tx, q request) (answer, error) {
	i, no, err := lockIntent(ctx, tx, q)
	if err != nil || no.status != 0 {
		return no, err
	}
	if q.publishable && i.text("confirmation_method") == "manual" {
		return invalid("payment_intent_invalid_parameter",
			"This PaymentIntent's confirmation_method is manual: confirm it with your secret key."), nil
	}
	switch i.text("status") {
	case needsConfirmation: // the bank has agreed
		method, cardName, err := find(ctx, tx, kindMethod, i.text("payment_method"))
		if err != nil {
			return answer{}, err
		}
		return a.charge(ctx, tx, q, i, method, cardNamed(cardName))
	case needsMethod:
		return a.confirmWithToken(ctx, tx, q, i)
	}
	return unexpectedState(i, "confirm"), nil
}

// confirmWithToken charges the card of a confirmation token, or asks the customer's bank first.
func (a *Acquirer) confirmWithToken(ctx context.Context, tx pgx.Tx, q request, i object) (answer, error) {
	method, c, no, err := a.useToken(ctx, tx, q, i)
	if err != nil || no.status != 0 {
		return no, err
	}
	if !c.asks {
		return a.charge(ctx, tx, q, i, method, c)
	}
	if q.form.Get("return_url") == "" {
		return invalid("parameter_missing", "A return_url is needed: the customer has to authenticate."), nil
	}
	i["status"], i["payment_method"], i["last_payment_error"] = needsAction, method.text("id"), nil
	i["next_action"] = object{"type": "redirect_to_url", "redirect_to_url": object{
		"url": a.bankURL(i.text("id")), "return_url": q.form.Get("return_url"),
	}}
	if q.form.Get("use_stripe_sdk") != "false" { // a token's own default is true
		i["next_action"] = object{"type": "use_stripe_sdk", "use_stripe_sdk": object{"type": "three_d_secure_redirect"}}
	}
	return ok(i), a.emit(ctx, tx, q, "payment_intent.requires_action", i)
}

// useToken turns a confirmation token into a payment method. A token works once and for 12 hours.
func (a *Acquirer) useToken(
	ctx context.Context, tx pgx.Tx, q request, i object,
) (method object, c card, no answer, err error) {
	id := q.form.Get("confirmation_token")
	if id == "" {
		return nil, card{}, invalid("payment_intent_unexpected_state", "The PaymentIntent is missing a payment method."), nil
	}
	token, cardName, err := find(ctx, tx, kindToken, id)
	switch {
	case errors.Is(err, errMissing):
		return nil, card{}, invalid("resource_missing", "No such confirmation token: '"+id+"'"), nil
	case err != nil:
		return nil, card{}, answer{}, err
	case token.text("payment_intent") != "":
		return nil, card{}, invalid("confirmation_token_already_used", "This confirmation token was already used."), nil
	case token.number("expires_at") < time.Now().Unix():
		return nil, card{}, invalid("confirmation_token_expired", "This confirmation token has expired."), nil
	}
	token["payment_intent"] = i.text("id")
	if err := update(ctx, tx, token); err != nil {
		return nil, card{}, answer{}, err
	}
	method = object{
		"id": newID("pm_"), "object": kindMethod, "type": "card", "livemode": a.options.Livemode,
		"created": time.Now().Unix(), "card": token.part("payment_method_preview").part("card"),
		"billing_details": token.part("payment_method_preview").part("billing_details"), "metadata": object{},
	}
	return method, cardNamed(cardName), answer{}, insert(ctx, tx, method, i.text("id"), cardName)
}

// charge asks the card's bank for the money. When the bank declines, the intent loses its payment
// method and can be confirmed again.
func (a *Acquirer) charge(ctx context.Context, tx pgx.Tx, q request, i, method object, c card) (answer, error) {
	authenticated := i.text("status") == needsConfirmation || i.text("status") == needsAction
	ch, err := a.newCharge(ctx, i, method, c, authenticated)
	if err != nil {
		return answer{}, err
	}
	if err := a.settle(ctx, tx, ch); err != nil {
		return answer{}, err
	}
	if err := insert(ctx, tx, ch, i.text("id"), c.name); err != nil {
		return answer{}, err
	}
	i["latest_charge"], i["next_action"] = ch.text("id"), nil
	if c.code != "" {
		return a.refuse(ctx, tx, q, i, ch, method, c)
	}
	i["status"], i["amount_received"] = succeeded, i.number("amount")
	i["payment_method"], i["last_payment_error"] = method.text("id"), nil
	if err := a.emit(ctx, tx, q, "charge.succeeded", ch); err != nil {
		return answer{}, err
	}
	if c.disputed {
		if err := a.dispute(ctx, tx, ch, "fraudulent", "needs_response"); err != nil {
			return answer{}, err
		}
	}
	return ok(i), a.emit(ctx, tx, q, "payment_intent.succeeded", i)
}

// refuse records the bank's no.
func (a *Acquirer) refuse(ctx context.Context, tx pgx.Tx, q request, i, ch, method object, c card) (answer, error) {
	failed := object{
		"type": "card_error", "code": c.code, "decline_code": c.declineCode, "message": "Your card was declined.",
		"charge": ch.text("id"), "payment_method": method,
	}
	i["status"], i["payment_method"], i["last_payment_error"] = needsMethod, nil, failed
	for kind, o := range map[string]object{"charge.failed": ch, "payment_intent.payment_failed": i} {
		if err := a.emit(ctx, tx, q, kind, o); err != nil {
			return answer{}, err
		}
	}
	got := refusal(http.StatusPaymentRequired, "card_error", c.code, "Your card was declined.")
	for name, value := range failed {
		got.body.part("error")[name] = value
	}
	got.body.part("error")["payment_intent"] = i
	return got, nil
}

// newCharge returns what a charge looks like after the bank's answer.
func (a *Acquirer) newCharge(ctx context.Context, i, method object, c card, authenticated bool) (object, error) {
	id := newID("ch_")
	ch, err := a.mock.fixture(ctx, "/v1/charges/"+id)
	if err != nil {
		return nil, err
	}
	good := c.code == ""
	outcome := object{
		"type": "authorized", "network_status": "approved_by_network", "reason": nil, "risk_level": "normal",
		"seller_message": "Payment complete.",
	}
	ch["id"], ch["payment_intent"], ch["payment_method"] = id, i.text("id"), method.text("id")
	ch["amount"], ch["currency"], ch["metadata"] = i.number("amount"), i.text("currency"), i["metadata"]
	ch["created"], ch["livemode"] = time.Now().Unix(), a.options.Livemode
	ch["paid"], ch["captured"], ch["status"] = good, good, succeeded
	ch["amount_captured"], ch["amount_refunded"], ch["refunded"], ch["disputed"] = int64(0), int64(0), false, false
	ch["failure_code"], ch["failure_message"], ch["refunds"], ch["shipping"] = nil, nil, nil, nil
	if good {
		ch["amount_captured"] = i.number("amount")
	} else {
		ch["status"], ch["failure_code"], ch["failure_message"] = "failed", c.code, "Your card was declined."
		outcome["type"], outcome["network_status"] = "issuer_declined", "declined_by_network"
		outcome["reason"] = c.declineCode
	}
	if c.blocked {
		outcome["type"], outcome["network_status"] = "blocked", "not_sent_to_network"
		outcome["reason"], outcome["risk_level"] = "highest_risk_level", "highest"
	}
	ch["outcome"] = outcome
	shown := ch.part("payment_method_details").part("card")
	for name, value := range method.part("card") {
		shown[name] = value
	}
	shown["three_d_secure"] = nil
	if authenticated {
		shown["three_d_secure"] = object{"result": "authenticated", "authentication_flow": "challenge", "version": "2.2.0"}
	}
	return ch, nil
}
