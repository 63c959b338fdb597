package hosted

import (
	"fmt"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
)

// texts are all texts for customers in one language. Texts with %s or %d are formats; every
// language has the same ones. Each language has a file in languages/. A new text is a field here, a line in
// each language, and its place in a template. In French, a no-break space stands before ":", and a narrow
// one before ";", "!" and "?".
type texts struct {
	Skip, Language                                                  string
	TestBadge, TestLead, TestBefore, TestCard, TestAfter            string
	Total, Amount, Reference, ExpiresIn, ExpiresAt                  string
	FiveMinutes, OneMinute                                          string
	Support, Terms, PrivacyPolicy                                   string
	Items, Description, ReturnsTo, Privacy                          string
	FormHeading, Email, EmailHint, Card, CardNumber, Exp, ExpHint   string
	Accepted, CVC, CVCHint, CVCHintAmex, Name, Pay, Paying          string
	DeclinedHeading, AttemptsLeft, LastAttempt                      string
	FixHeading, FixErrors, OvertakenHeading, OvertakenText          string
	OfflineHeading, OfflineText                                     string
	NotReady, NetworkAway, NotPossibleHeading, NotPossible          string
	Simulated, ScriptNeeded, CardLoading, CardAwayHeading, CardAway string
	CardFault, FixLive, PrivacyLive                                 string
	NumberMissing, NumberDigits, NumberShort, NumberLong, NumberBad string
	ExpMissing, ExpFormat, ExpMonth, ExpPast, ExpFar                string
	CVCMissing, CVCThree, CVCFour, CVCEither                        string
	EmailMissing, EmailBad, EmailLong, EmailCard                    string
	NameMissing, NameLong, NameBad, NameCard                        string
	ActionHeading, ActionText, ActionButton, ActionAgain            string
	ProcessingHeading, ProcessingText, ProcessingKeep               string
	CheckingHeading, CheckingText, CheckingCancel                   string
	CompletedHeading, CompletedText, CompletedBack, CompletedSoon   string
	CompletedElsewhere, CompletedStay, CompletedStays               string
	CompletedClose, CompletedPrint                                  string
	AmountPaid, PaidWith, PaidTo, PaidAt, PaymentReference          string
	FailedHeading, FailedText, ExpiredHeading, ExpiredText          string
	ClosedText                                                      string
	UnknownTitle, UnknownText, MethodTitle, MethodText              string
	ForbiddenTitle, ForbiddenText, TooLargeTitle, TooLargeText      string
	TooManyTitle, TooManyText                                       string
	UnreadableTitle, UnreadableText, AwayTitle, AwayText            string
	TryAgain                                                        string
	ReceiptSubject, ReceiptWhy                                      string // of the mail
	TitlePay, TitleState                                            string

	// Reasons of failed payments, one for each checkout.FailureCode.
	CardDeclined, InsufficientFunds, ExpiredCard, IncorrectCVC      string
	FraudBlocked, ThreeDSFailed, ThreeDSAbandoned, ProcessingFailed string

	Months string // twelve words
	Date   string // day, month, year, time
}

// failure returns the reason of a failed payment for the customer.
func (t *texts) failure(code checkout.FailureCode) string {
	return map[checkout.FailureCode]string{
		checkout.FailureCardDeclined: t.CardDeclined, checkout.FailureInsufficientFunds: t.InsufficientFunds,
		checkout.FailureExpiredCard: t.ExpiredCard, checkout.FailureIncorrectCVC: t.IncorrectCVC,
		checkout.FailureFraudBlocked: t.FraudBlocked, checkout.FailureThreeDSFailed: t.ThreeDSFailed,
		checkout.FailureThreeDSAbandoned: t.ThreeDSAbandoned, checkout.FailureProcessingError: t.ProcessingFailed,
	}[code]
}

// date writes a time out, in UTC.
func (t *texts) date(at time.Time) string {
	at = at.UTC()
	return fmt.Sprintf(t.Date, at.Day(), strings.Fields(t.Months)[at.Month()-1], at.Year(), at.Format("15:04 MST"))
}
