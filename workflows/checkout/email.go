package checkout

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxEmail is the length of the longest address in characters. RFC 5321 allows no longer path.
const MaxEmail = 254

// ValidEmail reports whether text, of at most MaxEmail characters, is a bare address: no display name, comment, quoted
// part, space or control character. The domain must have a dot, which catches name@gmail. Its labels must consist of
// letters, digits and hyphens. Both sides may contain letters beyond ASCII (RFC 6531).
func ValidEmail(text string) bool {
	parsed, err := mail.ParseAddress(text)
	if err != nil || utf8.RuneCountInString(text) > MaxEmail || parsed.Name != "" || parsed.Address != text {
		return false
	}
	at := strings.LastIndexByte(text, '@')
	local, domain := text[:at], text[at+1:]
	if utf8.RuneCountInString(local) > 64 || strings.ContainsFunc(local, func(r rune) bool {
		return r == '@' || r == '"' || unprintable(r)
	}) {
		return false
	}
	labels := strings.Split(domain, ".")
	for _, label := range labels {
		if !validLabel(label) {
			return false
		}
	}
	return len(labels) > 1
}

// unprintable reports whether r is a space or an invisible character, such as a zero-width joiner
// or a change of writing direction.
func unprintable(r rune) bool {
	return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == utf8.RuneError
}

func validLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(label, func(r rune) bool {
		return r != '-' && !unicode.In(r, unicode.Letter, unicode.Mark, unicode.Nd)
	})
}
