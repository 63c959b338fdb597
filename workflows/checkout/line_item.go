package checkout

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Limits of what the hosted page shows. Source: api/decisions.md, "line_items" and "description".
const (
	MaxDescription  = 500 // characters
	MaxLineItems    = 50
	MaxLineItemName = 200    // characters
	MaxQuantity     = 10_000 // of one line item
)

// Locale is a language of the hosted page, a BCP 47 tag.
type Locale string

// Locales lists the languages of the hosted page in the order of its switch.
var Locales = []Locale{"en", "de", "fr", "es", "pt", "it", "nl", "pl", "sv", "ja"}

// LineItem is a line of what the customer buys. The items of a session add up to its amount.
type LineItem struct {
	Name       string `json:"name"`
	Quantity   int    `json:"quantity"`
	UnitAmount Amount `json:"unit_amount"`
	// ImageURL is the address of a picture, nil for none. It may hold a token, so no log has it.
	ImageURL *string `json:"image_url"`
}

// Total returns the price of the line.
func (i LineItem) Total() Amount { return Amount(i.Quantity) * i.UnitAmount }

// SumOf returns the price of all items. It cannot overflow within the limits.
func SumOf(items []LineItem) (sum Amount) {
	for _, i := range items {
		sum += i.Total()
	}
	return sum
}

// UnmarshalJSON reads what MarshalJSON wrote, from PostgreSQL.
func (i *LineItem) UnmarshalJSON(b []byte) error {
	var stored struct {
		Name       string      `json:"name"`
		Quantity   int         `json:"quantity"`
		UnitAmount json.Number `json:"unit_amount"`
		ImageURL   *string     `json:"image_url"`
	}
	if err := json.Unmarshal(b, &stored); err != nil {
		return err
	}
	amount, err := ParseUnitAmount(string(stored.UnitAmount))
	*i = LineItem{stored.Name, stored.Quantity, amount, stored.ImageURL}
	return err
}

// ParseUnitAmount is ParseAmount for the price of one piece, which may be 0.00 too. Merchants see the text
// of its error after the name of the field.
func ParseUnitAmount(token string) (Amount, error) {
	if !plainAmount.MatchString(token) {
		return 0, ErrAmountFormat
	}
	whole, cents, _ := strings.Cut(token, ".")
	minor, err := strconv.ParseInt(whole+(cents + "00")[:2], 10, 64)
	if err != nil || Amount(minor) > MaxAmount {
		return 0, fmt.Errorf("must be between 0.00 and %s, not %s", MaxAmount, shownToken(token))
	}
	return Amount(minor), nil
}
