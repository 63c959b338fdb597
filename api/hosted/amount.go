package hosted

import (
	"strings"

	"example.com/checkout/workflows/checkout"
)

// currencySymbols are the ones of English.
var currencySymbols = map[checkout.Currency]string{
	checkout.USD: "$", checkout.EUR: "€", checkout.GBP: "£", checkout.CAD: "CA$", checkout.AUD: "A$",
}

// formatAmount writes money the way English does: "CA$1,234.50".
func formatAmount(a checkout.Amount, c checkout.Currency) string {
	symbol, ok := currencySymbols[c]
	if !ok {
		symbol = string(c) + "\u00a0"
	}
	whole, cents, _ := strings.Cut(a.String(), ".")
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return symbol + b.String() + "." + cents
}
