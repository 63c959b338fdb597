package sdk

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"testing"
	"time"
)

const secret = "whsec_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// signed returns the header of a delivery that was sent at a time.
func signed(body string, at time.Time) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return http.Header{SignatureHeader: {fmt.Sprintf("t=%d,v1=%x", at.Unix(), mac.Sum(nil))}}
}

func TestConstructEvent_NarrowsEachType(t *testing.T) {
	t.Parallel()
	for name, want := range map[EventName]any{
		"checkout.completed": CheckoutCompleted{}, "checkout.failed": CheckoutFailed{}, "payout.sent": PayoutSent{},
		"payout.failed": PayoutFailed{}, "merchant.updated": MerchantUpdated{}, "refund.succeeded": RefundSucceeded{},
		"refund.failed": RefundFailed{}, "dispute.opened": DisputeOpened{}, "dispute.closed": DisputeClosed{},
		"payout.reduced": PayoutReduced{}, "refund.made": nil,
	} {
		body := fmt.Sprintf(`{"id":"evt_1","type":%q,"created_at":"2026-11-03T09:14:05.391Z","data":{"new_field":1}}`, name)
		got, err := ConstructEvent([]byte(body), signed(body, time.Now()), secret)
		if err != nil || got.ID != "evt_1" || got.Type != name || fmt.Sprintf("%T", got.Event) != fmt.Sprintf("%T", want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
