package rate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// newKraken returns a source that reads Kraken's public Ticker: all prices with one request.
//
// Ticker has no time, so a price is as old as its reading. If Kraken stands still and goes on answering, only the
// comparison with the other sources finds it.
func newKraken(o Options) *source {
	from := newTicker(o.KrakenURL)
	pairs, names := namedBy(func(of listing) string { return of.kraken })
	var all []string
	for _, p := range pairs {
		all = append(all, names[p])
	}
	path := "/0/public/Ticker?" + url.Values{"pair": {strings.Join(all, ",")}}.Encode()
	return newSource(Kraken, pairs, o.maxAge, func(ctx context.Context) map[pair]reading {
		asked := o.Now()
		body, err := from.get(ctx, path)
		if err != nil {
			return readAll(pairs, err)
		}
		return parseKraken(pairs, body, asked)
	})
}

// parseKraken reads an answer of Ticker to a request of the time asked. It has a reading for each requested pair.
// Source: Kraken's REST API, "Get Ticker Information".
func parseKraken(offered []pair, body []byte, asked time.Time) map[pair]reading {
	var answer struct {
		Error  []string                   `json:"error"`
		Result map[string]json.RawMessage `json:"result"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return readAll(offered, errNotJSON)
	}
	if len(answer.Error) > 0 {
		return readAll(offered, krakenError(answer.Error[0]))
	}
	got := readAll(offered, errNotAnswered)
	for _, of := range listings {
		if raw, ok := answer.Result[of.krakenKey]; ok && of.kraken != "" {
			p, err := parseKrakenBook(of.pair, raw, asked)
			got[of.pair] = reading{p, err}
		}
	}
	return got
}

func parseKrakenBook(p pair, raw []byte, asked time.Time) (price, error) {
	var book struct { // of each side [price, whole lots, lots]
		Ask [1]string `json:"a"`
		Bid [1]string `json:"b"`
	}
	if json.Unmarshal(raw, &book) != nil {
		return price{}, errNotJSON
	}
	return parseBook(p, book.Bid[0], book.Ask[0], asked, asked)
}

var (
	errNotAnswered = errors.New("it is not in the answer")
	errNotJSON     = errors.New("its answer is not JSON of the documented form")
)

// krakenError is what Kraken writes instead of prices. "EService:Unavailable" and "EAPI:Rate limit
// exceeded" pass; "EQuery:Unknown asset pair" does not.
func krakenError(text string) error {
	if strings.HasPrefix(text, "EService:") || strings.HasPrefix(text, "EAPI:Rate limit") ||
		strings.HasPrefix(text, "EGeneral:Too many requests") {
		return fmt.Errorf("%w: it answers %.80q", errAway, text)
	}
	return fmt.Errorf("it answers %.80q", text)
}
