package hosted

import (
	"fmt"
	"strings"

	"example.com/checkout/workflows/money"
)

// amountRules holds a language's rules for amounts. Source: Unicode CLDR.
type amountRules struct {
	Format  string // takes the symbol and the number
	Point   string
	Group   string
	From    int // shortest number of digits that is grouped
	Symbols map[money.Currency]string
}

// amount formats an amount: "CA$1,234.50", "1.234,50 CA$".
func (m amountRules) amount(a money.Amount, c money.Currency) string {
	symbol, ok := m.Symbols[c]
	if !ok {
		symbol = string(c) + "\u00a0"
	}
	whole, cents, _ := strings.Cut(a.String(), ".")
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 && len(whole) >= m.From {
			b.WriteString(m.Group)
		}
		b.WriteRune(r)
	}
	return fmt.Sprintf(m.Format, symbol, b.String()+m.Point+cents)
}
