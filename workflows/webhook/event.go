// Package webhook holds the domain types of webhooks: events, endpoints, deliveries, the retry schedule and the
// signature. It does no I/O and imports the standard library and packages of domain types only.
package webhook

import (
	"encoding/json"
	"time"

	"example.com/checkout/workflows/checkout"
)

// Event is something that happened once. Body is its envelope: the exact bytes that every delivery sends.
type Event struct {
	checkout.Ref

	Type      EventType
	SubjectID string // id of the transaction, payout, refund, dispute or settings change
	SessionID string // "" when no session caused the event
	CreatedAt time.Time
	Body      []byte
}

// MarshalJSON writes the event: the envelope with data, byte for byte, and fields that receivers do not need. Source:
// api/interface.md, "Event envelope".
func (e Event) MarshalJSON() ([]byte, error) {
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(e.Body, &envelope); err != nil {
		return nil, err
	}
	var session *string
	if e.SessionID != "" {
		session = &e.SessionID
	}
	return checkout.EncodeJSON(struct {
		ID        string          `json:"id"`
		Type      EventType       `json:"type"`
		CreatedAt string          `json:"created_at"`
		SessionID *string         `json:"session_id"`
		Livemode  bool            `json:"livemode"`
		Data      json.RawMessage `json:"data"`
	}{
		ID: e.ID, Type: e.Type, CreatedAt: checkout.FormatTime(e.CreatedAt), SessionID: session,
		Livemode: e.Mode.Live(), Data: envelope.Data,
	})
}

// Envelope returns the JSON that carries data to receivers. Source: api/interface.md, "Event envelope".
func Envelope(id string, typ EventType, createdAt time.Time, data any) ([]byte, error) {
	return checkout.EncodeJSON(struct {
		ID        string    `json:"id"`
		Type      EventType `json:"type"`
		CreatedAt string    `json:"created_at"`
		Data      any       `json:"data"`
	}{id, typ, checkout.FormatTime(createdAt), data})
}
