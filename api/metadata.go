package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
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

const (
	// metadataFilter is the parameter metadata[key]=value of the list of sessions.
	metadataFilter = "metadata"
	// maxMetadataFilters is how many pairs a list may be filtered by.
	maxMetadataFilters = 5
	// maxMetadataRange is the longest time between since and until: no index has metadata.
	maxMetadataRange = 31 * 24 * time.Hour
	// metadataSlack lets a listing that began within the range end: now goes on from page to page.
	metadataSlack = 12 * time.Hour
)

// metadataKey returns the key of a parameter metadata[key].
func metadataKey(parameter string) (string, bool) {
	key, ok := strings.CutPrefix(parameter, metadataFilter+"[")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(key, "]")
}

// metadata reads the pairs of metadata by which a list is filtered.
func (q query) metadata() map[string]string {
	if _, ok := q.values[metadataFilter]; ok {
		q.add(metadataFilter, "must have the form metadata[key]=value")
	}
	pairs := map[string]string{}
	for name, value := range q.values {
		key, ok := metadataKey(name)
		if !ok {
			continue
		}
		if n := utf8.RuneCountInString(key); n < 1 || n > maxMetadataKey || !utf8.ValidString(key) || hasControl(key) {
			q.add(shorten(name), fmt.Sprintf("must have a key of 1 to %d characters", maxMetadataKey))
		}
		if utf8.RuneCountInString(value) > maxMetadataValue || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			q.add(shorten(name), fmt.Sprintf("must be a value of metadata: at most %d characters", maxMetadataValue))
		}
		pairs[key] = value
	}
	if len(pairs) > maxMetadataFilters {
		q.add(metadataFilter, fmt.Sprintf("must have at most %d pairs", maxMetadataFilters))
	}
	return pairs
}

// checkMetadataRange refuses a filter by metadata that would read more than maxMetadataRange of sessions.
func (q query) checkMetadataRange(f storage.SessionFilter, p pg.Page) error {
	if len(f.Metadata) == 0 || f.OrderID+f.Transaction+f.CustomerEmail != "" {
		return nil
	}
	until := p.Until
	if until.IsZero() {
		until = time.Now()
	}
	if p.Since.IsZero() || until.Sub(p.Since) > maxMetadataRange+metadataSlack {
		q.add("since", "is required with metadata[key], at most 31 days before until, or before now if until is missing")
	}
	return q.err()
}
