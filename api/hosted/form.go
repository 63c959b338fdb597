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
// overtaken, is not paid twice. fieldPayment is the id that the payment will
// have: when a form is sent twice at once, both ask for the same payment. A form
// without either, or without fieldName, is taken as it is.
const (
	fieldCardNumber = "card_number"
	fieldExp        = "exp"
	fieldCVC        = "cvc"
	fieldEmail      = "email"
	fieldName       = "name"
	fieldAttempt    = "attempt"
	fieldPayment    = "payment"
)

// form is what the page shows in its fields. It has no place for a card number
// or security code, so that none is ever shown again.
type form struct {
	Email   string
	Exp     string // only as read: "MM / YY"
	Name    string
	Attempt int
	Payment string // txn_…
	Faults  faults
}

// faults holds the message of each field that cannot be accepted, "" for the
// others.
type faults struct{ CardNumber, Exp, CVC, Email, Name string }

// fault is what is wrong with one field.
type fault struct{ Field, Message string }

// All returns the faults in the order of the fields.
func (f faults) All() []fault {
	var all []fault
	for _, one := range []fault{{fieldEmail, f.Email}, {fieldCardNumber, f.CardNumber}, {fieldExp, f.Exp}, {fieldCVC, f.CVC}, {fieldName, f.Name}} {
		if one.Message != "" {
			all = append(all, one)
		}
	}
	return all
}

// First returns the name of the first field with a fault, "" when none has one.
func (f faults) First() string {
	if all := f.All(); len(all) > 0 {
		return all[0].Field
	}
	return ""
}

// parseForm reads and checks what the customer sent. When a field has a fault,
// card must not be used.
func parseForm(t *texts, values url.Values, now time.Time) (card checkout.Card, shown form) {
	shown.Email, shown.Faults.Email = parseEmail(t, values.Get(fieldEmail))
	card.Number, shown.Faults.CardNumber = parseNumber(t, values.Get(fieldCardNumber))
	card.ExpMonth, card.ExpYear, shown.Faults.Exp = parseExp(t, values.Get(fieldExp), now)
	if card.ExpYear != 0 {
		shown.Exp = fmt.Sprintf("%02d / %02d", card.ExpMonth, card.ExpYear%100)
	}
	card.CVC, shown.Faults.CVC = parseCVC(t, values.Get(fieldCVC), brandOf(card.Number))
	if values.Has(fieldName) {
		shown.Name, shown.Faults.Name = parseName(t, values.Get(fieldName))
		card.Name = shown.Name
	}
	return card, shown
}

// parseNumber returns the digits of a card number, or what is wrong with it.
func parseNumber(t *texts, typed string) (digits, fault string) {
	digits = stripSeparators(strings.TrimSpace(typed))
	lengths := brandOf(digits).lengths
	switch {
	case digits == "":
		return "", t.NumberMissing
	case !isDigits(digits):
		return "", t.NumberDigits
	case len(digits) > lengths[len(lengths)-1]:
		return digits, t.NumberLong
	case !slices.Contains(lengths, len(digits)):
		return digits, t.NumberShort
	case !luhn(digits):
		return digits, t.NumberBad
	}
	return digits, ""
}

// maxCardYears is how far away an expiry date may be.
const maxCardYears = 30

// parseExp reads MM/YY, MM/YYYY, M/YY, MMYY and MMYYYY with any separator. It
// returns the year in four digits, and zeros unless the text is a date. A card
// is good until its month has ended everywhere on earth.
func parseExp(t *texts, typed string, now time.Time) (month, year int, fault string) {
	typed = strings.TrimSpace(typed)
	if typed == "" {
		return 0, 0, t.ExpMissing
	}
	parts := strings.FieldsFunc(typed, func(r rune) bool { return strings.ContainsRune(" /-.\u00a0", r) })
	if len(parts) == 1 && (len(parts[0]) == 4 || len(parts[0]) == 6) {
		parts = []string{parts[0][:2], parts[0][2:]}
	}
	if len(parts) != 2 || !isDigits(parts[0]) || !isDigits(parts[1]) ||
		len(parts[0]) > 2 || (len(parts[1]) != 2 && len(parts[1]) != 4) {
		return 0, 0, t.ExpFormat
	}
	month, _ = strconv.Atoi(parts[0]) // at most four digits, see above
	year, _ = strconv.Atoi(parts[1])
	if len(parts[1]) == 2 {
		year += 2000
	}
	if month < 1 || month > 12 {
		return 0, 0, t.ExpMonth
	}
	over := time.Date(year, time.Month(month)+1, 1, 12, 0, 0, 0, time.UTC) // UTC-12 is the last to turn
	switch {
	case !now.Before(over):
		return month, year, t.ExpPast
	case year > now.UTC().Year()+maxCardYears:
		return 0, 0, t.ExpFar
	}
	return month, year, ""
}

// parseCVC checks the security code against the card's brand.
func parseCVC(t *texts, typed string, b brand) (cvc, fault string) {
	cvc = strings.TrimSpace(typed)
	right := len(cvc) == b.cvcLength || (b.cvcLength == 0 && (len(cvc) == 3 || len(cvc) == 4))
	switch {
	case cvc == "":
		return "", t.CVCMissing
	case right && isDigits(cvc):
		return cvc, ""
	case b.cvcLength == 3:
		return "", t.CVCThree
	case b.cvcLength == 4:
		return "", t.CVCFour
	}
	return "", t.CVCEither
}

// parseEmail returns the address to show again, "" when it may hold a card
// number that was typed into the wrong field.
func parseEmail(t *texts, typed string) (email, fault string) {
	email = strings.TrimSpace(typed)
	switch {
	case email == "":
		return "", t.EmailMissing
	case holdsCard(email):
		return "", t.EmailCard
	case !utf8.ValidString(email) || strings.ContainsFunc(email, unicode.IsControl):
		return "", t.EmailBad
	case utf8.RuneCountInString(email) > checkout.MaxEmail:
		return "", t.EmailLong
	case !checkout.ValidEmail(email):
		return email, t.EmailBad
	}
	return email, ""
}

// maxName is more than fits on a card, in characters.
const maxName = 100

// parseName returns the name on the card to show again, "" when it may hold a
// card number.
func parseName(t *texts, typed string) (name, fault string) {
	name = strings.TrimSpace(typed)
	switch {
	case name == "":
		return "", t.NameMissing
	case holdsCard(name):
		return "", t.NameCard
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable):
		return "", t.NameBad
	case utf8.RuneCountInString(name) > maxName:
		return "", t.NameLong
	}
	return name, ""
}

// unprintable says of a character that it controls others instead of being read.
func unprintable(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
