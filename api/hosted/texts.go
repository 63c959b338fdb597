package hosted

// text is everything that a customer reads, in English. Messages about a
// failed payment come from checkout.FailureCode.Message. Texts with %s are
// formats.
var text = struct {
	Language, Skip                                                  string
	TestBadge, TestLead, TestBefore, TestCard, TestAfter            string
	Total, Amount, Reference, ExpiresIn, ExpiresAt                  string
	FiveMinutes, OneMinute                                          string
	ReturnsTo, Privacy                                              string
	FormHeading, Email, EmailHint, Card, CardNumber, Exp, ExpHint   string
	CVC, CVCHint, CVCHintAmex, Pay, Paying                          string
	DeclinedHeading, AttemptsLeft, LastAttempt                      string
	FixHeading, FixErrors                                           string
	NotReady, NetworkAway                                           string
	NumberMissing, NumberDigits, NumberShort, NumberLong, NumberBad string
	ExpMissing, ExpFormat, ExpMonth, ExpPast, ExpFar                string
	CVCMissing, CVCThree, CVCFour, CVCEither                        string
	EmailMissing, EmailBad, EmailLong, EmailCard                    string
	ActionHeading, ActionText, ActionButton, ActionAgain            string
	ProcessingHeading, ProcessingText, ProcessingKeep               string
	CheckingHeading, CheckingText, CheckingCancel                   string
	CompletedHeading, CompletedText, CompletedBack, CompletedSoon   string
	CompletedClose, Paid, PaidWith, PaidAt, PaymentReference        string
	FailedHeading, FailedText, ExpiredHeading, ExpiredText          string
	UnknownTitle, UnknownText, MethodTitle, MethodText              string
	ForbiddenTitle, ForbiddenText, TooLargeTitle, TooLargeText      string
	UnreadableTitle, UnreadableText, AwayTitle, AwayText            string
	TryAgain                                                        string
	TitlePay, TitleState                                            string
}{
	Language: "en",
	Skip:     "Skip to payment",

	TestBadge:  "Test mode",
	TestLead:   "No real card is charged.",
	TestCard:   "4242 4242 4242 4242",
	TestBefore: "Pay with",
	TestAfter:  ", any future date and any security code.",

	Total:       "Total due",
	Amount:      "Amount",
	Reference:   "Order reference",
	ExpiresIn:   "Time left to pay",
	ExpiresAt:   "Pay before %s",
	FiveMinutes: "Five minutes left to pay.",
	OneMinute:   "One minute left to pay.",
	ReturnsTo:   "After payment you return to %s",
	Privacy:     "Your card details go to the card network only. They are not stored here and %s never sees them.",

	FormHeading: "Pay by card",
	Email:       "Email",
	EmailHint:   "The merchant receives this address with your payment.",
	Card:        "Card details",
	CardNumber:  "Card number",
	Exp:         "Expiry date",
	ExpHint:     "MM / YY",
	CVC:         "Security code",
	CVCHint:     "3 digits on the back",
	CVCHintAmex: "4 digits on the front",
	Pay:         "Pay %s",
	Paying:      "Paying…",

	DeclinedHeading: "Your payment did not go through",
	AttemptsLeft:    "You can try %d more times.",
	LastAttempt:     "You can try one more time.",
	FixHeading:      "Check the marked fields",
	FixErrors:       "You have not been charged. For your safety, enter your card number and security code again.",
	NotReady:        "This merchant cannot accept card payments yet. You have not been charged.",
	NetworkAway:     "We could not reach the card network. You have not been charged. Enter your card again in a moment.",

	NumberMissing: "Enter your card number.",
	NumberDigits:  "A card number has digits only.",
	NumberShort:   "This card number is too short.",
	NumberLong:    "This card number is too long.",
	NumberBad:     "This card number is not valid. Check every digit.",
	ExpMissing:    "Enter the expiry date of your card.",
	ExpFormat:     "Enter the expiry date as MM/YY, for example 04/30.",
	ExpMonth:      "The month must be between 01 and 12.",
	ExpPast:       "This card has expired. Use another card.",
	ExpFar:        "This year is too far away. Check the expiry date.",
	CVCMissing:    "Enter the security code of your card.",
	CVCThree:      "The security code has 3 digits.",
	CVCFour:       "The security code has 4 digits.",
	CVCEither:     "The security code has 3 or 4 digits.",
	EmailMissing:  "Enter your email address.",
	EmailBad:      "Enter an email address such as name@example.com.",
	EmailLong:     "An email address has at most 254 characters.",
	EmailCard:     "This looks like a card number. Enter your email address.",

	ActionHeading: "Your bank wants to confirm that it is you",
	ActionText:    "Your payment continues when you have confirmed it on your bank’s page. You come back here afterwards.",
	ActionButton:  "Continue to your bank",
	ActionAgain:   "I have confirmed already",

	ProcessingHeading: "Your payment is being processed",
	ProcessingText:    "This can take a little while. There is nothing that you need to do.",
	ProcessingKeep:    "This page updates by itself. Please do not pay again.",

	CheckingHeading: "We are still checking your payment",
	CheckingText:    "We have not had an answer yet. Keep this page open: it goes on by itself as soon as there is one. Please do not pay again elsewhere.",
	CheckingCancel:  "Cancel and start again",

	CompletedHeading: "Payment successful",
	CompletedText:    "Thank you. %s has received your payment.",
	CompletedBack:    "Return to %s",
	CompletedSoon:    "You are taken to %s in a few seconds.",
	CompletedClose:   "You can close this page now.",
	Paid:             "Amount paid",
	PaidWith:         "Card",
	PaidAt:           "Date",
	PaymentReference: "Payment reference",

	FailedHeading:  "This payment has failed",
	FailedText:     "You have not been charged, and this payment cannot be tried again. Go back to %s to start a new one.",
	ExpiredHeading: "This session expired",
	ExpiredText:    "You have not been charged. Go back to %s to start a new payment.",

	UnknownTitle:    "Page not found",
	UnknownText:     "There is no payment at this address. Check the link, or go back to the shop and start again.",
	MethodTitle:     "That does not work here",
	MethodText:      "This address cannot be used in that way.",
	ForbiddenTitle:  "This form came from another site",
	ForbiddenText:   "For your safety it was not accepted, and you have not been charged. Open the payment page again from the shop. An up-to-date browser is needed.",
	TooLargeTitle:   "That was too much",
	TooLargeText:    "The form was larger than this page accepts. You have not been charged.",
	UnreadableTitle: "The form could not be read",
	UnreadableText:  "You have not been charged. Go back and try again.",
	AwayTitle:       "We will be right back",
	AwayText:        "This page is unavailable for a moment. Try again shortly.",
	TryAgain:        "Try again",

	TitlePay:   "Pay %s",
	TitleState: "%s – %s",
}
