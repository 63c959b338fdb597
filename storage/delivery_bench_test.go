package storage_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

var logSize = flag.Int("deliveries", 100_000, "deliveries in the log of BenchmarkDeliveryLog")

// The log of 30 days: one busy merchant, nine others, and 99 of 100 deliveries delivered.
const (
	benchMerchant = "mer_00000000000000000000000000"
	benchEndpoint = "wh_00000000000000000000000000"
)

// BenchmarkDeliveryLog measures the queries of merchants and workers on a log of -deliveries
// deliveries, with one attempt each:
//
//	go test ./storage -run '^$' -bench DeliveryLog -deliveries 10000000
func BenchmarkDeliveryLog(b *testing.B) {
	s := fillLog(b, *logSize)
	ctx, owner := b.Context(), checkout.Owner{MerchantID: benchMerchant, Mode: checkout.ModeTest}
	list := func(f storage.DeliveryFilter, p pg.Page) func(*testing.B) {
		return func(b *testing.B) {
			p.Limit = 100
			for b.Loop() {
				got := must.Get(s.Webhooks.Deliveries(ctx, owner, f, p))(b)
				require.NotEmpty(b, got)
			}
		}
	}
	middle := fmt.Sprintf("whd_%026d", *logSize/2)
	b.Run("list/first page", list(storage.DeliveryFilter{}, pg.Page{}))
	b.Run("list/page in the middle", list(storage.DeliveryFilter{}, pg.Page{Before: middle}))
	b.Run("list/failed", list(storage.DeliveryFilter{Status: webhook.DeliveryFailed}, pg.Page{}))
	b.Run("list/failed in the middle", list(storage.DeliveryFilter{Status: webhook.DeliveryFailed}, pg.Page{Before: middle}))
	b.Run("list/pending", list(storage.DeliveryFilter{Status: webhook.DeliveryPending}, pg.Page{}))
	b.Run("list/delivered", list(storage.DeliveryFilter{Status: webhook.DeliveryDelivered}, pg.Page{}))
	b.Run("list/one registration", list(storage.DeliveryFilter{EndpointID: benchEndpoint}, pg.Page{}))
	b.Run("list/failed of one registration", list(storage.DeliveryFilter{EndpointID: benchEndpoint, Status: webhook.DeliveryFailed}, pg.Page{}))
	b.Run("list/one event", list(storage.DeliveryFilter{EventID: fmt.Sprintf("evt_%026d", *logSize/20*10)}, pg.Page{}))
	b.Run("list/one session", list(storage.DeliveryFilter{SessionID: fmt.Sprintf("cs_%026d", *logSize/20*10)}, pg.Page{}))
	b.Run("one with its attempts", func(b *testing.B) {
		for b.Loop() {
			must.Get(s.Webhooks.Delivery(ctx, owner.Ref(fmt.Sprintf("whd_%026d", *logSize/20*10))))(b)
		}
	})
	b.Run("attempt", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i += 10
			ref := owner.Ref(fmt.Sprintf("whd_%026d", i%*logSize))
			out := must.Get(s.Webhooks.BeginAttempt(ctx, ref, webhook.Turn{RunID: fmt.Sprint("run", i), Try: 1}))(b)
			require.NoError(b, s.Webhooks.FinishAttempt(ctx, ref, webhook.Attempt{Run: out.Run, Number: 1, StatusCode: 200}, 0))
		}
	})
	b.Run("overdue, none", func(b *testing.B) {
		for b.Loop() {
			require.Empty(b, must.Get(s.Installation.Overdue(ctx, 365*24*time.Hour, "", 200))(b))
		}
	})
	b.Run("retention, 1000 deliveries", func(b *testing.B) {
		for b.Loop() {
			must.Get(s.Installation.DeleteFinished(ctx, 29*24*time.Hour, 1000))(b)
		}
	})
	b.Run("retention, 1000 events that were sent", func(b *testing.B) {
		for b.Loop() {
			_, n, err := s.Installation.DeleteUnsentEvents(ctx, 24*time.Hour, "", 1000)
			require.NoError(b, err)
			require.Zero(b, n)
		}
	})
}

// fillLog returns a store with n deliveries; every tenth is the busy merchant's.
func fillLog(b *testing.B, n int) *storage.Store {
	b.Helper()
	db := storagetest.New(b)
	s := db.Open(b, 0)
	for i := range 10 {
		shop, endpoint := benchMerchant[:len(benchMerchant)-1]+fmt.Sprint(i), benchEndpoint[:len(benchEndpoint)-1]+fmt.Sprint(i)
		require.NoError(b, s.Merchants.CreateMerchant(b.Context(), merchant.Merchant{ID: shop, Name: "Shop", Plan: "standard", PaymentAttempts: 3}, checkout.ModeTest, nil))
		_, err := s.Webhooks.CreateEndpoint(b.Context(), webhook.Endpoint{
			Ref: checkout.Owner{MerchantID: shop, Mode: checkout.ModeTest}.Ref(endpoint), URL: "https://shop.example/", Events: webhook.EventTypes,
			Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
		})
		require.NoError(b, err)
	}
	conn := db.Connect(b)
	const batch = 100_000
	for from := 0; from < n; from += batch {
		for _, sql := range []string{
			`INSERT INTO event (id, merchant_id, mode, type, subject_id, session_id, created_at, body)
				SELECT 'evt_' || lpad(i::text, 26, '0'), 'mer_' || lpad((i % 10)::text, 26, '0'), 'test', 'payout.sent', 'po_' || i, 'cs_' || lpad(i::text, 26, '0'),
				now() - interval '30 days' * (1 - i::float8 / $3), convert_to(repeat('x', 600), 'UTF8') FROM generate_series($1::int, $2::int) i WHERE $3 > 0`,
			`INSERT INTO webhook_delivery (id, event_id, merchant_id, mode, endpoint_id, url, status, run, run_id, next_attempt_at, created_at, finished_at)
				SELECT 'whd_' || lpad(i::text, 26, '0'), 'evt_' || lpad(i::text, 26, '0'), 'mer_' || lpad((i % 10)::text, 26, '0'), 'test',
				'wh_' || lpad((i % 10)::text, 26, '0'), 'https://shop.example/', CASE WHEN i / 10 % 200 = 0 THEN 'pending' WHEN i / 10 % 200 = 1 THEN 'failed' ELSE 'delivered' END, 1, 'r',
				CASE WHEN i / 10 % 200 = 0 THEN now() END, now() - interval '30 days' * (1 - i::float8 / $3),
				CASE WHEN i / 10 % 200 <> 0 THEN now() - interval '30 days' * (1 - i::float8 / $3) END
				FROM generate_series($1::int, $2::int) i`,
			`INSERT INTO webhook_attempt (delivery_id, run, number, started_at, duration_ms, status_code, response_body)
				SELECT 'whd_' || lpad(i::text, 26, '0'), 1, 1, now(), 20, 200, 'ok' FROM generate_series($1::int, $2::int) i WHERE $3 > 0`,
		} {
			must.Get(conn.Exec(b.Context(), sql, from, min(from+batch, n)-1, n))(b)
		}
	}
	must.Get(conn.Exec(b.Context(), "VACUUM ANALYZE event, webhook_delivery, webhook_attempt"))(b)
	var size int64
	require.NoError(b, conn.QueryRow(b.Context(), `SELECT pg_database_size(current_database())`).Scan(&size))
	b.Logf("%d deliveries: %.1f GB, %d bytes each", n, float64(size)/1e9, size/int64(n))
	return s
}
