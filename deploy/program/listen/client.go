package listen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// event is an event of the answer to GET /v1/events.
type event struct {
	ID        string            `json:"id"`
	Type      webhook.EventType `json:"type"`
	CreatedAt time.Time         `json:"created_at"`
	Livemode  bool              `json:"livemode"`
	Data      json.RawMessage   `json:"data"`
}

// envelope returns the body that a delivery of the event sends. The bytes are the same, because the
// API shows data unchanged.
func (e event) envelope() ([]byte, error) {
	return webhook.Envelope(e.ID, e.Type, e.CreatedAt, e.Data)
}

// page is one page of the list of events, or of the feed of events.
type page struct {
	Data       []event `json:"data"`
	NextCursor string  `json:"next_cursor"` // "" on the last page
}

// client sends requests to the REST API and repeats them while the API is away.
type client struct {
	url      string
	key      string
	http     *http.Client
	report   *reporter
	pause    func(ctx context.Context, d time.Duration) error
	answered bool // the API has given at least one proper answer
}

// Limits of a request to the API.
const (
	requestTimeout = 15 * time.Second // the API itself gives up after 10 s
	maxPageBytes   = 32 << 20
	maxErrorBytes  = 64 << 10
)

// Back-off while the API does not answer.
const (
	firstBackoff = time.Second
	maxBackoff   = 15 * time.Second
	maxRetry     = 5 * time.Minute // limit for a Retry-After
)

