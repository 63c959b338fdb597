package api

import (
	"net/http"
	"time"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/webhook"
)

// Hours during which both secrets sign. Source: api/decisions/signatures.md, "rotation".
const (
	defaultOverlapHours = int(webhook.DefaultRotationOverlap / time.Hour)
	maxOverlapHours     = int(webhook.MaxRotationOverlap / time.Hour)
)

// rotateSecret serves POST /v1/webhooks/{id}/rotate_secret. No other answer shows the new secret.
func (s *Server) rotateSecret(r *http.Request, e webhook.Endpoint) (int, any, error) {
	members, err := readOptional(r)
	if err != nil {
		return 0, nil, err
	}
	f := newFields(members, "overlap_hours")
	hours := f.whole("overlap_hours", 0, maxOverlapHours, defaultOverlapHours)
	if err := f.err(); err != nil {
		return 0, nil, err
	}
	got, err := s.Store.RotateSecret(
		r.Context(), e.Ref, newSecret(r.Context()), time.Duration(hours)*time.Hour,
		audit(r, "webhook.secret_rotated", e.ID, action.RotationDetail(hours)),
	)
	return http.StatusOK, got, err
}
