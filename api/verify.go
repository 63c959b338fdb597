package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"time"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// verifySignature serves POST /v1/webhooks/verify. It explains why a receiver refuses a delivery.
// It signs nothing and returns no secret, digest or signature. It only compares, in constant time.
func (s *Server) verifySignature(r *http.Request) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	allowance, err := s.Store.Requests.Allow(
		ctx, storage.Bucket{Owner: caller.Merchant.ID, Kind: bucketVerify, Rate: s.Limits.Verify},
	)
	if err != nil {
		return 0, nil, err
	}
	if !allowance.OK {
		return 0, nil, &limit.TooOftenError{Wait: allowance.Wait}
	}

	f, err := readObject(r, "webhook", "header", "body", "computed")
	if err != nil {
		return 0, nil, err
	}
	v := verification{Now: time.Now(), EndpointID: optionalID(f, "webhook", checkout.PrefixEndpoint)}
	v.Header, _ = f.requiredText("header")
	if v.Body, _ = f.requiredText("body"); len(v.Body) > maxVerifiedBody {
		f.add("body", "must have at most 32768 bytes; no event is larger")
		v.Body = ""
	}
	v.Computed, _ = f.optionalText("computed")

	eventID := eventIDIn(v.Body)

	if v.Keys, err = s.Store.Webhooks.WebhookKeys(ctx, caller.Key.Owner, eventID); err != nil {
		return 0, nil, err
	}

	if v.EndpointID != "" && f.err() == nil && !v.hasEndpoint(v.EndpointID) {
		f.add("webhook", "is not one of your webhook registrations in this mode")
	}
	if err := f.err(); err != nil {
		return 0, nil, err
	}

	if eventID != "" {
		e, err := s.Store.Webhooks.Event(ctx, caller.Key.Owner.Ref(eventID))
		if err != nil && !errors.Is(err, checkout.ErrNotFound) {
			return 0, nil, err
		}
		v.Stored = string(e.Body)
	}

	var explained verdict
	err = explaining.Do(ctx, func() { explained = v.explain() })
	if errors.Is(err, limit.ErrBusy) {
		return 0, nil, &limit.TooOftenError{Wait: time.Second}
	}
	return http.StatusOK, explained, err
}

const (
	maxVerifiedBody = 32 << 10
	bucketVerify    = "verify" // one bucket per merchant for both modes
)

// explaining bounds the processor time of explanations. Each one tries every secret of a merchant
// on every text that the merchant may have signed.
var explaining = limit.NewGate(1, 16)

// hasEndpoint reports whether id is a registration of the caller that is not deleted.
func (v verification) hasEndpoint(id string) bool {
	return slices.ContainsFunc(v.Keys, func(k storage.WebhookKeys) bool {
		return k.EndpointID == id && k.SessionID == "" && !k.Deleted
	})
}

var eventIDPattern = regexp.MustCompile(checkout.PrefixEvent + `_[0-9a-hjkmnp-tv-z]{26}`)

// eventIDIn returns the event id in a body, even when the body was cut or changed; "" without one.
func eventIDIn(body string) string {
	var envelope struct {
		ID string `json:"id"`
	}
	if json.Unmarshal([]byte(body), &envelope) == nil && checkout.IsID(checkout.PrefixEvent, envelope.ID) {
		return envelope.ID
	}
	return eventIDPattern.FindString(body)
}

// verification is the input of an explanation.
type verification struct {
	Header     string
	Body       string
	EndpointID string                // the expected signer, "" for any
	Computed   string                // the signature that the merchant's code computed, "" for none
	Stored     string                // the body that the service sends, "" when the event is unknown
	Keys       []storage.WebhookKeys // all keys that may have signed
	Now        time.Time
}
