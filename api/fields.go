package api

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// fault is one mistake in a request.
type fault struct {
	Param   string `json:"param"`   // the JSON path, such as metadata.order_id or events[0]
	Message string `json:"message"` // a sentence that begins with Param
}

// maxFaults limits the list of faults in an answer: a longer list helps no reader.
const maxFaults = 100

// faults collects all mistakes of a request, so that one answer lists them.
type faults []fault

// add adds a fault of param. message continues a sentence that begins with param: "must be a
// string".
func (f *faults) add(param, message string) {
	if len(*f) < maxFaults {
		*f = append(*f, fault{param, param + " " + message})
	}
}

// err returns the merchant's answer, nil without faults.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	e := invalid(f[0].Message)
	e.body.Param = f[0].Param
	e.body.Errors = f
	return e
}

// fields are the members of an object by name. Their methods add mistakes to the faults. A null
// counts as missing.
type fields struct {
	*faults
	values map[string]jsontext.Value
	nulls  []string // members that are null
}

// newFields returns the known members, with a fault for each unknown one. If the service ignored
// a misspelled webhook_url, the merchant would lose events.
func newFields(members []member, known ...string) fields {
	f := fields{faults: &faults{}, values: map[string]jsontext.Value{}}
	for _, m := range members {
		switch {
		case !slices.Contains(known, m.name):
			f.add(shorten(m.name), "is not a known field"+suggestField(m.name, known))
		case m.value.Kind() == 'n':
			f.nulls = append(f.nulls, m.name)
		default:
			f.values[m.name] = m.value
		}
	}
	return f
}

// optional returns a member, false when it is missing.
func (f fields) optional(name string) (jsontext.Value, bool) {
	value, ok := f.values[name]
	return value, ok
}

// required returns a member and adds a fault when it is missing.
func (f fields) required(name string) (jsontext.Value, bool) {
	value, ok := f.values[name]
	if !ok {
		f.add(name, "is required")
	}
	return value, ok
}

// text returns the text of a JSON string and adds a fault for another type.
func (f fields) text(name string, value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		f.add(name, "must be a string")
		return "", false
	}
	return unquote(value), true
}

// optionalText returns the text of an optional member.
func (f fields) optionalText(name string) (string, bool) {
	value, ok := f.optional(name)
	if !ok {
		return "", false
	}
	return f.text(name, value)
}

// requiredText returns the text of a required member.
func (f fields) requiredText(name string) (string, bool) {
	value, ok := f.required(name)
	if !ok {
		return "", false
	}
	return f.text(name, value)
}

// requiredChoice returns a required member that must be one of choices.
func requiredChoice[T ~string](f fields, name string, choices []T) T {
	text, ok := f.requiredText(name)
	if ok && !slices.Contains(choices, T(text)) {
		f.add(name, "must be one of "+list(choices))
	}
	return T(text)
}

// whole returns an optional whole number from least to most, written in digits only. It returns
// otherwise when the member is missing.
func (f fields) whole(name string, least, most, otherwise int) int {
	value, ok := f.optional(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || strconv.Itoa(n) != string(value) || n < least || n > most { // refuses -0 too
		f.add(name, fmt.Sprintf("must be a whole number from %d to %d", least, most))
	}
	return n
}

// flag returns an optional boolean, false when it is missing.
func (f fields) flag(name string) bool {
	value, ok := f.optional(name)
	if ok && value.Kind() != 't' && value.Kind() != 'f' {
		f.add(name, "must be true or false")
	}
	return ok && value.Kind() == 't'
}

// address parses the text of a member as a URL and checks it for mode.
func (f fields) address(name, text string, mode checkout.Mode) (*url.URL, bool) {
	u, err := webhook.ParseURL(text, mode)
	if err != nil {
		f.add(name, err.Error()) // ParseURL writes its errors for merchants
	}
	return u, err == nil
}

func list[T ~string](names []T) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}

// maxShown is the number of characters of a merchant's own name that an answer repeats.
const maxShown = 40

// shorten cuts a long name: a name can be as long as the body.
func shorten(name string) string {
	if utf8.RuneCountInString(name) <= maxShown {
		return name
	}
	return string([]rune(name)[:maxShown]) + "…"
}

func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

// suggestField suggests the known field that the merchant probably meant, else lists all known fields.
func suggestField(name string, known []string) string {
	if len(known) == 0 {
		return "; no fields are allowed here"
	}
	best, least := "", 4
	for _, k := range known {
		if len(name) >= len(k)+least {
			continue // a name as long as a body would take too long to compare
		}
		if d := levenshtein.ComputeDistance(strings.ToLower(name), k); d < least && d < len(k)/2+1 {
			best, least = k, d
		}
	}
	if best == "" {
		return "; known are " + list(known)
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

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
