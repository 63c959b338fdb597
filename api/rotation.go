package api

import (
	"net/http"
	"time"

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
	overlap := time.Duration(f.whole("overlap_hours", 0, maxOverlapHours, defaultOverlapHours)) * time.Hour
	if err := f.err(); err != nil {
		return 0, nil, err
	}
	got, err := s.actions.RotateSecret(r.Context(), e.Ref, newSecret(r.Context()), overlap, actor(r))
	return http.StatusOK, got, err
}
