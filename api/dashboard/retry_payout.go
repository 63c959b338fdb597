package dashboard

import (
	"errors"

	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/workflows/checkout"
)

var payoutRetried = face.Notice("payout_retried", "The payout is sent again, to your current payout address.")

// retryPayout serves POST …/sessions/{id}/retry_payout.
func (s *server) retryPayout(v face.Visit, session checkout.Session) (face.Answer, error) {
	p := session.Payout
	if p == nil {
		return face.Answer{}, checkout.ErrNotFound
	}

	entry := v.Audit(checkout.PayoutRetried, p.ID, p.RetryDetail())
	_, err := s.Workflows.RetryPayout(v.Context(), s.Store, p.Ref, entry, s.leftToReconcile)
	reverted, isReverted := errors.AsType[*checkout.AddressRevertedError](err)
	switch {
	case isReverted:
		return s.sessionPage(v, "The network reverted a transfer to "+reverted.Address+". "+reverted.Advice())
	case errors.Is(err, checkout.ErrPayoutNotFailed):
		return s.sessionPage(v, "The payout has not failed, or was already retried.")
	case errors.Is(err, checkout.ErrTransferStands):
		return s.sessionPage(v, "A signed transfer may still pay the payout, so it cannot be retried.")
	case errors.Is(err, checkout.ErrPaymentRefunded):
		return s.sessionPage(v, "The payment is refunded to the customer, so its payout cannot be retried.")
	}
	return face.Done(err, v.Path("/sessions/"+session.ID), payoutRetried)
}
