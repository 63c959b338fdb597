package api

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
)

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
