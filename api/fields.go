package api

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// fault is one thing that is wrong with a request.
type fault struct {
	Param   string `json:"param"`   // the JSON path, such as metadata.order_id or events[0]
	Message string `json:"message"` // a sentence that begins with Param
}

// maxFaults limits how many faults are told; nobody reads more.
const maxFaults = 100

// faults collects everything that is wrong, so that a merchant learns it at once.
type faults []fault

// add notes that param is wrong; message reads on from it: "must be a string".
func (f *faults) add(param, message string) {
	if len(*f) < maxFaults {
		*f = append(*f, fault{param, param + " " + message})
	}
}

// err returns what the merchant is told, nil when nothing is wrong.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	e := invalid(f[0].Message)
	e.body.Param = f[0].Param
	e.body.Errors = f
	return e
}

// fields are the members of an object by name; what is wrong with them goes to
// the faults. A null counts as not supplied.
type fields struct {
	*faults
	values map[string]jsontext.Value
}

// newFields sorts out members and notes those that are not known: a silently
// ignored webook_url would lose notifications.
func newFields(f *faults, members []member, known ...string) fields {
	values := map[string]jsontext.Value{}
	for _, m := range members {
		switch {
		case !slices.Contains(known, m.name):
			f.add(shown(m.name), "is not a known field"+hint(m.name, known))
		case m.value.Kind() != 'n':
			values[m.name] = m.value
		}
	}
	return fields{f, values}
}

// optional returns a member when it was supplied.
func (f fields) optional(name string) (jsontext.Value, bool) {
	value, ok := f.values[name]
	return value, ok
}

// required is optional for a member that must be there.
func (f fields) required(name string) (jsontext.Value, bool) {
	value, ok := f.values[name]
	if !ok {
		f.add(name, "is required")
	}
	return value, ok
}

// text returns the text of a string.
func (f fields) text(name string, value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		f.add(name, "must be a string")
		return "", false
	}
	return unquote(value), true
}

// optionalText returns the text of a member that may be left out.
func (f fields) optionalText(name string) (string, bool) {
	value, ok := f.optional(name)
	if !ok {
		return "", false
	}
	return f.text(name, value)
}

// requiredText returns the text of a member that must be there.
func (f fields) requiredText(name string) (string, bool) {
	value, ok := f.required(name)
	if !ok {
		return "", false
	}
	return f.text(name, value)
}

// requiredChoice returns a member that must be one of choices.
func requiredChoice[T ~string](f fields, name string, choices []T) T {
	text, ok := f.requiredText(name)
	if ok && !slices.Contains(choices, T(text)) {
		f.add(name, "must be one of "+list(choices))
	}
	return T(text)
}

// whole returns a whole number from least to most that may be left out; it is
// written in digits only.
func (f fields) whole(name string, least, most, otherwise int) int {
	value, ok := f.optional(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || strconv.Itoa(n) != string(value) || n < least || n > most { // -0 is no digits
		f.add(name, fmt.Sprintf("must be a whole number from %d to %d", least, most))
	}
	return n
}

// flag returns true or false, false when it was left out.
func (f fields) flag(name string) bool {
	value, ok := f.optional(name)
	if ok && value.Kind() != 't' && value.Kind() != 'f' {
		f.add(name, "must be true or false")
	}
	return ok && value.Kind() == 't'
}

// address checks the text of a member as a URL for mode.
func (f fields) address(name, text string, mode checkout.Mode) (*url.URL, bool) {
	u, err := webhook.ParseURL(text, mode)
	if err != nil {
		f.add(name, err.Error()) // one of ours, meant for merchants
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

// maxShown is how much of a merchant's own name is repeated to it.
const maxShown = 40

// shown cuts a name that may be as long as the body.
func shown(name string) string {
	if utf8.RuneCountInString(name) <= maxShown {
		return name
	}
	return string([]rune(name)[:maxShown]) + "…"
}

func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

// hint names the known field that was probably meant, else all of them.
func hint(name string, known []string) string {
	if len(known) == 0 {
		return "; there are none here"
	}
	best, distance := "", 4
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), k); d < distance && d < len(k)/2+1 {
			best, distance = k, d
		}
	}
	if best == "" {
		return "; known are " + list(known)
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// editDistance is Levenshtein's, over bytes; names that differ in length by more
// than hint accepts are not worth the work.
func editDistance(a, b string) int {
	if diff := len(a) - len(b); diff > 3 || diff < -3 {
		return max(diff, -diff)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
