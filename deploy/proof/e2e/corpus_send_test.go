package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/storage/storagetest/must"
)

// corpusClient sends what it is told and follows nothing.
var corpusClient = http.Client{
	Timeout:       time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4},
}

// send makes the request of a case. A 503 is no verdict on it: a busy computer may answer so to any request, and the
// reference tells merchants to repeat it.
func (w *corpusWorld) send(t *testing.T, c corpusCase) (got e2e.Answer) {
	e2e.Await(t, c.Name+" is answered", time.Minute, func() bool {
		got = w.sendOnce(t, c)
		return got.Status != http.StatusServiceUnavailable || c.Status == http.StatusServiceUnavailable
	})
	return got
}

// sendOnce makes the request over a connection of its own kind: net/http's, or a bare one when the case has a Head.
func (w *corpusWorld) sendOnce(t *testing.T, c corpusCase) e2e.Answer {
	values := map[string]string{"t": strconv.FormatInt(time.Now().Unix()+int64(c.At), 10)}
	if c.Value != nil {
		values["value"] = *c.Value
	}
	body, server := "", w.stack.APIURL()
	if c.Page {
		body, server = w.form(t, c), w.stack.PageURL()
	}
	switch {
	case c.Body != nil:
		body = w.say(t, *c.Body, values)
	case c.Template != nil:
		body = w.say(t, *c.Template, values)
	}
	if c.Head != nil {
		values["length"] = strconv.Itoa(len(body))
		return w.sendRaw(t, c, body, values)
	}
	req, err := http.NewRequestWithContext(t.Context(), c.Method, server, strings.NewReader(body))
	require.NoError(t, err, c.Name)
	req.URL.Opaque = w.say(t, c.Path, values)
	w.setHeaders(t, req, c, body != "", values)
	res, err := corpusClient.Do(req)
	require.NoError(t, err, c.Name)
	got, err := readAnswer(res)
	require.NoError(t, err, c.Name)
	return got
}

func (w *corpusWorld) form(t *testing.T, c corpusCase) string {
	form := url.Values{"card_number": {e2e.CardSucceeds}, "exp": {"12/40"}, "cvc": {"123"}, "email": {"ann@example.com"}}
	for name, value := range c.Form {
		if form.Del(name); value != nil {
			form.Set(name, w.say(t, *value, nil))
		}
	}
	return form.Encode()
}

// setHeaders sets what every merchant sends, and what the case says instead.
func (w *corpusWorld) setHeaders(t *testing.T, req *http.Request, c corpusCase, body bool, values map[string]string) {
	req.Header.Set("User-Agent", "corpus")
	if key, ok := w.keys[c.Caller]; ok {
		req.Header.Set("Authorization", "Bearer "+key)
	} else {
		require.Equal(t, "none", c.Caller, c.Name)
	}
	switch {
	case c.Page:
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case body:
		req.Header.Set("Content-Type", "application/json")
	}
	for _, header := range c.Headers {
		name, _, _ := strings.Cut(header, ":")
		req.Header.Del(name)
	}
	for _, header := range c.Headers {
		name, value, _ := strings.Cut(header, ":")
		value = w.say(t, strings.TrimPrefix(value, " "), values)
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header[http.CanonicalHeaderKey(name)] = append(req.Header[http.CanonicalHeaderKey(name)], value)
	}
	for _, name := range c.Without {
		req.Header.Del(name)
	}
}

func (w *corpusWorld) sendRaw(t *testing.T, c corpusCase, body string, values map[string]string) e2e.Answer {
	api := must.Get(url.Parse(w.stack.APIURL()))(t)
	values["host"], values["auth"] = api.Host, "Authorization: Bearer "+w.keys[c.Caller]
	method, _, _ := strings.Cut(c.Head[0], " ")
	request := w.say(t, strings.Join(c.Head, "\r\n"), values) + "\r\n\r\n" + body
	got, err := exchange(api.Host, method, request, c.Close)
	require.NoError(t, err, c.Name)
	return got
}

// exchange sends a request as it stands and returns the answer. With end, it closes its side of the connection before.
func exchange(address, method, request string, end bool) (e2e.Answer, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return e2e.Answer{}, err
	}
	defer func() { _ = conn.Close() }() // it has answered or failed
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return e2e.Answer{}, err
	}
	// Who refuses the head may answer and hang up before all is written.
	_, unwritten := io.WriteString(conn, request)
	if end {
		unwritten = errors.Join(unwritten, conn.(*net.TCPConn).CloseWrite())
	}
	for in := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return e2e.Answer{}, errors.Join(err, unwritten)
		}
		if res.StatusCode >= http.StatusOK {
			return readAnswer(res)
		}
	}
}

func readAnswer(res *http.Response) (e2e.Answer, error) {
	defer func() { _ = res.Body.Close() }() // it was read to its end
	body, err := io.ReadAll(res.Body)
	return e2e.Answer{Status: res.StatusCode, Header: res.Header, Body: body}, err
}

