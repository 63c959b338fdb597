package stripe

import (
	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
)

// failures maps Stripe's words for a refused card to ours. Stripe has them as codes and as decline codes; the decline
// code says more. Every other word means that the card was declined. Source: docs.stripe.com/declines/codes.
var failures = map[string]checkout.FailureCode{
	"insufficient_funds": checkout.FailureInsufficientFunds,
	"expired_card":       checkout.FailureExpiredCard,
	"incorrect_cvc":      checkout.FailureIncorrectCVC,
	"invalid_cvc":        checkout.FailureIncorrectCVC,
	"processing_error":   checkout.FailureProcessingError,
	"fraudulent":         checkout.FailureFraudBlocked,

	string(stripe.ErrorCodePaymentIntentAuthenticationFailure): checkout.FailureThreeDSFailed,
}

// failure returns why the intent's last confirmation failed.
func failure(i *stripe.PaymentIntent) checkout.FailureCode {
	// Radar's own decision comes first: the bank was not asked.
	if charge := i.LatestCharge; charge != nil && charge.Outcome != nil && charge.Outcome.Type == "blocked" {
		return checkout.FailureFraudBlocked
	}
	if i.LastPaymentError == nil {
		return checkout.FailureProcessingError
	}
	if code, known := failures[string(i.LastPaymentError.DeclineCode)]; known {
		return code
	}
	if code, known := failures[string(i.LastPaymentError.Code)]; known {
		return code
	}
	return checkout.FailureCardDeclined
}

// failureOfCanceled returns why a canceled intent failed. Our own cancellation leaves a decline's error in place.
// Without one, the reason of the cancellation shows whether the customer was at the bank.
func failureOfCanceled(i *stripe.PaymentIntent) checkout.FailureCode {
	switch {
	case i.LastPaymentError != nil:
		return failure(i)
	case i.CancellationReason == stripe.PaymentIntentCancellationReasonAbandoned:
		return checkout.FailureThreeDSAbandoned
	}
	return checkout.FailureProcessingError
}

// authenticationFailed reports whether the customer's bank could not confirm the customer.
func authenticationFailed(err *stripe.Error) bool {
	return err != nil && err.Code == stripe.ErrorCodePaymentIntentAuthenticationFailure
}