func newClient(address, key string, r *reporter) *client {
	return &client{url: address, key: key, report: r, pause: pause, http: &http.Client{
		Timeout: requestTimeout,
		// Follow no redirect: it could send the key to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// trouble is an error after which a repeated request may succeed.
type trouble struct {
	text string
	wait time.Duration // shortest wait, from the API's answer; 0 when the answer gives none
}

func (t *trouble) Error() string { return t.text }

// newest reads the events older than cursor, or the newest events if cursor is "", newest first.
func (c *client) newest(ctx context.Context, cursor string, limit int) (page, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return c.page(ctx, query, func(p page) error {
		last := cursor
		for _, e := range p.Data {
			if last != "" && e.ID >= last {
				return c.unexpected("the events are not in order")
			}
			last = e.ID
		}
		return nil
	})
}

// errPositionGone says that the API does not have the event behind which the feed should go on.
var errPositionGone = errors.New("the event was removed")

// feed reads the events behind after in the feed, or the first ones if after is "". It returns errPositionGone.
func (c *client) feed(ctx context.Context, after string) (page, error) {
	query := url.Values{"order": {"asc"}, "limit": {strconv.Itoa(pageLimit)}}
	if after != "" {
		query.Set("after", after)
	}
	return c.page(ctx, query, func(p page) error {
		if slices.ContainsFunc(p.Data, func(e event) bool { return e.ID == after }) {
			return c.unexpected("an event comes behind itself")
		}
		return nil
	})
}

// page reads a page and checks it. It repeats the request until it has the page, ctx ends, or a repetition
// cannot help.
func (c *client) page(ctx context.Context, query url.Values, check func(page) error) (page, error) {
	backoff := firstBackoff
	for {
		p, err := c.ask(ctx, "/v1/events?"+query.Encode())
		if err == nil {
			err = check(p)
		}
		var passing *trouble
		switch {
		case err == nil:
			c.answered = true
			c.report.apiBack()
			return p, nil
		case ctx.Err() != nil:
			return page{}, ctx.Err()
		case !errors.As(err, &passing):
			return page{}, err
		}
		c.report.apiAway(c.url, passing)
		wait := passing.wait
		if wait == 0 {
			wait, backoff = jitter(backoff), min(2*backoff, maxBackoff)
		}
		if err := c.pause(ctx, wait); err != nil {
			return page{}, err
		}
	}
}

// ask makes one request. The error is a trouble if a repeated request may succeed.
func (c *client) ask(ctx context.Context, path string) (page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return page{}, errors.New("the API's URL cannot be asked")
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("User-Agent", "Checkout-Listen/1.0")
	res, err := c.http.Do(req)
	if err != nil {
		return page{}, &trouble{text: reason(err)}
	}
	defer func() { _ = res.Body.Close() }() // the body was read, or is of no use
	if res.StatusCode != http.StatusOK {
		return page{}, c.refused(res)
	}
	var p page
	if err := json.NewDecoder(io.LimitReader(res.Body, maxPageBytes)).Decode(&p); err != nil {
		return page{}, c.unexpected("no list of events came")
	}
	return p, c.checkPage(p)
}

// refused returns the error for an answer that is not a page.
func (c *client) refused(res *http.Response) error {
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized:
		return fmt.Errorf(
			"the API at %s refuses the key of CHECKOUT_API_KEY: it was revoked, or belongs to another service",
			c.url,
		)
	case code == http.StatusForbidden:
		return fmt.Errorf("the API at %s does not let this key read events", c.url)
	case code == http.StatusTooManyRequests:
		return &trouble{text: "it asks to slow down (429)", wait: retryAfter(res.Header)}
	case code >= 500 || code == http.StatusRequestTimeout:
		return &trouble{text: fmt.Sprintf("status %d", code), wait: retryAfter(res.Header)}
	case code >= 300 && code < 400:
		return c.unexpected(fmt.Sprintf("a redirect (%d), which is not followed with a key", code))
	}
	param, message := fault(res.Body)
	if res.StatusCode == http.StatusBadRequest && param == "after" {
		return errPositionGone
	}
	return c.unexpected(fmt.Sprintf("status %d%s", res.StatusCode, message))
}

// fault returns the parameter that the API refuses, and its error message without characters that could disturb a
// terminal.
func fault(body io.Reader) (param, message string) {
	var answer struct{ Param, Message string }
	if json.NewDecoder(io.LimitReader(body, maxErrorBytes)).Decode(&answer) != nil || answer.Message == "" {
		return "", ""
	}
	return answer.Param, fmt.Sprintf(" %.200q", answer.Message)
}

// unexpected returns the error for an answer that is not the API's. Before the first proper answer,
// the address is wrong. Later, a proxy in front of the API answers for a while.
func (c *client) unexpected(what string) error {
	if c.answered {
		return &trouble{text: what}
	}
	return fmt.Errorf("%s does not answer as the API does: %s; look at --api and CHECKOUT_API_URL", c.url, what)
}

// checkPage checks everything on which the later code relies, but for the order.
func (c *client) checkPage(p page) error {
	last := ""
	for _, e := range p.Data {
		switch {
		case e.Livemode:
			return errors.New("the API answered with a live event: listen forwards test-mode events only")
		case !checkout.IsID(checkout.PrefixEvent, e.ID),
			!plain(string(e.Type)),
			e.CreatedAt.IsZero(),
			len(e.Data) == 0:
			return c.unexpected("an event is malformed")
		}
		last = e.ID
	}
	if p.NextCursor != "" && p.NextCursor != last {
		return c.unexpected("the pages do not follow each other")
	}
	return nil
}

// plain reports whether text has the form of an event type such as "checkout.completed". The type
// may be unknown, but it must be safe in a header and on a terminal.
func plain(text string) bool {
	return text != "" && len(text) <= 40 && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '.' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// retryAfter reads the header Retry-After; 0 when it is missing or malformed.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	seconds, err := strconv.Atoi(text)
	wait := time.Duration(min(seconds, int(maxRetry/time.Second))) * time.Second
	if err != nil {
		at, err := http.ParseTime(text)
		if err != nil {
			return 0
		}
		wait = time.Until(at)
	}
	return max(0, min(wait, maxRetry))
}

// reason returns the innermost error of a failed request, without the URL.
func reason(err error) string {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}
