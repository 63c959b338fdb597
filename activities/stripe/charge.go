package stripe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
)

// Names of what an intent's metadata says about us.
const (
	metadataTransaction = "transaction_id"
	metadataSession     = "session_id"
)

// Prepare implements checkout.CardNetwork. It creates an intent, which nobody can confirm without
// the secret key. A repeat within Stripe's memory of 24 hours returns the same one.
func (n *Network) Prepare(ctx context.Context, req checkout.ChargeRequest) (string, error) {
	if err := checkMoney(req.Amount, req.Currency); err != nil {
		return "", fmt.Errorf("prepare %s: %w", req.TransactionID, err)
	}
	params := &stripe.PaymentIntentCreateParams{
		Amount:             stripe.Int64(int64(req.Amount)),
		Currency:           stripe.String(strings.ToLower(string(req.Currency))),
		ConfirmationMethod: stripe.String(string(stripe.PaymentIntentConfirmationMethodManual)),
		CaptureMethod:      stripe.String(string(stripe.PaymentIntentCaptureMethodAutomatic)),
		PaymentMethodTypes: []*string{stripe.String("card")},
		Metadata:           map[string]string{metadataTransaction: req.TransactionID, metadataSession: req.SessionID},
	}
	params.SetIdempotencyKey(req.TransactionID + ":create")
	got, err := n.api.V1PaymentIntents.Create(ctx, params)
	if err != nil {
		return "", fmt.Errorf("prepare %s: %w", req.TransactionID, refused(publicError(err)))
	}
	if !isReference(got.ID) {
		return "", fmt.Errorf("prepare %s: %w", req.TransactionID, ErrNoAnswer)
	}
	err = n.checkOurs(got, got.ID)
	if err == nil {
		err = checkRequest(got, req)
	}
	if err != nil {
		return "", fmt.Errorf("prepare %s: %w", req.TransactionID, err)
	}
	return got.ID, nil
}

// refused adds checkout.ErrChargeRefused to an error with a status of 4xx that a wait alone does not mend.
func refused(err error) error {
	var stripes *Error
	if errors.As(err, &stripes) && stripes.Status/100 == 4 && stripes.Status != http.StatusTooManyRequests &&
		stripes.Status != http.StatusConflict {
		return fmt.Errorf("%w: %w", checkout.ErrChargeRefused, err)
	}
	return err
}

// ErrNotConfirmed means that the confirmation did not take place as far as the intent's state says.
// It may still be on its way. The caller asks with Payment and confirms with the next number.
var ErrNotConfirmed = errors.New("the confirmation has not taken place")

// Confirm implements checkout.CardNetwork. It looks at the intent first and confirms it only when
// that is possible and when the intent is the request's. Its result is never Chargeable.
func (n *Network) Confirm(
	ctx context.Context, reference string, number int, req checkout.ChargeRequest,
) (checkout.ChargeResult, error) {
	if err := checkMoney(req.Amount, req.Currency); err != nil {
		return checkout.ChargeResult{}, fmt.Errorf("confirm %s: %w", req.TransactionID, err)
	}
	before, result, err := n.inspectIntent(ctx, reference, req)
	if err != nil || !result.Outcome.Chargeable() {
		return result, err
	}

	confirmed, refusal := n.api.V1PaymentIntents.Confirm(ctx, reference, confirmation(before, number, req))
	if refusal == nil {
		if err := checkRequest(confirmed, req); err != nil {
			return checkout.ChargeResult{}, err
		}
		result, err = outcome(confirmed)
	} else { // whatever the error says, the intent's state decides
		_, result, err = n.inspectIntent(ctx, reference, req)
	}
	switch {
	case err != nil:
		return checkout.ChargeResult{}, err
	case !result.Outcome.Chargeable():
		return result, nil
	}
	return n.notConfirmed(ctx, reference, result, refusal)
}

// inspectIntent reads the intent and says what its state means. An intent that is not the request's is an error.
func (n *Network) inspectIntent(
	ctx context.Context, reference string, req checkout.ChargeRequest,
) (*stripe.PaymentIntent, checkout.ChargeResult, error) {
	i, err := n.intent(ctx, reference)
	if err != nil {
		return nil, checkout.ChargeResult{}, err
	}
	if err := checkRequest(i, req); err != nil {
		return nil, checkout.ChargeResult{}, err
	}
	result, err := outcome(i)
	return i, result, err
}

