package webhook

import (
	"errors"
	"time"

	"example.com/checkout/workflows/checkout"
)

// ReplayStatus is the state of a bulk replay.
type ReplayStatus string

// States of a bulk replay.
const (
	ReplayRunning   ReplayStatus = "running"
	ReplayCompleted ReplayStatus = "completed"
	ReplayCanceled  ReplayStatus = "canceled"
)

// ReplayableStatuses lists the delivery statuses that a bulk replay can select. The first is the default.
var ReplayableStatuses = []DeliveryStatus{DeliveryFailed, DeliveryDelivered, DeliveryCanceled}

// Rates of a bulk replay, in deliveries a second. The default is gentle, because the receiver has
// just been down. The maximum holds for all bulk replays of a merchant together.
const (
	DefaultReplayRate = 10
	MaxReplayRate     = 100
)

// Errors of starting a bulk replay.
var (
	// ErrReplayRunning: another bulk replay of the registration is running.
	ErrReplayRunning = errors.New("a bulk replay of the registration is running")
	// ErrReplayRate: with the merchant's running bulk replays, the sum of the rates is too high.
	ErrReplayRate = errors.New("the merchant's bulk replays are too fast together")
)

// Replay is a bulk replay: it starts the deliveries of one endpoint again that were created in
// [Since, Until) and have the status Filter.
type Replay struct {
	checkout.Ref

	EndpointID string
	Since      time.Time
	Until      time.Time
	Filter     DeliveryStatus // never pending
	Rate       int            // deliveries a second
	Status     ReplayStatus
	Total      int    // deliveries to start, counted at creation
	After      string // id of the last started delivery; "" before the first
	Started    int    // runs started so far
	Skipped    int    // deliveries that were in progress at their turn
	CreatedAt  time.Time
	FinishedAt *time.Time
}

// MarshalJSON writes the bulk replay. Source: api/decisions/webhooks.md, "bulk replay".
func (r Replay) MarshalJSON() ([]byte, error) {
	return checkout.EncodeJSON(struct {
		ID             string         `json:"id"`
		WebhookID      string         `json:"webhook_id"`
		Since          string         `json:"since"`
		Until          string         `json:"until"`
		DeliveryStatus DeliveryStatus `json:"delivery_status"`
		Rate           int            `json:"rate"`
		Status         ReplayStatus   `json:"status"`
		Total          int            `json:"total"`
		Started        int            `json:"started"`
		Skipped        int            `json:"skipped"`
		Livemode       bool           `json:"livemode"`
		CreatedAt      string         `json:"created_at"`
		FinishedAt     *string        `json:"finished_at"`
		WorkflowID     string         `json:"workflow_id"`
	}{
		ID: r.ID, WebhookID: r.EndpointID, Since: checkout.FormatTime(r.Since),
		Until: checkout.FormatTime(r.Until), DeliveryStatus: r.Filter, Rate: r.Rate, Status: r.Status,
		Total: r.Total, Started: r.Started, Skipped: r.Skipped, Livemode: r.Mode.Live(),
		CreatedAt: checkout.FormatTime(r.CreatedAt), FinishedAt: checkout.FormatOptionalTime(r.FinishedAt),
		WorkflowID: r.ID,
	})
}
