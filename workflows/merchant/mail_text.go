package merchant

import (
	"regexp"
	"strings"
	"unicode"
)

// mailTraps are what mail programs make into something else than text: the dot before the end of a host name, or what
// browsers take for one, the beginning of an address of another kind, and that of an encoded word (RFC 2047).
var mailTraps = regexp.MustCompile(`([.\x{3002}\x{FF0E}\x{FF61}])(\pL[\pL\pM\-])|:(//)|\\(\\)|=(\?)`)

// MailText returns what a merchant or a person wrote as one line for a mail of ours. Mail programs show it as text and
// make no link of it: "shop.example" becomes "shop. example". Control and format characters become blanks.
func MailText(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}), " ")
	// Twice, because one find ends where the next one may begin.
	return split(split(text))
}

func split(text string) string {
	return mailTraps.ReplaceAllStringFunc(text, func(trap string) string {
		first := []rune(trap)[0]
		return string(first) + " " + strings.TrimPrefix(trap, string(first))
	})
}
