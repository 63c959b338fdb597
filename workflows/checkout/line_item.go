package checkout

import (
	"encoding/json"

	"example.com/checkout/workflows/money"
)

// Limits of what the hosted page shows. Source: api/decisions/sessions.md, "line_items", and "description, locale".
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
	Name       string       `json:"name"`
	Quantity   int          `json:"quantity"`
	UnitAmount money.Amount `json:"unit_amount"`
	// ImageURL is the address of a picture, nil for none. It may hold a token, so no log has it.
	ImageURL *string `json:"image_url"`
}

// Total returns the price of the line.
func (i LineItem) Total() money.Amount { return money.Amount(i.Quantity) * i.UnitAmount }

// SumOf returns the price of all items. It cannot overflow within the limits.
func SumOf(items []LineItem) (sum money.Amount) {
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
	amount, err := money.ParseUnitAmount(string(stored.UnitAmount))
	*i = LineItem{stored.Name, stored.Quantity, amount, stored.ImageURL}
	return err
}
