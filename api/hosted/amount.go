package hosted

import (
	"fmt"
	"strings"

	"example.com/checkout/workflows/checkout"
)

// money holds a language's rules for amounts. Source: Unicode CLDR.
type money struct {
	format  string // takes the symbol and the number
	point   string
	group   string
	from    int // shortest number of digits that is grouped
	symbols map[checkout.Currency]string
}

// amount formats an amount: "CA$1,234.50", "1.234,50 CA$".
func (m money) amount(a checkout.Amount, c checkout.Currency) string {
	symbol, ok := m.symbols[c]
	if !ok {
		symbol = string(c) + "\u00a0"
	}
	whole, cents, _ := strings.Cut(a.String(), ".")
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 && len(whole) >= m.from {
			b.WriteString(m.group)
		}
		b.WriteRune(r)
	}
	return fmt.Sprintf(m.format, symbol, b.String()+m.point+cents)
}
