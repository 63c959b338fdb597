package rate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxBody bounds an answer. Kraken's with all prices has about 5 kB.
const maxBody = 64 << 10

// A ticker is the public price service of an exchange.
type ticker struct {
	base   string
	client *http.Client
}

func newTicker(base string) ticker {
	// Without a redirect, no other server is ever believed.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return ticker{strings.TrimRight(base, "/"), &http.Client{CheckRedirect: stay}}
}

// get returns the body of an answer 200. Its errors have no address. They are errAway when it may be different soon.
func (t ticker) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+path, http.NoBody)
	if err != nil {
		return nil, errors.New("its address is malformed")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "checkout")
	res, err := t.client.Do(req)
	if err != nil {
		return nil, away(err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusInternalServerError {
		return nil, fmt.Errorf("%w: it answers %d", errAway, res.StatusCode)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return nil, away(err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("its answer is longer than %d bytes", maxBody)
	}
	return body, nil
}

// away marks an error of a connection as errAway, without the address that url.Error quotes: a node's
// address often holds a key.
func away(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no answer in %s", errAway, readTimeout)
	}
	for u := (*url.Error)(nil); errors.As(err, &u); {
		err = u.Err
	}
	return fmt.Errorf("%w: %w", errAway, err)
}
