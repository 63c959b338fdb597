package storage

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// LogRequests writes requests to the log, in one statement. It does not wait for the disk: a crash may lose the
// requests of a moment.
func (s *Requests) LogRequests(ctx context.Context, requests []merchant.APIRequest) error {
	n := len(requests)
	texts := make([][]string, 9)
	for i := range texts {
		texts[i] = make([]string, n)
	}
	status, took, at := make([]int16, n), make([]int32, n), make([]time.Time, n)
	for i, r := range requests {
		for column, value := range []string{
			r.ID, r.MerchantID, string(r.Mode), r.RequestID, r.KeyID, r.Method, r.Route, r.Error, r.SessionID,
		} {
			texts[column][i] = value
		}
		status[i], at[i] = int16(r.Status), r.CreatedAt //nolint:gosec // G115: a status of HTTP has three digits
		took[i] = int32(r.Duration.Milliseconds())      //nolint:gosec // G115: a request ends after seconds
	}
	return pg.Exec(ctx, s.pool, "log requests", `
		INSERT INTO api_request (id, merchant_id, mode, request_id, key_id, method, route, error,
			session_id, status, duration_ms, created_at)
		SELECT r.* FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
			$8::text[], $9::text[], $10::smallint[], $11::integer[], $12::timestamptz[]) r, `+pg.Unhurried,
		texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], texts[6], texts[7], texts[8], status, took, at)
}

// RequestFilter selects requests. A zero field does not limit.
type RequestFilter struct {
	RequestID string
	KeyID     string
	Method    string
	Route     string // its beginning
	Class     int    // first digit of the status
}

// Requests lists the requests of a merchant in one mode, newest first.
func (s *Requests) Requests(
	ctx context.Context, owner checkout.Owner, f RequestFilter, p pg.Page,
) ([]merchant.APIRequest, error) {
	q := pg.NewList(owner, "r")
	q.Equal("r.request_id", f.RequestID)
	q.Equal("r.key_id", f.KeyID)
	q.Equal("r.method", f.Method)
	if f.Route != "" {
		q.Where("starts_with(r.route, ?)", f.Route)
	}
	if f.Class >= 4 {
		q.Where("r.status >= 400") // the partial index
	}
	if f.Class != 0 {
		q.Where("r.status / 100 = ?", f.Class)
	}
	q.Page(checkout.PrefixRequest, "r", p)
	got, err := pg.Collect[merchant.APIRequest](ctx, s.pool, `
		SELECT r.id, r.merchant_id, r.mode, r.request_id, r.key_id, r.method, r.route, r.status, r.error, r.session_id,
			r.duration_ms * interval '1 millisecond' AS duration, r.created_at FROM api_request r `+q.SQL, q.Args...)
	for i := range got {
		got[i].CreatedAt = got[i].CreatedAt.UTC()
	}
	return got, pg.Wrap("requests", err)
}
