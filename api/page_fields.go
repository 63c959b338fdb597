package api

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// What the hosted page shows of a session beside its terms. Source: api/decisions/sessions.md.

// pageAddress reads an optional URL of the page: one to which it leads the customer, or of a picture.
func (f fields) pageAddress(name string, mode checkout.Mode) *string {
	text, ok := f.optionalText(name)
	if !ok {
		return nil
	}
	f.address(name, text, mode)
	return &text
}

// pageText reads an optional text of 1 to most characters that fits on a page.
func (f fields) pageText(name string, most int) *string {
	text, ok := f.optionalText(name)
	if !ok {
		return nil
	}
	f.checkPageText(name, text, most)
	return &text
}

func (f fields) checkPageText(name, text string, most int) {
	switch {
	case text == "" || !utf8.ValidString(text) || utf8.RuneCountInString(text) > most:
		f.add(name, fmt.Sprintf("must have 1 to %d characters", most))
	case hasControl(text):
		f.add(name, "must not have control characters, such as line breaks")
	}
}

// optionalChoiceOf returns an optional member that must be one of choices, nil when it is missing.
func optionalChoiceOf[T ~string](f fields, name string, choices []T) *T {
	if _, ok := f.optional(name); !ok {
		return nil
	}
	choice := requiredChoice(f, name, choices)
	return &choice
}

// lineItems reads what the customer buys. The items must add up to amount, when both can be read.
func (f fields) lineItems(amount money.Amount, mode checkout.Mode) []checkout.LineItem {
	const name = "line_items"
	value, ok := f.optional(name)
	if !ok {
		return nil
	}
	sent := arrayElements(value)
	if len(sent) == 0 || len(sent) > checkout.MaxLineItems {
		f.add(name, fmt.Sprintf("must be a list of 1 to %d items", checkout.MaxLineItems))
		return nil
	}

	before := len(*f.faults)
	items := make([]checkout.LineItem, len(sent))
	for i := range sent {
		items[i] = f.lineItem(fmt.Sprintf("%s[%d]", name, i), sent[i], mode)
	}
	if sum := checkout.SumOf(items); amount != 0 && len(*f.faults) == before && sum != amount {
		f.add(name, fmt.Sprintf("must add up to amount: they add up to %s, and amount is %s", sum, amount))
	}
	return items
}

// lineItem reads one item. at is its JSON path.
func (f fields) lineItem(at string, value jsontext.Value, mode checkout.Mode) (item checkout.LineItem) {
	if value.Kind() != '{' {
		f.add(at, "must be an object")
		return item
	}
	members, err := objectMembers(value)
	if err != nil { // cannot happen after checkSyntax
		f.add(at, "must be valid JSON")
		return item
	}
	of := newFields(members, "name", "quantity", "unit_amount", "image_url")
	if text, ok := of.requiredText("name"); ok {
		of.checkPageText("name", text, checkout.MaxLineItemName)
		item.Name = text
	}
	if _, ok := of.required("quantity"); ok {
		item.Quantity = of.whole("quantity", 1, checkout.MaxQuantity, 0)
	}
	if price, ok := of.required("unit_amount"); ok {
		item.UnitAmount, err = money.ParseUnitAmount(string(price))
		if err != nil {
			of.add("unit_amount", err.Error()) // ParseUnitAmount writes its errors for merchants
		}
	}
	item.ImageURL = of.pageAddress("image_url", mode)
	for _, one := range *of.faults {
		f.add(at+"."+one.Param, one.Message[len(one.Param)+1:])
	}
	return item
}
