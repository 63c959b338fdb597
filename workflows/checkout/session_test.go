package checkout_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

func TestSession_IsCompleteAndKeepsTheMerchantsBytes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	url := "https://shop.example/?a=1&b=<2>"
	got, err := checkout.EncodeJSON(checkout.Session{
		Ref: checkout.Owner{Mode: checkout.ModeTest}.Ref("cs_1"), URL: "https://pay.example/cs_1", Amount: 1050, Currency: money.EUR, PayoutCurrency: money.ETH,
		Status: checkout.StatusPending, Metadata: json.RawMessage(`{"z":"<&>","a":1.50}`), RedirectURL: &url,
		Description: new("1 < 2"), LineItems: []checkout.LineItem{{Name: "A & B", Quantity: 2, UnitAmount: 525}},
		CreatedAt: at, ExpiresAt: at.Add(time.Hour),
	})
	require.NoError(t, err)
	require.Equal(t, `{"id":"cs_1","url":"https://pay.example/cs_1","amount":10.50,"currency":"EUR","payout_currency":"ETH","status":"pending",`+
		`"customer_email":null,"metadata":{"z":"<&>","a":1.50},"redirect_url":"https://shop.example/?a=1&b=<2>",`+
		`"cancel_url":null,"description":"1 < 2","locale":null,"line_items":[{"name":"A & B","quantity":2,"unit_amount":5.25,"image_url":null}],"webhook_url":null,`+
		`"livemode":false,"transaction":null,"payout":null,"created_at":"2026-01-02T02:04:05.000Z","expires_at":"2026-01-02T03:04:05.000Z",`+
		`"completed_at":null,"timeline":[{"status":"pending","at":"2026-01-02T02:04:05.000Z","transaction_id":null,"payout_id":null,"reason":null}],"payment_in_progress":false}`, string(got))
}

func TestCard_IsNeverPrinted(t *testing.T) {
	t.Parallel()
	c := checkout.Card{Number: "4242424242424242", CVC: "987"}
	for _, text := range prints(c) {
		require.NotContains(t, text, "4242")
		require.NotContains(t, text, "987")
	}
	_, err := json.Marshal(c)
	require.Error(t, err)
}

// prints formats v in every usual way.
func prints(v any) []string {
	var log bytes.Buffer
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // a time may have the digits of a card
		}
		return a
	}}
	slog.New(slog.NewJSONHandler(&log, options)).Info("x", "v", v)
	text := log.String()
	slog.New(slog.NewTextHandler(&log, options)).Info("x", "v", v)
	return []string{text, log.String(), fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%s", v), fmt.Sprintf("%d", v)}
}
