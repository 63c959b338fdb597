package sdk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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

func TestClient_RefundsAndReadsWhatCameBack(t *testing.T) {
	t.Parallel()
	var got string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("Idempotency-Key"), string(body))
		fmt.Fprint(w, `{}`)
	}))
	defer api.Close()
	c, ctx, query := NewClient(api.URL, "sk_test_1"), t.Context(), url.Values{"status": {"pending"}}
	amount := 4.5
	for want, call := range map[string]func() error{
		`POST /v1/checkout/cs_1/refund return-1{"amount":4.5}`: func() error {
			_, err := c.RefundSession(ctx, "return-1", "cs_1", RefundRequest{Amount: &amount})
			return err
		},
		`GET /v1/refunds/re_1 `:           func() error { _, err := c.Refund(ctx, "re_1"); return err },
		`GET /v1/refunds?status=pending `: func() error { _, err := c.Refunds(ctx, query); return err },
		`GET /v1/disputes/dp_1 `:          func() error { _, err := c.Dispute(ctx, "dp_1"); return err },
		`POST /v1/disputes/dp_1/evidence answer-1{"files":{"receipt":"JVBERi0="},"texts":{"customer_name":"Ann"}}`: func() error {
			name, receipt := "Ann", []byte("%PDF-")
			_, err := c.SubmitEvidence(ctx, "answer-1", "dp_1", EvidenceRequest{
				Files: &EvidenceFiles{Receipt: &receipt}, Texts: &EvidenceTexts{CustomerName: &name},
			})
			return err
		},
		`GET /v1/disputes?status=pending `: func() error { _, err := c.Disputes(ctx, query); return err },
		`GET /v1/balance `:                 func() error { _, err := c.Balance(ctx); return err },
		`GET /v1/balance/transactions?status=pending `: func() error {
			_, err := c.BalanceTransactions(ctx, query)
			return err
		},
	} {
		if err := call(); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestClient_ARefusedRefundSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":"insufficient_balance","message":"…","missing":12.4,"currency":"EUR","request_id":"req_1"}`)
	}))
	defer api.Close()
	_, err := NewClient(api.URL, "sk_test_1").RefundSession(t.Context(), "", "cs_1", RefundRequest{})
	var refused *APIError
	var lacks InsufficientBalance
	if !errors.As(err, &refused) || json.Unmarshal(refused.Body, &lacks) != nil || lacks.Missing != 12.4 || lacks.Currency != EUR {
		t.Errorf("%v: %+v", err, lacks)
	}
}

// TestParseStored_APayoutOfTheBalanceHasNoSession: the fields are texts, as in version 1.0.0.
func TestParseStored_APayoutOfTheBalanceHasNoSession(t *testing.T) {
	got, err := ParseStored([]byte(`{"id": "evt_1", "type": "payout.sent", "created_at": "2026-11-22T08:51:07.123Z",
		"data": {"id": "po_1", "session_id": null, "transaction_id": null}}`))
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Event.(PayoutSent).Data; p.Id != "po_1" || p.SessionId != "" || p.TransactionId != "" {
		t.Errorf("got %+v", p)
	}
}
