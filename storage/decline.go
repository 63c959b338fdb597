package storage

import (
	"context"
	"fmt"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// DeclineRates say how many cards may be declined at one live merchant: those of one address, and those of all. While
// those of all are used up, an address with a declined card waits until its own bucket is full again. Others pay as
// before. Source: api/decisions/hosted_page.md, "limits".
type DeclineRates struct{ Address, Merchant Rate } // a Merchant without Burst has no limit

// SlowedError refuses a payment because cards were declined at the merchant. Nothing was done.
type SlowedError struct{ Wait time.Duration }

func (e *SlowedError) Error() string { return fmt.Sprintf("cards were declined: wait %s", e.Wait) }

// bucketDeclined is the kind of the buckets. The owner is the merchant, or the merchant and an address.
const bucketDeclined = "page_declined"

// CountDecline counts a declined card of an address at a live merchant.
func (s *Requests) CountDecline(ctx context.Context, merchantID, address string, r DeclineRates) error {
	buckets := []Bucket{{Owner: merchantID + " " + address, Kind: bucketDeclined, Rate: r.Address}}
	if r.Merchant.Burst > 0 {
		buckets = append(buckets, Bucket{Owner: merchantID, Kind: bucketDeclined, Rate: r.Merchant})
	}
	_, err := s.Allow(ctx, buckets...)
	return err
}

// declineWait selects the seconds that an address, a parameter, waits before it may pay the live session s. It is NULL
// or at most 0 when the address need not wait.
func declineWait(address string) string {
	const left = `(%[1]s.tokens + %[1]s.rate * extract(epoch FROM clock_timestamp() - %[1]s.at))`
	return `(SELECT (CASE WHEN EXISTS (
				SELECT FROM token_bucket b WHERE b.owner = s.merchant_id AND b.kind = '` + bucketDeclined + `'
					AND ` + fmt.Sprintf(left, "b") + ` < 1) THEN a.burst ELSE 1 END - ` + fmt.Sprintf(left, "a") + `) / a.rate
			FROM token_bucket a WHERE s.mode = 'live' AND a.owner = s.merchant_id || ' ' || ` + address + `::text
				AND a.kind = '` + bucketDeclined + `')`
}

// whyNotCreated returns why CreatePayment stored nothing.
func (s *Sessions) whyNotCreated(ctx context.Context, p NewPayment) error {
	waits, err := pg.Values[float64](ctx, s.pool, `
		SELECT w.wait FROM checkout_session s CROSS JOIN LATERAL (SELECT `+declineWait("$2")+` AS wait) w
		WHERE s.id = $1 AND `+mayBePaid+` AND w.wait > 0`, p.SessionID, p.Address)
	if err != nil {
		return err
	}
	for _, wait := range waits {
		return &SlowedError{time.Duration(wait * float64(time.Second))}
	}
	return checkout.ErrNotPending
}