// confirmation returns the parameters of a confirmation. After the bank's page the intent holds the card already.
func confirmation(
	before *stripe.PaymentIntent, number int, req checkout.ChargeRequest,
) *stripe.PaymentIntentConfirmParams {
	params := &stripe.PaymentIntentConfirmParams{
		Expand:    expanded,
		ReturnURL: stripe.String(req.ReturnURL),
		// The bank's page is a redirect and needs no script of Stripe's.
		UseStripeSDK: stripe.Bool(false),
	}
	if before.Status == stripe.PaymentIntentStatusRequiresPaymentMethod {
		params.ConfirmationToken = stripe.String(req.Token)
	}
	params.SetIdempotencyKey(req.TransactionID + ":confirm:" + strconv.Itoa(number))
	return params
}

// notConfirmed answers a confirmation that left the intent as it was. When Stripe refused the token of a new intent for
// good, as it does with a token that was used or never existed, no repeat can mend it: the payment failed. The caller
// cancels the intent before it records that, so the answer stays safe when an earlier confirmation is still on its way.
func (n *Network) notConfirmed(
	ctx context.Context, reference string, result checkout.ChargeResult, refusal error,
) (checkout.ChargeResult, error) {
	if refusal == nil {
		return checkout.ChargeResult{}, fmt.Errorf("confirm %s: %w", reference, ErrNotConfirmed)
	}
	var stripes *Error
	reason := publicError(refusal)
	if result.Outcome == checkout.OutcomeUntried && errors.As(reason, &stripes) && stripes.definite() {
		slog.WarnContext(ctx, "Stripe refuses a confirmation", "reference", reference, "status", stripes.Status,
			"code", stripes.Code, "stripe_request_id", stripes.RequestID)
		result.Outcome, result.Failure = checkout.OutcomeFailed, checkout.FailureProcessingError
		return result, nil
	}
	return checkout.ChargeResult{}, fmt.Errorf("confirm %s: %w: %w", reference, ErrNotConfirmed, reason)
}

// Payment implements checkout.CardNetwork.
func (n *Network) Payment(ctx context.Context, reference string) (checkout.ChargeResult, error) {
	i, err := n.intent(ctx, reference)
	if err != nil {
		return checkout.ChargeResult{}, err
	}
	return outcome(i)
}

// Cancel implements checkout.CardNetwork. It needs no idempotency key: an intent is canceled once, and Stripe refuses
// everything afterwards. It returns an error as long as the intent is neither canceled nor charged.
func (n *Network) Cancel(
	ctx context.Context, reference string, reason checkout.FailureCode,
) (checkout.ChargeResult, error) {
	before, err := n.intent(ctx, reference)
	if err != nil {
		return checkout.ChargeResult{}, err
	}
	if before.Status == stripe.PaymentIntentStatusSucceeded || before.Status == stripe.PaymentIntentStatusCanceled {
		return ended(before, reason)
	}
	params := &stripe.PaymentIntentCancelParams{Expand: expanded}
	if reason == checkout.FailureThreeDSAbandoned {
		params.CancellationReason = stripe.String(string(stripe.PaymentIntentCancellationReasonAbandoned))
	}
	if _, refusal := n.api.V1PaymentIntents.Cancel(ctx, reference, params); refusal != nil {
		err = publicError(refusal)
	}
	// The state decides, also when Stripe said yes.
	after, lookErr := n.intent(ctx, reference)
	switch {
	case lookErr != nil:
		return checkout.ChargeResult{}, lookErr
	case after.Status == stripe.PaymentIntentStatusSucceeded, after.Status == stripe.PaymentIntentStatusCanceled:
		return ended(after, reason)
	case err == nil:
		err = ErrNoAnswer
	}
	return checkout.ChargeResult{}, fmt.Errorf("cancel %s: %w", reference, err)
}

// ended says how an intent ended. A canceled one failed for the caller's reason.
func ended(i *stripe.PaymentIntent, reason checkout.FailureCode) (checkout.ChargeResult, error) {
	result, err := outcome(i)
	if result.Outcome == checkout.OutcomeFailed {
		result.Failure = reason
	}
	return result, err
}
