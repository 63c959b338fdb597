package api

import (
	"net/http"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// replayPreview is the answer to a preview: the number of deliveries that a bulk replay would
// start.
type replayPreview struct {
	Preview        bool                   `json:"preview"` // always true
	WebhookID      string                 `json:"webhook_id"`
	Since          string                 `json:"since"`
	Until          string                 `json:"until"`
	DeliveryStatus webhook.DeliveryStatus `json:"delivery_status"`
	Rate           int                    `json:"rate"`
	Total          int                    `json:"total"`
}

// createReplay serves POST /v1/webhooks/{id}/replay.
func (s *Server) createReplay(r *http.Request, e webhook.Endpoint) (int, any, error) {
	ctx := r.Context()
	replay, preview, err := newReplay(r, e, time.Now())
	if err != nil {
		return 0, nil, err
	}
	if preview {
		total, err := s.Store.Webhooks.PreviewReplay(ctx, replay)
		return http.StatusOK, replayPreview{
			true, e.ID, checkout.FormatTime(replay.Since), checkout.FormatTime(replay.Until), replay.Filter, replay.Rate, total,
		}, err
	}
	replay, err = s.actions.StartReplay(ctx, replay, actor(r))
	return http.StatusAccepted, located{"/v1/replays/" + replay.ID, replay}, err
}

// newReplay reads the body of a bulk replay. The boolean is true when the merchant asks only
// for a preview. The error has all faults of the body.
func newReplay(r *http.Request, e webhook.Endpoint, now time.Time) (webhook.Replay, bool, error) {
	f, err := readObject(r, "since", "until", "status", "rate", "preview")
	if err != nil {
		return webhook.Replay{}, false, err
	}
	replay := webhook.Replay{
		Ref: e.Owner.Ref(newID(r.Context(), checkout.PrefixReplay)), EndpointID: e.ID,
		Since: f.requiredTime("since"), Until: optionalTime(f, "until"),
		Filter: optionalChoice(f, "status", webhook.ReplayableStatuses),
		Rate:   f.whole("rate", 1, webhook.MaxReplayRate, webhook.DefaultReplayRate),
	}
	preview := f.flag("preview")
	checkRange(f, replay.Since, replay.Until)
	if _, ok := f.optional("until"); !ok {
		replay.Until = now
		if !replay.Since.Before(now) {
			f.add("since", "must be in the past")
		}
	}
	if _, ok := f.optional("status"); !ok {
		replay.Filter = webhook.ReplayableStatuses[0]
	}
	return replay, preview, f.err()
}

// listReplays serves GET /v1/replays, newest first.
func (s *Server) listReplays(r *http.Request) (int, any, error) {
	q := readQuery(r, "webhook")
	endpoint := optionalID(q, "webhook", checkout.PrefixEndpoint)
	return listOf(r, q, checkout.PrefixReplay, endpoint, s.Store.Webhooks.Replays)
}

// cancelReplay serves POST /v1/replays/{id}/cancel.
func (s *Server) cancelReplay(r *http.Request, replay webhook.Replay) (int, any, error) {
	replay, err := s.actions.CancelReplay(r.Context(), replay, actor(r))
	return http.StatusOK, replay, err
}
