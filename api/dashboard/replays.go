package dashboard

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// replaysPage shows the form of a bulk replay, its preview and earlier bulk replays.
type replaysPage struct {
	webhook.Endpoint
	Form    replayForm
	Preview *preview // nil before the person asks for it
	Replays []webhook.Replay
	turning
	Statuses []webhook.DeliveryStatus
	MaxRate  int
}

// replayForm holds the form's values as typed, times in UTC.
type replayForm struct {
	Since, Until string
	Status       webhook.DeliveryStatus
	Rate         string
	Fault        string
}

// preview is the effect of a bulk replay that has not started.
type preview struct {
	webhook.Replay
	Takes time.Duration // duration at the chosen rate
}

// minute is the format in which browsers send a form's time.
const minute = "2006-01-02T15:04"

// read returns the bulk replay that the form describes. It sets Fault when a value is wrong.
func (f *replayForm) read(v page.Visit, values url.Values, now time.Time) webhook.Replay {
	*f = replayForm{
		Since: strings.TrimSpace(values.Get("since")), Until: strings.TrimSpace(values.Get("until")),
		Status: webhook.DeliveryStatus(values.Get("status")), Rate: strings.TrimSpace(values.Get("rate")),
	}
	r := webhook.Replay{
		Ref: v.Owner().Ref(checkout.NewID(checkout.PrefixReplay)), EndpointID: v.ID(),
		Since: f.time("beginning", f.Since), Until: now, Filter: f.Status,
	}
	if f.Until != "" {
		r.Until = f.time("end", f.Until)
	}
	if !slices.Contains(webhook.ReplayableStatuses, f.Status) {
		f.Fault = "Choose which deliveries to send again."
	}
	var err error
	if r.Rate, err = strconv.Atoi(f.Rate); err != nil || r.Rate < 1 || r.Rate > webhook.MaxReplayRate {
		f.Fault = fmt.Sprintf("The rate must be a whole number from 1 to %d.", webhook.MaxReplayRate)
	}
	if f.Fault == "" && !r.Since.Before(r.Until) {
		f.Fault = "The end must be after the start."
	}
	return r
}

func (f *replayForm) time(what, text string) time.Time {
	for _, layout := range []string{minute, minute + ":05", time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1970 {
			return t.UTC()
		}
	}
	f.Fault = fmt.Sprintf("The %s must be a time such as 2026-01-31T09:30 (UTC).", what)
	return time.Time{}
}

// showReplays serves GET …/webhooks/{id}/replay. When the query has the form, it counts the
// deliveries to send again.
func (s *server) showReplays(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
	now := time.Now().UTC()
	p := replaysPage{Endpoint: e, Form: replayForm{
		Since: now.Add(-healthWindow).
			Format(minute),
		Status: webhook.ReplayableStatuses[0], Rate: strconv.Itoa(webhook.DefaultReplayRate),
	}}
	if !v.URL.Query().Has("since") {
		return s.replaysPage(v, p)
	}
	r := p.Form.read(v, v.URL.Query(), now)
	if p.Form.Fault == "" {
		var err error
		if r.Total, err = s.Store.Webhooks.PreviewReplay(v.Context(), r); err != nil {
			return page.Answer{}, err
		}
		p.Preview = &preview{r, time.Duration(r.Total/r.Rate) * time.Second}
	}
	return s.replaysPage(v, p)
}

// replaysPage shows a form and the earlier bulk replays.
func (s *server) replaysPage(v page.Visit, p replaysPage) (page.Answer, error) {
	read := func(page pg.Page) ([]webhook.Replay, error) {
		return s.Store.Webhooks.Replays(v.Context(), v.Owner(), p.ID, page)
	}
	path := "/webhooks/" + p.ID + "/replay"
	var err error
	p.Replays, p.turning, err = pageOf(v, path, checkout.PrefixReplay, listForm{}, pg.Page{}, read)
	if err != nil {
		return page.Answer{}, err
	}
	p.Statuses, p.MaxRate = webhook.ReplayableStatuses, webhook.MaxReplayRate
	return page.ShowForm(p.Form.Fault, "replays", "Bulk replay", p)
}

var replayStarted = page.Notice("replay_started", "The bulk replay has started.")

// startReplay serves POST …/webhooks/{id}/replay.
func (s *server) startReplay(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
	p := replaysPage{Endpoint: e}
	if err := v.ParseForm(); err != nil {
		p.Form.Fault = "The form could not be read."
		return s.replaysPage(v, p)
	}
	r := p.Form.read(v, v.PostForm, time.Now().UTC())
	if p.Form.Fault != "" {
		return s.replaysPage(v, p)
	}
	r, err := s.actions.StartReplay(v.Context(), r, v.By())
	return page.GoToAfter(err, v.Path("/replays/"+r.ID), replayStarted)
}

// replayPage shows the progress of a bulk replay.
type replayPage struct {
	webhook.Replay
	URL     string // the registration's URL, "" when it was deleted
	Done    int
	Left    time.Duration // time left at its rate
	Running bool
}

// Percent returns the done part in percent.
func (p replayPage) Percent() int {
	if p.Total == 0 {
		return 100
	}
	return min(100, 100*p.Done/p.Total)
}

// showReplay serves GET …/replays/{id}.
func (s *server) showReplay(v page.Visit, r webhook.Replay) (page.Answer, error) {
	p := replayPage{Replay: r, Done: r.Started + r.Skipped, Running: r.Status == webhook.ReplayRunning}
	if p.Running {
		p.Left = time.Duration(max(0, r.Total-p.Done)/r.Rate) * time.Second
	}
	e, err := s.Store.Webhooks.Endpoint(v.Context(), v.Owner().Ref(r.EndpointID))
	if err != nil && !errors.Is(err, checkout.ErrNotFound) {
		return page.Answer{}, err
	}
	p.URL = e.URL
	return page.Show("replay", "Bulk replay", p)
}

var (
	replayCanceled = page.Notice("replay_canceled", "The bulk replay stops. Deliveries that it has started continue.")
	replayEnded    = page.Notice("replay_ended", "The bulk replay had already ended.")
)

// cancelReplay serves POST …/replays/{id}/cancel.
func (s *server) cancelReplay(v page.Visit, r webhook.Replay) (page.Answer, error) {
	if r.Status != webhook.ReplayRunning {
		return page.GoTo(v.Path("/replays/"+r.ID), replayEnded)
	}
	_, err := s.actions.CancelReplay(v.Context(), r, v.By())
	return page.GoToAfter(err, v.Path("/replays/"+r.ID), replayCanceled)
}
