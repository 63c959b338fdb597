package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/checkout/workflows/money"
)

// Limits of metadata. Source: api/interface.md, "Limits", and api/decisions/sessions.md, "metadata".
const (
	maxPairs         = 50
	maxMetadataKey   = 40       // characters
	maxMetadataValue = 500      // characters
	maxMetadata      = 16 << 10 // bytes, without white space between tokens
	maxExponent      = 400      // of a number
)

// orderIDKey is the key of the merchant's order id in metadata.
const orderIDKey = "order_id"

// metadata returns the pairs and the order id. The pairs are as the client sent them, without white
// space between tokens; "{}" when metadata is missing. The order id is nil when there is none.
func (f fields) metadata() (json.RawMessage, *string) {
	const name = "metadata"
	value, ok := f.optional(name)
	if !ok {
		return json.RawMessage("{}"), nil
	}
	if value.Kind() != '{' {
		f.add(name, "must be an object")
		return nil, nil
	}

	pairs, err := objectMembers(value)
	if err == nil {
		err = value.Compact()
	}
	if err != nil { // cannot happen after checkSyntax
		f.add(name, "must be valid JSON")
		return nil, nil
	}

	if len(value) > maxMetadata {
		f.add(name, fmt.Sprintf("must not be larger than %d bytes", maxMetadata))
	}
	if len(pairs) > maxPairs {
		f.add(name, fmt.Sprintf("must have at most %d pairs", maxPairs))
		return nil, nil
	}

	var orderID *string
	for _, pair := range pairs {
		f.metadataPair(pair)
		if pair.name == orderIDKey {
			orderID = orderIDOf(pair.value)
		}
	}
	return json.RawMessage(value), orderID
}

func (f fields) metadataPair(pair member) {
	param := "metadata." + shorten(pair.name)
	if n := utf8.RuneCountInString(pair.name); n < 1 || n > maxMetadataKey || hasControl(pair.name) {
		f.add(param, fmt.Sprintf("must have a key of 1 to %d characters without control characters", maxMetadataKey))
	}
	switch pair.value.Kind() {
	case '"':
		text := unquote(pair.value)
		if strings.ContainsRune(text, 0) {
			f.add(param, "must not contain the character U+0000")
		}
		if utf8.RuneCountInString(text) > maxMetadataValue {
			f.add(param, fmt.Sprintf("must have at most %d characters", maxMetadataValue))
		}
	case '0':
		if len(pair.value) > maxMetadataValue {
			f.add(param, fmt.Sprintf("must have at most %d digits", maxMetadataValue))
			return
		}
		f.double(param, string(pair.value))
	case 't', 'f':
	default:
		f.add(param, "must be a string, a number or a boolean")
	}
}

// double refuses a number that a 64-bit float cannot hold. Most readers of JSON use such floats.
// They would read another number, or could not read the list or the event at all when the number is
// too large. Order ids above 2^53 are an example. A zero fits with every exponent, but PostgreSQL and readers with big
// decimals refuse a large one.
func (f fields) double(param, token string) {
	number, _ := money.ParseDecimal(token) // cannot fail after checkSyntax
	switch next, same, fits := number.Double(); {
	case !fits:
		f.add(param, "must fit into a 64-bit float (at most 1.8e308); send it as a string")
	case !same:
		f.add(param, fmt.Sprintf("must be exact as a 64-bit float: readers would get %s; send it as a string", next))
	default:
		if e := money.Exponent(token); e < -maxExponent || e > maxExponent {
			f.add(param, fmt.Sprintf("must have an exponent between -%[1]d and %[1]d; send %[2]s", maxExponent, next))
		}
	}
}

// orderIDOf returns the order id in value: the text of a string, or the digits of a number as the
// client sent them. It returns nil for an empty string and for other types.
func orderIDOf(value jsontext.Value) *string {
	id := ""
	switch value.Kind() {
	case '"':
		id = unquote(value)
	case '0':
		id = string(value)
	}
	if id == "" {
		return nil
	}
	return &id
}
