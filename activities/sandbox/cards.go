// Package sandbox is the card network and the chain of test mode. Only the test card and the payout
// address decide an outcome. Outcomes are stored in PostgreSQL, so a restart changes none of them.
// The sandbox tables stand for systems outside the service.
package sandbox

import (
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
)

// behavior is the network's treatment of a card.
type behavior string

const (
	succeeds            behavior = "succeeds"
	declines            behavior = "declines"             // with failures[behavior's card]
	asksAndPasses       behavior = "3ds_passes"           // 3-D Secure
	asksAndFails        behavior = "3ds_fails"            //
	asksAndIsAbandoned  behavior = "3ds_abandoned"        //
	settlesLater        behavior = "settles_later"        // processing, then a callback, twice
	timesOutAfterCharge behavior = "times_out_after"      // charged, but the first answer is lost
	failsTwiceFirst     behavior = "fails_twice_first"    // not charged, two errors, then fine
	payoutBreaks        behavior = "payout_network_error" // charged; its payout fails
	payoutBadAddress    behavior = "payout_invalid_address"
	refundPends         behavior = "refund_pends"    // charged; its refunds are decided later
	refundReturned      behavior = "refund_returned" // charged; the bank returns its refunds later
	refundRefused       behavior = "refund_refused"  // charged; not refundable
	disputed            behavior = "disputed"        // charged; then see denials
	inquired            behavior = "inquired"        //
	fraudWarned         behavior = "fraud_warned"    //
)

// card is the meaning of a card number.
type card struct {
	brand    string
	country  string
	behavior behavior
	failure  checkout.FailureCode
}

// cards are the documented test cards, by number. Every other number is declined. Source: api/README.md, "Test cards".
var cards = map[string]card{
	"4242424242424242": {brand: "visa", country: "US", behavior: succeeds},
	"5555555555554444": {brand: "mastercard", country: "US", behavior: succeeds},
	"378282246310005":  {brand: "amex", country: "US", behavior: succeeds},
	"6011111111111117": {brand: "discover", country: "US", behavior: succeeds},
	"3056930009020004": {brand: "diners", country: "US", behavior: succeeds},
	"3566002020360505": {brand: "jcb", country: "JP", behavior: succeeds},
	"6200000000000005": {brand: "unionpay", country: "CN", behavior: succeeds},

	"4000000000000002": {brand: "visa", country: "US", behavior: declines, failure: checkout.FailureCardDeclined},
	"4000000000009995": {brand: "visa", country: "US", behavior: declines, failure: checkout.FailureInsufficientFunds},
	"4000000000000069": {brand: "visa", country: "US", behavior: declines, failure: checkout.FailureExpiredCard},
	"4000000000000127": {brand: "visa", country: "US", behavior: declines, failure: checkout.FailureIncorrectCVC},
	"4000000000000119": {brand: "visa", country: "US", behavior: declines, failure: checkout.FailureProcessingError},
	"4100000000000019": {brand: "visa", country: "US", behavior: declines, failure: checkout.FailureFraudBlocked},

	"4000000000003220": {brand: "visa", country: "IE", behavior: asksAndPasses},
	"4000008400001629": {brand: "visa", country: "US", behavior: asksAndFails},
	"4000000000003063": {brand: "visa", country: "US", behavior: asksAndIsAbandoned},

	"4000000000000077": {brand: "visa", country: "US", behavior: settlesLater},
	"4000000000000341": {brand: "visa", country: "US", behavior: timesOutAfterCharge},
	"4000000000000259": {brand: "visa", country: "US", behavior: failsTwiceFirst},

	"4000000000000267": {brand: "visa", country: "US", behavior: payoutBreaks},
	"4000000000000275": {brand: "visa", country: "US", behavior: payoutBadAddress},

	"4000000000007726": {brand: "visa", country: "US", behavior: refundPends},
	"4000000000005126": {brand: "visa", country: "US", behavior: refundReturned},
	"4000000000000283": {brand: "visa", country: "US", behavior: refundRefused},

	"4000000000000291": {brand: "visa", country: "US", behavior: disputed},
	"4000000000001976": {brand: "visa", country: "US", behavior: inquired},
	"4000000000005423": {brand: "visa", country: "US", behavior: fraudWarned},
}

// lookup returns the meaning of the card. An undocumented number is declined; its first digits give the brand.
func lookup(c checkout.Card, now time.Time) card {
	known, ok := cards[c.Number]
	if !ok {
		known = card{brand: "unknown", country: "US", behavior: declines, failure: checkout.FailureCardDeclined}
	}
	if over := time.Date(c.ExpYear, time.Month(c.ExpMonth)+1, 1, 0, 0, 0, 0, time.UTC); !now.Before(over) {
		known.behavior, known.failure = declines, checkout.FailureExpiredCard
	}
	return known
}

// method returns the facts about the card that may be shown.
func (k card) method(c checkout.Card) checkout.PaymentMethod {
	last4 := c.Number
	if len(last4) > 4 {
		last4 = last4[len(last4)-4:]
	}
	return checkout.PaymentMethod{
		Type: "card", Brand: k.brand, Last4: last4, ExpMonth: c.ExpMonth, ExpYear: c.ExpYear, Country: k.country,
		ThreeDSecure: strings.HasPrefix(string(k.behavior), "3ds_"),
	}
}
