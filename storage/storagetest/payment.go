package storagetest

import (
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// LiveChain is the chain of the payouts of Payment in live mode.
const LiveChain = "eip155:1"

// Payment is a payment of a session, with a card: in the sandbox, and in live mode at Stripe for a payout on LiveChain.
func Payment(sessionID string, mode checkout.Mode) storage.NewPayment {
	p := storage.NewPayment{
		ID: checkout.NewID(checkout.PrefixTransaction), SessionID: sessionID, CardToken: "tok_1",
		Method:   checkout.PaymentMethod{Type: "card", Last4: "4242"},
		Acquirer: checkout.AcquirerSandbox, ChainRef: checkout.ChainSandbox,
	}
	if mode.Live() {
		p.Acquirer, p.ChainRef = checkout.AcquirerStripe, LiveChain
	}
	return p
}
