package hosted

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/checkout/workflows/checkout"
)

// Names of the form's fields.
//
// fieldAttempt is the number of payments that the session had when the form was shown. If the
// number has changed, the form was sent before or another tab has tried to pay. The form is not
// paid then.
//
// fieldConfirmation is the acquirer's name (ctoken_…) of what the customer typed into its form. Only
// the form of a live session has it. The form of a live session has none of cardFields.
//
// fieldPayment is the id of the payment to come: a form sent twice at once asks for one payment;
// see paymentID. A form may lack fieldAttempt, fieldPayment and fieldName.
const (
	fieldCardNumber = "card_number"
	fieldExp        = "exp"
	fieldCVC        = "cvc"
	fieldEmail      = "email"
	fieldName       = "name"
	fieldAttempt    = "attempt"
	fieldPayment    = "payment"

	fieldConfirmation = "confirmation_token"
)

// cardFields are the fields of a card. A live session's form with one of them is refused unread.
var cardFields = []string{fieldCardNumber, fieldExp, fieldCVC, fieldName}

// form holds the values that the page shows in its fields. It has no field for the card number or
// the security code, so that no page ever shows them again.
type form struct {
	Email   string
	Exp     string // "MM / YY", only after it was understood
	Name    string
	Attempt int
	Payment string // txn_…
	Faults  faults
}

// faults holds the message for each field that was refused, "" for the others.
type faults struct{ CardNumber, Exp, CVC, Email, Name string }

// fault is a field's name and its message.
type fault struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// All returns the faults in the order of the fields.
func (f faults) All() []fault {
	var all []fault
	for _, one := range []fault{{fieldEmail, f.Email}, {fieldCardNumber, f.CardNumber}, {fieldExp, f.Exp},
		{fieldCVC, f.CVC}, {fieldName, f.Name}} {
		if one.Message != "" {
			all = append(all, one)
		}
	}
	return all
}

// First returns the name of the first field with a fault, "" without faults.
func (f faults) First() string {
	if all := f.All(); len(all) > 0 {
		return all[0].Field
	}
	return ""
}

// parseForm reads and checks the customer's form. The caller must not use card when there is a
// fault.
func parseForm(t *texts, values url.Values, now time.Time) (card checkout.Card, shown form) {
	shown.Email, shown.Faults.Email = parseEmail(t, values.Get(fieldEmail))
	card.Number, shown.Faults.CardNumber = parseNumber(t, halfWidth(values.Get(fieldCardNumber)))
	card.ExpMonth, card.ExpYear, shown.Faults.Exp = parseExp(t, halfWidth(values.Get(fieldExp)), now)
	if card.ExpYear != 0 {
		shown.Exp = fmt.Sprintf("%02d / %02d", card.ExpMonth, card.ExpYear%100)
	}
	card.CVC, shown.Faults.CVC = parseCVC(t, halfWidth(values.Get(fieldCVC)), brandOf(card.Number))
	if values.Has(fieldName) {
		shown.Name, shown.Faults.Name = parseName(t, values.Get(fieldName))
		card.Name = shown.Name
	}
	return card, shown
}

// confirmationShape is the shape of a confirmation token.
var confirmationShape = regexp.MustCompile(`^ctoken_[A-Za-z0-9_]{1,255}$`)

// parseLiveForm reads and checks the customer's form of a live session. It returns "" without a
// confirmation token.
func parseLiveForm(t *texts, values url.Values) (token string, shown form) {
	shown.Email, shown.Faults.Email = parseEmail(t, values.Get(fieldEmail))
	if typed := values.Get(fieldConfirmation); confirmationShape.MatchString(typed) {
		token = typed
	}
	return token, shown
}

// parseNumber returns the digits of a card number, or a fault.
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

// maxCardYears is how many years in the future a card may expire.
const maxCardYears = 30

// parseExp reads MM/YY, MM/YYYY, M/YY, MMYY and MMYYYY with any separator. It returns the year in
// four digits. It returns zeros unless the text is a date. A card is valid until its month has
// ended everywhere on earth.
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

	month, _ = strconv.Atoi(parts[0]) // cannot fail: at most four digits
	year, _ = strconv.Atoi(parts[1])
	if len(parts[1]) == 2 {
		year += 2000
	}
	if month < 1 || month > 12 {
		return 0, 0, t.ExpMonth
	}

	over := time.Date(year, time.Month(month)+1, 1, 12, 0, 0, 0, time.UTC) // in UTC-12 the month ends last
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

// parseEmail returns the address that the page shows again. It returns "" when the address may hold
// a card number, typed into the wrong field.
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

// maxName is in characters. A card has room for fewer.
const maxName = 100

// parseName returns the name that the page shows again. It returns "" when the name may hold a card
// number.
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

// unprintable reports whether r is a control character, changes the direction of text or begins a line.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}
