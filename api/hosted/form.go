package hosted

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/checkout/workflows/checkout"
)

// Names of the form's fields. fieldAttempt is how many payments the session had
// when the form was made: a form that is sent twice, or that another tab has
// overtaken, is not paid twice. A form without it is taken as it is.
const (
	fieldCardNumber = "card_number"
	fieldExp        = "exp"
	fieldCVC        = "cvc"
	fieldEmail      = "email"
	fieldAttempt    = "attempt"
)

// form is what the page shows in its fields. It has no place for a card number
// or security code, so that none is ever shown again.
type form struct {
	Email   string
	Exp     string // only as read: "MM / YY"
	Attempt int
	Faults  faults
}

// faults holds the message of each field that cannot be accepted, "" for the
// others.
type faults struct{ CardNumber, Exp, CVC, Email string }

// First returns the name of the first field with a fault, "" when none has one.
func (f faults) First() string {
	switch {
	case f.Email != "":
		return fieldEmail
	case f.CardNumber != "":
		return fieldCardNumber
	case f.Exp != "":
		return fieldExp
	case f.CVC != "":
		return fieldCVC
	}
	return ""
}

// parseForm reads and checks what the customer sent. When a field has a fault,
// card must not be used.
func parseForm(values url.Values, now time.Time) (card checkout.Card, shown form) {
	shown.Email, shown.Faults.Email = parseEmail(values.Get(fieldEmail))
	card.Number, shown.Faults.CardNumber = parseNumber(values.Get(fieldCardNumber))
	card.ExpMonth, card.ExpYear, shown.Faults.Exp = parseExp(values.Get(fieldExp), now)
	if card.ExpYear != 0 {
		shown.Exp = fmt.Sprintf("%02d / %02d", card.ExpMonth, card.ExpYear%100)
	}
	card.CVC, shown.Faults.CVC = parseCVC(values.Get(fieldCVC), brandOf(card.Number))
	return card, shown
}

// parseNumber returns the digits of a card number, or what is wrong with it.
func parseNumber(typed string) (digits, fault string) {
	digits = stripSeparators(strings.TrimSpace(typed))
	lengths := brandOf(digits).lengths
	switch {
	case digits == "":
		return "", text.NumberMissing
	case !isDigits(digits):
		return "", text.NumberDigits
	case len(digits) > lengths[len(lengths)-1]:
		return digits, text.NumberLong
	case !slices.Contains(lengths, len(digits)):
		return digits, text.NumberShort
	case !luhn(digits):
		return digits, text.NumberBad
	}
	return digits, ""
}

// maxCardYears is how far away an expiry date may be.
const maxCardYears = 30

// parseExp reads MM/YY, MM/YYYY, M/YY, MMYY and MMYYYY with any separator. It
// returns the year in four digits, and zeros unless the text is a date. A card
// is good until its month has ended everywhere on earth.
func parseExp(typed string, now time.Time) (month, year int, fault string) {
	typed = strings.TrimSpace(typed)
	if typed == "" {
		return 0, 0, text.ExpMissing
	}
	parts := strings.FieldsFunc(typed, func(r rune) bool { return strings.ContainsRune(" /-.\u00a0", r) })
	if len(parts) == 1 && (len(parts[0]) == 4 || len(parts[0]) == 6) {
		parts = []string{parts[0][:2], parts[0][2:]}
	}
	if len(parts) != 2 || !isDigits(parts[0]) || !isDigits(parts[1]) ||
		len(parts[0]) > 2 || (len(parts[1]) != 2 && len(parts[1]) != 4) {
		return 0, 0, text.ExpFormat
	}
	month, _ = strconv.Atoi(parts[0]) // at most four digits, see above
	year, _ = strconv.Atoi(parts[1])
	if len(parts[1]) == 2 {
		year += 2000
	}
	if month < 1 || month > 12 {
		return 0, 0, text.ExpMonth
	}
	over := time.Date(year, time.Month(month)+1, 1, 12, 0, 0, 0, time.UTC) // UTC-12 is the last to turn
	switch {
	case !now.Before(over):
		return month, year, text.ExpPast
	case year > now.UTC().Year()+maxCardYears:
		return 0, 0, text.ExpFar
	}
	return month, year, ""
}

// parseCVC checks the security code against the card's brand.
func parseCVC(typed string, b brand) (cvc, fault string) {
	cvc = strings.TrimSpace(typed)
	right := len(cvc) == b.cvcLength || (b.cvcLength == 0 && (len(cvc) == 3 || len(cvc) == 4))
	switch {
	case cvc == "":
		return "", text.CVCMissing
	case right && isDigits(cvc):
		return cvc, ""
	case b.cvcLength == 3:
		return "", text.CVCThree
	case b.cvcLength == 4:
		return "", text.CVCFour
	}
	return "", text.CVCEither
}

// parseEmail returns the address to show again, "" when it may hold a card
// number that was typed into the wrong field.
func parseEmail(typed string) (email, fault string) {
	email = strings.TrimSpace(typed)
	switch {
	case email == "":
		return "", text.EmailMissing
	case holdsCard(email):
		return "", text.EmailCard
	case !utf8.ValidString(email) || strings.ContainsFunc(email, unicode.IsControl):
		return "", text.EmailBad
	case utf8.RuneCountInString(email) > checkout.MaxEmail:
		return "", text.EmailLong
	case !checkout.ValidEmail(email):
		return email, text.EmailBad
	}
	return email, ""
}
