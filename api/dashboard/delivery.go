package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"example.com/checkout/api/action"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

type deliveryPage struct {
	deliveryRow
	Registration *webhook.Endpoint // nil when it was deleted or the URL is a session's own
	Runs         []run             // newest first
	Attempts     int               // most attempts of a run
	Headers      []header
	Body         string // the request's body, indented
	Exact        string // the request's body, byte for byte
	Refresh      string // how often the page reads itself again, "" for never
}

// run holds the attempts of one run.
type run struct {
	Number   int
	Attempts []attemptRow // newest first
}

type attemptRow struct {
	webhook.Attempt
	Response string // the answer's body as text
	Cut      bool   // the answer was longer
}

// First returns the first lines of the answer's body. The page shows them where an attempt failed.
func (r attemptRow) First() string {
	const lines, characters = 4, 400
	text := strings.TrimSpace(r.Response)
	if runes := []rune(text); len(runes) > characters {
		text = string(runes[:characters]) + "…"
	}
	return strings.Join(strings.SplitN(text, "\n", lines+1)[:min(lines, strings.Count(text, "\n")+1)], "\n")
}

// header is a header of the request.
type header struct{ Name, Value string }

// maxResponse is how many bytes of an answer's body are kept. Source: api/decisions/deliveries.md, "success".
const maxResponse = 16 << 10

// showDelivery serves GET …/deliveries/{id}.
func (s *server) showDelivery(v page.Visit, d webhook.Delivery) (page.Answer, error) {
	p := deliveryPage{Runs: byRun(d.Attempts), Attempts: webhook.MaxAttempts}
	p.Delivery = d
	if n := len(d.Attempts); n > 0 {
		p.Last = d.Attempts[n-1]
	}
	p.State = deliveryState(d, p.Last)
	if showsVersion(v, p.Version()) {
		return answerUnchanged("delivery", p)
	}
	event, err := s.Store.Webhooks.Event(v.Context(), v.Owner().Ref(d.EventID))
	if err != nil {
		return page.Answer{}, err
	}
	p.Headers = headers(d, max(1, p.Last.Number))
	p.Body, p.Exact = indented(event.Body), readable(event.Body)
	if p.Registration, err = s.registration(v, d); err != nil {
		return page.Answer{}, err
	}
	if d.Status == webhook.DeliveryPending {
		p.Refresh = refreshOften
	}
	return page.Show("delivery", "Delivery", p)
}

// registration returns the registration of a delivery, nil when there is none.
func (s *server) registration(v page.Visit, d webhook.Delivery) (*webhook.Endpoint, error) {
	e, err := s.Store.Webhooks.Endpoint(v.Context(), v.Owner().Ref(d.EndpointID))
	if errors.Is(err, checkout.ErrNotFound) {
		return nil, nil
	}
	return &e, err
}

// byRun groups attempts by run. attempts are oldest first; the result is newest first.
func byRun(attempts []webhook.Attempt) []run {
	var all []run
	for _, a := range slices.Backward(attempts) {
		if len(all) == 0 || all[len(all)-1].Number != a.Run {
			all = append(all, run{Number: a.Run})
		}
		last := &all[len(all)-1]
		last.Attempts = append(last.Attempts, attemptRow{a, readable(a.ResponseBody), len(a.ResponseBody) >= maxResponse})
	}
	return all
}

// headers returns the headers of an attempt, sorted by name. Each attempt has a new signature and
// the service does not keep it, so headers shows only its shape.
func headers(d webhook.Delivery, attempt int) []header {
	sent := webhook.RequestHeaders(d.ID, d.EventID, d.EventType, attempt)
	sent[webhook.SignatureHeader] = "t=<seconds since 1970>,v1=<64 hexadecimal digits>"
	var all []header
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		all = append(all, header{name, sent[name]})
	}
	return all
}

func readable(body []byte) string { return strings.ToValidUTF8(string(body), "\ufffd") }

// indented indents a body for people. Numbers and texts in it do not change.
func indented(body []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		return readable(body)
	}
	return readable(out.Bytes())
}

var (
	deliveryRetried = page.Notice("delivery_retried", "The next attempt is running now.")
	deliveryHeld    = page.Notice(
		"delivery_held", "The delivery is on hold. No attempt is made or used up until you resume it.",
	)
	deliveryResumed  = page.Notice("delivery_resumed", "The delivery is no longer on hold.")
	deliveryReplayed = page.Notice(
		"delivery_replayed",
		"The event is being sent again: the same bytes, a fresh signature, as many attempts as a new delivery.",
	)
)

// steerDelivery serves POST of an action on the delivery in the path.
func steerDelivery(do action.Steering, notice string) func(page.Visit, webhook.Delivery) (page.Answer, error) {
	return func(v page.Visit, d webhook.Delivery) (page.Answer, error) {
		_, err := do(v.Context(), d, v.By())
		return page.GoToAfter(err, v.Path("/deliveries/"+d.ID), notice)
	}
}
