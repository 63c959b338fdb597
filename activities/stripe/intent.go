package stripe

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
)

// expanded are the parts of an intent that Stripe sends only on request: the charge has the reason of a decline, the
// payment method the card.
var expanded = []*string{stripe.String("latest_charge"), stripe.String("payment_method")}

// intent reads a PaymentIntent and checks that this service made it.
func (n *Network) intent(ctx context.Context, reference string) (*stripe.PaymentIntent, error) {
	if !isReference(reference) {
		return nil, fmt.Errorf("%q is not the id of a payment intent", reference)
	}
	got, err := n.api.V1PaymentIntents.Retrieve(ctx, reference, &stripe.PaymentIntentRetrieveParams{Expand: expanded})
	if err != nil {
		return nil, fmt.Errorf("read intent %s: %w", reference, publicError(err))
	}
	return got, n.checkOurs(got, reference)
}

// referenceShape keeps anything else than an id out of the path of a request.
var referenceShape = regexp.MustCompile(`^pi_[0-9A-Za-z_]{1,250}$`)

// isReference reports whether the text has the shape of an intent's id.
func isReference(text string) bool { return referenceShape.MatchString(text) }

// checkOurs refuses an intent that this service did not make.
func (n *Network) checkOurs(i *stripe.PaymentIntent, reference string) error {
	switch {
	case i.ID != reference:
		return fmt.Errorf("asked for intent %s, and Stripe sent another one", reference)
	case i.Livemode != n.mode.Live():
		return fmt.Errorf("intent %s: livemode is %t", reference, i.Livemode)
	case i.ConfirmationMethod != stripe.PaymentIntentConfirmationMethodManual:
		return fmt.Errorf("intent %s: its confirmation method is not manual", reference)
	case i.CaptureMethod != stripe.PaymentIntentCaptureMethodAutomatic:
		return fmt.Errorf("intent %s: its capture method is not automatic", reference)
	case i.Metadata[metadataTransaction] == "":
		return fmt.Errorf("intent %s: it names no transaction", reference)
	}
	return nil
}

// checkRequest refuses an intent that is not the charge of this request.
func checkRequest(i *stripe.PaymentIntent, req checkout.ChargeRequest) error {
	switch {
	case i.Metadata[metadataTransaction] != req.TransactionID:
		return fmt.Errorf("intent %s belongs to another transaction than %s", i.ID, req.TransactionID)
	case i.Metadata[metadataSession] != req.SessionID:
		return fmt.Errorf("intent %s belongs to another session than %s", i.ID, req.SessionID)
	case i.Amount != int64(req.Amount):
		return fmt.Errorf("intent %s: its amount is %d, and %d was asked", i.ID, i.Amount, int64(req.Amount))
	case !strings.EqualFold(string(i.Currency), string(req.Currency)):
		return fmt.Errorf("intent %s: its currency is not %s", i.ID, req.Currency)
	}
	return nil
}

// outcome maps the intent's state.
func outcome(i *stripe.PaymentIntent) (checkout.ChargeResult, error) {
	result := checkout.ChargeResult{Method: method(i)}
	switch i.Status {
	case stripe.PaymentIntentStatusSucceeded:
		if i.AmountReceived != i.Amount {
			return checkout.ChargeResult{}, fmt.Errorf("intent %s: %d of %d were received", i.ID, i.AmountReceived, i.Amount)
		}
		result.Outcome = checkout.OutcomeSucceeded
	case stripe.PaymentIntentStatusCanceled:
		result.Outcome, result.Failure = checkout.OutcomeFailed, failureOfCanceled(i)
	case stripe.PaymentIntentStatusProcessing:
		result.Outcome = checkout.OutcomeProcessing
	case stripe.PaymentIntentStatusRequiresConfirmation:
		result.Outcome = checkout.OutcomeAgreed
	case stripe.PaymentIntentStatusRequiresPaymentMethod:
		// Both a new intent and a declined one are in this state.
		if i.LastPaymentError == nil && i.LatestCharge == nil {
			result.Outcome = checkout.OutcomeUntried
			break
		}
		result.Outcome, result.Failure = checkout.OutcomeFailed, failure(i)
	case stripe.PaymentIntentStatusRequiresAction:
		if i.NextAction == nil || i.NextAction.RedirectToURL == nil || i.NextAction.RedirectToURL.URL == "" {
			return checkout.ChargeResult{}, fmt.Errorf("intent %s: Stripe names no page for the customer", i.ID)
		}
		result.Outcome, result.ActionURL = checkout.OutcomeActionRequired, i.NextAction.RedirectToURL.URL
	default:
		return checkout.ChargeResult{}, fmt.Errorf("intent %s is in a state that is unknown here", i.ID)
	}
	return result, nil
}

// method returns the card's public details. The charge has the best ones; before there is a charge the payment method
// has them, and after a decline the error.
func method(i *stripe.PaymentIntent) checkout.PaymentMethod {
	m := checkout.PaymentMethod{Type: "card"}
	if charge := i.LatestCharge; charge != nil && charge.PaymentMethodDetails != nil &&
		charge.PaymentMethodDetails.Card != nil {
		card := charge.PaymentMethodDetails.Card
		m.Brand, m.Last4, m.Country = string(card.Brand), card.Last4, card.Country
		m.ExpMonth, m.ExpYear = int(card.ExpMonth), int(card.ExpYear)
		m.ThreeDSecure = card.ThreeDSecure != nil && card.ThreeDSecure.Result != ""
		return m
	}
	known := i.PaymentMethod
	if (known == nil || known.Card == nil) && i.LastPaymentError != nil {
		known = i.LastPaymentError.PaymentMethod
	}
	if known != nil && known.Card != nil {
		card := known.Card
		m.Brand, m.Last4, m.Country = string(card.Brand), card.Last4, card.Country
		m.ExpMonth, m.ExpYear = int(card.ExpMonth), int(card.ExpYear)
	}
	m.ThreeDSecure = i.Status == stripe.PaymentIntentStatusRequiresAction || authenticationFailed(i.LastPaymentError)
	return m
}
