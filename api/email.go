package api

import (
	"fmt"
	"unicode/utf8"

	"example.com/checkout/workflows/checkout"
)

// email returns an optional e-mail address, nil when it is missing.
func (f fields) email(name string) *string {
	text, ok := f.optionalText(name)
	if !ok {
		return nil
	}
	if utf8.RuneCountInString(text) > checkout.MaxEmail {
		f.add(name, fmt.Sprintf("must have at most %d characters", checkout.MaxEmail))
	} else if !checkout.ValidEmail(text) {
		f.add(name, "must be an e-mail address, for example name@example.com")
	}
	return &text
}