// refuse sends a case that must be refused: the exact status, code and param, or the page that tells what is wrong,
// never a 5xx. Nothing that PostgreSQL has of the merchants changes.
func (w *corpusWorld) refuse(t *testing.T, c corpusCase) {
	if c.Before != nil {
		w.sendBefore(t, c)
		w.settle(t)
	}
	if c.Busy != "" {
		w.claim(t, c)
	}
	before, prepared := w.last, c.Before != nil || c.Busy != ""
	if before == "" || prepared {
		before = w.state(t)
	}
	got := w.answer(t, c)
	switch {
	case c.Page:
		w.requirePage(t, c, got)
	case c.Status >= 400 && !c.Plain:
		c.Param = w.say(t, c.Param, nil)
		requireRefusal(t, c, got)
	}
	w.last = w.state(t)
	require.Equal(t, before, w.last, "%s has changed something", c.Name)
	if prepared { // what was prepared may go on by itself
		w.last = ""
	}
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// innerWords are of our own insides, of which no merchant may hear.
var innerWords = regexp.MustCompile(`(?i)sqlstate|pgx|goroutine|panic|strconv|jsontext|temporal|localhost:|127\.0\.0\.1:`)

func requireRefusal(t *testing.T, c corpusCase, got e2e.Answer) {
	var body struct {
		Error, Message, Param string
		Errors                []struct{ Param, Message string }
		RequestID             string `json:"request_id"`
	}
	require.NoError(t, json.Unmarshal(got.Body, &body), "%s: %s", c.Name, got.Body)
	require.Equal(t, c.Error, body.Error, "%s: %s", c.Name, got.Body)
	require.Equal(t, c.Param, body.Param, "%s: %s", c.Name, got.Body)
	require.NotEmpty(t, body.Message, c.Name)
	require.NotRegexp(t, innerWords, body.Message, c.Name)
	require.Regexp(t, requestID, body.RequestID, c.Name)
	require.Equal(t, body.RequestID, got.Header.Get("X-Request-Id"), c.Name)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"), c.Name)
	require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"), c.Name)
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"), c.Name)
	if c.Param != "" {
		require.NotEmpty(t, body.Errors, c.Name)
		require.Equal(t, body.Param, body.Errors[0].Param, c.Name)
		require.Equal(t, body.Message, body.Errors[0].Message, c.Name)
	}
	for status, header := range map[int]string{401: "Www-Authenticate", 405: "Allow"} {
		require.Equal(t, got.Status == status, got.Header.Get(header) != "", "%s: %s", c.Name, header)
	}
}

func (w *corpusWorld) sendBefore(t *testing.T, c corpusCase) {
	got := w.send(t, c.Before.or(corpusCase{
		Caller: c.Caller, Method: c.Method, Path: c.Path, Headers: c.Headers, Body: c.Body, Template: c.Template, Value: c.Value,
	}))
	require.Less(t, got.Status, 300, "before %s: %s", c.Name, got.Body)
}

// answer sends a case and checks the status, and what the case says of the body.
func (w *corpusWorld) answer(t *testing.T, c corpusCase) e2e.Answer {
	got := w.send(t, c)
	for end := time.Now().Add(time.Minute); c.At != 0 && got.Field("age_seconds") != nil && got.Field("age_seconds") != float64(-c.At); got = w.send(t, c) {
		require.True(t, time.Now().Before(end), "the second has turned each time") // else the case would not be the one that it says
	}
	require.Equal(t, c.Status, got.Status, "%s: %s", c.Name, got.Body)
	for path, want := range c.Answer {
		require.Equal(t, w.say(t, want, nil), fmt.Sprint(got.Field(path)), "%s: %s of %s", c.Name, path, got.Body)
	}
	require.Contains(t, string(got.Body), w.say(t, c.Has, nil), c.Name)
	if c.Hides != "" {
		require.NotContains(t, string(got.Body), w.say(t, c.Hides, nil), c.Name)
	}
	return got
}

// requirePage requires a page in which no script could run, and which never shows the card again.
func (w *corpusWorld) requirePage(t *testing.T, c corpusCase, got e2e.Answer) {
	page := string(got.Body)
	require.Equal(t, w.say(t, c.Location, nil), got.Header.Get("Location"))
	require.Contains(t, got.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, page, "<script>alert")
	require.NotContains(t, page, "onerror=")
	for _, field := range []string{"card_number", "cvc"} {
		if value := c.Form[field]; value != nil && len(*value) > 3 {
			require.NotContains(t, page, w.say(t, *value, nil), "%s is never shown again", field)
		}
	}
}

// accept sends a case that must be accepted and reads the new object back.
func (w *corpusWorld) accept(t *testing.T, c corpusCase) {
	if c.Before != nil {
		w.sendBefore(t, c)
	}
	got := w.answer(t, c)
	address := got.Header.Get("Location")
	if address == "" && c.Read != "" {
		address = w.say(t, c.Read, nil)
	}
	if address == "" && c.Method == http.MethodPatch {
		address = w.say(t, c.Path, nil)
	}
	if address == "" {
		require.NotEqual(t, http.StatusCreated, got.Status, c.Name)
		return
	}
	kept := w.send(t, corpusCase{Name: c.Name, Caller: c.Caller, Method: http.MethodGet, Path: address})
	require.Equal(t, http.StatusOK, kept.Status, "%s: %s", c.Name, kept.Body)
	if got.Status < http.StatusAccepted { // what a workflow goes on with is another at once
		require.Equal(t, members(t, got.Body), members(t, kept.Body), c.Name)
	}
	if strings.HasPrefix(address, "/v1/webhooks/") && got.Status == http.StatusCreated { // there may be 50
		gone := w.send(t, corpusCase{Name: c.Name, Caller: c.Caller, Method: http.MethodDelete, Path: address})
		require.Equal(t, http.StatusOK, gone.Status, c.Name)
	}
}

// members returns an answer's members, byte for byte, without the secrets, which only one answer shows.
func members(t *testing.T, body []byte) map[string]string {
	var object map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &object))
	for _, once := range []string{"secret", "webhook_secret", "webhook_signed_by"} {
		delete(object, once)
	}
	texts := map[string]string{}
	for name, value := range object {
		texts[name] = string(value)
	}
	return texts
}
