package listen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/checkout/workflows/webhook"
)

// event is an event of the answer to GET /v1/events.
type event struct {
	ID        string            `json:"id"`
	Type      webhook.EventType `json:"type"`
	CreatedAt time.Time         `json:"created_at"`
	Data      json.RawMessage   `json:"data"` // the bytes of the delivery
}

// page is an answer to GET /v1/events.
type page struct {
	Data    []event `json:"data"`
	HasMore bool    `json:"has_more"`
}

const apiTimeout = 15 * time.Second // the API itself gives up after 10 s

// errRemoved: the API does not have the event at the position any more.
var errRemoved = errors.New("the event was removed")

// awayError: the server at address is away. The same request may succeed later.
type awayError struct {
	address string
	error
}

// getPage reads a page of events. It follows no redirect: that could send the key to another server. It returns
// errRemoved, or an awayError.
func (l *listener) getPage(ctx context.Context, query string) (found page, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.APIURL+"/v1/events?"+query, http.NoBody)
	if err != nil {
		return page{}, err
	}
	req.Header.Set("Authorization", "Bearer "+l.APIKey)
	req.Header.Set("User-Agent", "Checkout-Listen/1.0")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return page{}, awayError{l.APIURL, err}
	}
	defer res.Body.Close()
	answer := json.NewDecoder(res.Body)
	switch code := res.StatusCode; {
	case code == http.StatusOK:
		if answer.Decode(&found) != nil {
			return page{}, awayError{l.APIURL, errors.New("no list of events came")}
		}
		l.report.back(l.APIURL)
		return found, nil
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		return page{}, awayError{l.APIURL, fmt.Errorf("status %d", code)}
	}
	var refusal struct{ Param, Message string }
	_ = answer.Decode(&refusal) // an answer of another server has no message
	if refusal.Param == "after" {
		return page{}, errRemoved
	}
	return page{}, fmt.Errorf("%s refuses to list events (status %d %.200q): look at CHECKOUT_API_KEY, and at --api "+
		"or CHECKOUT_API_URL", l.APIURL, res.StatusCode, refusal.Message)
}
