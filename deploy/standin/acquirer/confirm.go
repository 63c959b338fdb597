package acquirer

import (
	"errors"
	"maps"
	"net/http"
	"time"
)

// confirmIntent serves POST /v1/payment_intents/{id}/confirm.
func (d desk) confirmIntent() (object, error) {
	i, err := d.intent()
	if err != nil {
		return nil, err
	}
	if d.publishable && i.text("confirmation_method") == "manual" {
		return nil, invalid("payment_intent_invalid_parameter",
			"This PaymentIntent's confirmation_method is manual: confirm it with your secret key.")
	}
	switch i.text("status") {
	case needsConfirmation: // the bank has agreed
		method, err := d.find(kindMethod, i.text("payment_method"))
		if err != nil {
			return nil, err
		}
		return d.charge(i, method)
	case needsMethod:
		return d.confirmWithToken(i)
	}
	return nil, unexpectedState(i, "confirm")
}

// confirmWithToken charges the card of a confirmation token, or asks the customer's bank first.
func (d desk) confirmWithToken(i object) (object, error) {
	method, c, err := d.useToken(i)
	if err != nil {
		return nil, err
	}
	if !c.asks {
		return d.charge(i, method)
	}
	if d.form.Get("return_url") == "" {
		return nil, invalid("parameter_missing", "A return_url is needed: the customer has to authenticate.")
	}
	i["status"], i["payment_method"], i["last_payment_error"] = needsAction, method.text("id"), nil
	i["next_action"] = object{"type": "redirect_to_url", "redirect_to_url": object{
		"url": d.pageURL() + "/bank/" + i.text("id"), "return_url": d.form.Get("return_url"),
	}}
	if d.form.Get("use_stripe_sdk") != "false" { // a token's own default is true
		i["next_action"] = object{"type": "use_stripe_sdk", "use_stripe_sdk": object{"type": "three_d_secure_redirect"}}
	}
	return i, d.emit("payment_intent.requires_action", i)
}

// useToken turns the request's confirmation token into a payment method. A token works once and for 12 hours.
func (d desk) useToken(i object) (method object, c card, err error) {
	id := d.form.Get("confirmation_token")
	if id == "" {
		return nil, c, invalid("payment_intent_unexpected_state", "The PaymentIntent is missing a payment method.")
	}
	token, err := d.findNamed(kindToken, id)
	switch {
	case err != nil:
		return nil, c, err
	case token.text("payment_intent") != "":
		return nil, c, invalid("confirmation_token_already_used", "This confirmation token was already used.")
	case token.number("expires_at") < time.Now().Unix():
		return nil, c, invalid("confirmation_token_expired", "This confirmation token has expired.")
	}
	token["payment_intent"] = i.text("id")
	method = object{
		"id": newID("pm_"), "object": kindMethod, "type": "card", "livemode": d.options.Livemode,
		"created": time.Now().Unix(), "card": token.part("payment_method_preview").part("card"),
		"billing_details": token.part("payment_method_preview").part("billing_details"), "metadata": object{},
	}
	c, err = d.cardOf(token)
	return method, c, errors.Join(err, d.update(token), d.insert(method, i.text("id"), c.name))
}

// charge asks the card's bank for the money. When the bank declines, the intent loses its payment
// method and can be confirmed again.
func (d desk) charge(i, method object) (object, error) {
	c, err := d.cardOf(method)
	if err != nil {
		return nil, err
	}
	ch, err := d.newCharge(i, method, c)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.settle(ch), d.insert(ch, i.text("id"), c.name)); err != nil {
		return nil, err
	}
	i["latest_charge"], i["next_action"] = ch.text("id"), nil
	if c.code != "" {
		return nil, d.refuse(i, ch, method, c)
	}
	i["status"], i["amount_received"] = succeeded, i.number("amount")
	i["payment_method"], i["last_payment_error"] = method.text("id"), nil
	if err := d.emit("charge.succeeded", ch); err != nil {
		return nil, err
	}
	if c.disputed != "" {
		err = d.dispute(ch, "fraudulent", c.disputed)
	}
	if c.warned {
		err = d.warn(i)
	}
	if err != nil {
		return nil, err
	}
	return i, d.emit("payment_intent.succeeded", i)
}

// refuse records the bank's no, and returns it.
func (d desk) refuse(i, ch, method object, c card) error {
	failed := object{
		"type": "card_error", "code": c.code, "decline_code": c.declineCode, "message": "Your card was declined.",
		"charge": ch.text("id"), "payment_method": method,
	}
	i["status"], i["payment_method"], i["last_payment_error"] = needsMethod, nil, failed
	err := errors.Join(d.emit("charge.failed", ch), d.emit("payment_intent.payment_failed", i))
	if err != nil {
		return err
	}
	said := maps.Clone(failed)
	said["payment_intent"] = i
	return answer{http.StatusPaymentRequired, object{"error": said}}
}

// newCharge returns what a charge looks like after the bank's answer.
func (d desk) newCharge(i, method object, c card) (object, error) {
	ch, err := d.newObject("/v1/charges/", "ch_")
	if err != nil {
		return nil, err
	}
	good := c.code == ""
	outcome := object{
		"type": "authorized", "network_status": "approved_by_network", "reason": nil, "risk_level": "normal",
		"seller_message": "Payment complete.",
	}
	ch["payment_intent"], ch["payment_method"] = i.text("id"), method.text("id")
	ch["amount"], ch["currency"], ch["metadata"] = i.number("amount"), i.text("currency"), i["metadata"]
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
	maps.Copy(shown, method.part("card"))
	shown["three_d_secure"] = nil
	if status := i.text("status"); status == needsConfirmation || status == needsAction {
		shown["three_d_secure"] = object{"result": "authenticated", "authentication_flow": "challenge", "version": "2.2.0"}
	}
	return ch, nil
}
