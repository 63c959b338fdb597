package acquirer

import "strings"

// A card is the behavior of the banks for a test card. The double never stores a card's number: it stores
// the card's name in this table.
type card struct {
	name    string // as in Stripe's pm_card_…
	number  string
	brand   string
	country string
	// code and declineCode refuse the charge. blocked: Radar refused it, without a bank.
	code, declineCode string
	blocked           bool
	// asks sends the customer to the bank's page (3-D Secure); refuses makes the bank say no there.
	asks, refuses bool
	// disputed is the status in which charges are disputed at once; "" disputes none. The bank warns of fraud in charges
	// that are warned. refund is the fate of a refund: "" succeeds.
	disputed string
	warned   bool
	refund   string
}

// Fates of refunds.
const (
	refundLater = "later" // pending until it is settled
	refundFails = "fails" // succeeds, and fails when it is settled
)

// unknownCard is every card that is not in the table. Stripe's test mode refuses real cards too.
const unknownCard = "unknown"

// cards are those of Stripe's test mode that a checkout meets. Source: docs.stripe.com/testing.
var cards = []card{
	{name: "visa", number: "4242424242424242", brand: "visa", country: "US"},
	{name: "visa_debit", number: "4000056655665556", brand: "visa", country: "US"},
	{name: "mastercard", number: "5555555555554444", brand: "mastercard", country: "US"},
	{name: "amex", number: "378282246310005", brand: "amex", country: "US"},
	{name: "discover", number: "6011111111111117", brand: "discover", country: "US"},
	{name: "diners", number: "3056930009020004", brand: "diners", country: "US"},
	{name: "jcb", number: "3566002020360505", brand: "jcb", country: "JP"},
	{name: "unionpay", number: "6200000000000005", brand: "unionpay", country: "CN"},
	{name: "de", number: "4000002760000016", brand: "visa", country: "DE"},

	refused("visa_chargeDeclined", "4000000000000002", "card_declined", "generic_decline"),
	refused("visa_chargeDeclinedInsufficientFunds", "4000000000009995", "card_declined", "insufficient_funds"),
	refused("visa_chargeDeclinedLostCard", "4000000000009987", "card_declined", "lost_card"),
	refused("visa_chargeDeclinedStolenCard", "4000000000009979", "card_declined", "stolen_card"),
	refused("chargeDeclinedExpiredCard", "4000000000000069", "expired_card", "expired_card"),
	refused("chargeDeclinedIncorrectCvc", "4000000000000127", "incorrect_cvc", "incorrect_cvc"),
	refused("chargeDeclinedProcessingError", "4000000000000119", "processing_error", "processing_error"),
	refused("chargeDeclinedFraudulent", "4100000000000019", "card_declined", "fraudulent").byRadar(),
	refused("radarBlock", "4000000000004954", "card_declined", "fraudulent").byRadar(),
	refused(unknownCard, "", "card_declined", "test_mode_live_card"),

	{name: "threeDSecure2Required", number: "4000000000003220", brand: "visa", country: "IE", asks: true},
	{name: "authenticationRequired", number: "4000002760003184", brand: "visa", country: "DE", asks: true},
	{name: "authenticationRequiredChargeDeclinedInsufficientFunds", number: "4000008260003178", brand: "visa",
		country: "GB", asks: true, code: "card_declined", declineCode: "insufficient_funds"},
	{name: "threeDSecureRequiredChargeDeclined", number: "4000008400001629", brand: "visa", country: "US",
		asks: true, code: "card_declined", declineCode: "generic_decline"},
	{name: "threeDSecureRefused", number: "4000000000003063", brand: "visa", country: "US", asks: true, refuses: true},

	{name: "createDispute", number: "4000000000000259", brand: "visa", country: "US", disputed: "needs_response"},
	{name: "createDisputeInquiry", number: "4000000000001976", brand: "visa", country: "US",
		disputed: "warning_needs_response"},
	{name: "createIssuerFraudRecord", number: "4000000000005423", brand: "visa", country: "US", warned: true},
	{name: "pendingRefund", number: "4000000000007726", brand: "visa", country: "US", refund: refundLater},
	{name: "refundFail", number: "4000000000005126", brand: "visa", country: "US", refund: refundFails},
}

func refused(name, number, code, declineCode string) card {
	return card{name: name, number: number, brand: "visa", country: "US", code: code, declineCode: declineCode}
}

func (c card) byRadar() card {
	c.blocked = true
	return c
}

// cardNamed returns the card of that name. An unknown name is unknownCard.
func cardNamed(name string) card {
	for _, c := range cards {
		if c.name == name {
			return c
		}
	}
	return cardNamed(unknownCard)
}

// cardNumbered returns the card of that number. An unknown number is unknownCard.
func cardNumbered(number string) card {
	for _, c := range cards {
		if c.number == number && number != "" {
			return c
		}
	}
	c := cardNamed(unknownCard)
	switch {
	case strings.HasPrefix(number, "5"):
		c.brand = "mastercard"
	case strings.HasPrefix(number, "3"):
		c.brand = "amex"
	}
	return c
}
