package e2e_test

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

// pageCase is a form that is sent to the hosted page, and the page that it must lead to.
type pageCase struct {
	Name, Why string
	Method    string             // POST
	Path      string             // /‹session›
	Headers   []string           //
	Form      map[string]*string // what differs from a good form; null leaves a field out
	Body      *string            // instead of a form
	Status    int                // 422
	Shows     string             // text of the page
	Location  string             // where a 303 leads
}

// request is what the case sends.
func (w *corpusWorld) request(t *testing.T, c pageCase) *http.Request {
	t.Helper()
	form := url.Values{"card_number": {e2e.CardSucceeds}, "exp": {"12/40"}, "cvc": {"123"}, "email": {"ann@example.com"}}
	for name, value := range c.Form {
		if form.Del(name); value != nil {
			form.Set(name, w.say(t, *value, nil))
		}
	}
	body := form.Encode()
	if c.Body != nil {
		body = w.say(t, *c.Body, nil)
	}
	req, err := http.NewRequestWithContext(t.Context(), c.Method, w.stack.PageURL(), strings.NewReader(body))
	require.NoError(t, err)
	req.URL.Opaque = w.say(t, c.Path, nil)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, header := range c.Headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	return req
}

// refuseForms posts every form of testdata/corpus/page: the page that says what is wrong, no payment, nothing
// that a script could run in, and never the card again. The session can be paid
// afterwards.
func (w *corpusWorld) refuseForms(t *testing.T) {
	t.Helper()
	pid, cases := w.stack.API.PID(), loadCorpus[category[pageCase]](t, "page")["hosted_page"].Cases
	require.GreaterOrEqual(t, len(cases), 40)
	for _, c := range cases {
		c.Method = cmp.Or(c.Method, http.MethodPost)
		c.Path = cmp.Or(c.Path, "/‹session›")
		c.Status = cmp.Or(c.Status, http.StatusUnprocessableEntity)
		require.NotEmpty(t, c.Why, c.Name)
		t.Run(c.Name, func(t *testing.T) { w.refusePage(t, c) })
	}
	w.own.MustPay(w.values["session"], e2e.CardSucceeds)
	require.Equal(t, "completed", w.own.Session(w.values["session"]).Field("status"), "it can be paid all the same")
	w.requireAlive(t, pid)
}

func (w *corpusWorld) refusePage(t *testing.T, c pageCase) {
	t.Helper()
	before := w.last
	if before == "" {
		before = w.state(t)
	}
	var got e2e.Answer
	e2e.Await(t, c.Name+" is answered", time.Minute, func() bool {
		res, err := corpusClient.Do(w.request(t, c))
		require.NoError(t, err)
		got = readAnswer(t, corpusCase{Name: c.Name}, res)
		return got.Status != http.StatusServiceUnavailable
	})
	page := string(got.Body)
	require.Equal(t, c.Status, got.Status, page)
	require.Contains(t, page, c.Shows)
	require.Equal(t, w.say(t, c.Location, nil), got.Header.Get("Location"))
	require.Contains(t, got.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, page, "<script>alert")
	require.NotContains(t, page, "onerror=")
	for _, field := range []string{"card_number", "cvc"} {
		if value := c.Form[field]; value != nil && len(*value) > 3 {
			require.NotContains(t, page, w.say(t, *value, nil), "%s is never shown again", field)
		}
	}
	w.last = w.state(t)
	require.Equal(t, before, w.last, "nothing was charged")
}
