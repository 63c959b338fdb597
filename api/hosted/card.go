package hosted

import (
	"slices"
	"strings"

	"example.com/checkout/workflows/checkout"
)

// brand holds the rules for the cards with certain first digits.
type brand struct {
	name      string // as in checkout.PaymentMethod
	label     string // as customers know it
	prefixes  []string
	lengths   []int
	cvcLength int
}

// Key names the drawing of the brand in templates/marks.html.
func (b brand) Key() string { return b.name }

// brands are tried in order. static/card.js repeats the prefixes.
var brands = []brand{
	{"visa", "Visa", []string{"4"}, []int{13, 16, 19}, 3},
	{"mastercard", "Mastercard", []string{"51", "52", "53", "54", "55", "22", "23", "24", "25", "26", "27"}, []int{16}, 3},
	{"amex", "American Express", []string{"34", "37"}, []int{15}, 4},
	{"discover", "Discover", []string{"6011", "64", "65"}, []int{16, 17, 18, 19}, 3},
	{"diners", "Diners Club", []string{"30", "36", "38", "39"}, []int{14, 15, 16, 17, 18, 19}, 3},
	{"jcb", "JCB", []string{"35"}, []int{16, 17, 18, 19}, 3},
	{"unionpay", "UnionPay", []string{"62"}, []int{16, 17, 18, 19}, 3},
}

// otherBrand is for cards that brands does not list. The card network decides about them.
var otherBrand = brand{lengths: []int{12, 13, 14, 15, 16, 17, 18, 19}}

// brandOf returns the brand by the first digits of number.
func brandOf(number string) brand {
	for _, b := range brands {
		if slices.ContainsFunc(b.prefixes, func(p string) bool { return strings.HasPrefix(number, p) }) {
			return b
		}
	}
	return otherBrand
}

// cardLabel returns a card's name for a page: "Visa •••• 4242". It leaves out what is unknown. It
// returns "" when nothing is known, as with a live card until the acquirer has answered.
func cardLabel(t *texts, m checkout.PaymentMethod) string {
	label := ""
	for _, b := range brands {
		if b.name == m.Brand {
			label = b.label
		}
	}
	switch {
	case m.Last4 == "":
		return label
	case label == "":
		label = t.PaidWith
	}
	return label + " •••• " + m.Last4
}

// luhn reports whether number has the right check digit.
func luhn(number string) bool {
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return len(number) > 0 && sum%10 == 0
}

// isDigits reports whether s has at least one character and only 0 to 9.
func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// holdsCard reports whether s contains digits that may be a card number, with or without spaces and
// hyphens.
func holdsCard(s string) bool {
	s = stripSeparators(halfWidth(s))
	for len(s) > 0 {
		n := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		if n < 0 {
			n = len(s)
		}
		for i := 0; i+13 <= n; i++ {
			for j := i + 13; j <= n && j <= i+19; j++ {
				if luhn(s[i:j]) {
					return true
				}
			}
		}
		s = s[min(n+1, len(s)):]
	}
	return false
}

// halfWidth replaces the wide characters of a Japanese keyboard with the ordinary ones.
func halfWidth(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '！' && r <= '～':
			return r - '！' + '!'
		case r == '\u3000':
			return ' '
		}
		return r
	}, s)
}

// stripSeparators removes the characters that customers type between the digits of a card.
func stripSeparators(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '-', '\u00a0', '\u2009', '\u202f':
			return -1
		}
		return r
	}, s)
}

// brandLabels returns the names of the accepted cards for customers.
func brandLabels() string {
	var all []string
	for _, b := range brands {
		all = append(all, b.label)
	}
	return strings.Join(all, ", ")
}
