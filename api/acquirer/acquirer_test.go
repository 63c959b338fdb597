package acquirer_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"example.com/checkout/activities/stripe"
	"example.com/checkout/api/acquirer"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

const secret = "whsec_right"

// desk takes reports about one payment in flight.
type desk struct {
	t       *testing.T
	store   *storage.Store
	handler http.Handler
	session checkout.Session
	payment string
	told    []string // session and transaction ids
	away    error    // the workflow's answer
	booked  []checkout.Mode
}

const reference = "pi_1"

func newDesk(t *testing.T) *desk {
	t.Parallel()
	store := storagetest.New(t).Open(t, 0)
	d := &desk{t: t, store: store}
	m := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard", PaymentAttempts: 3}
	require.NoError(t, store.Merchants.CreateMerchant(t.Context(), m, checkout.ModeLive, nil))
	d.session = storagetest.Session(t, store, m.Owner(checkout.ModeLive))
	d.payment = storagetest.Begin(t, store, d.session.Ref, storage.NewPayment{}, reference)
	d.handler = acquirer.New(acquirer.Config{
		Reports: acquirer.Reports{
			Books: store.Books, Log: slog.New(slog.DiscardHandler),
			SignalComplete: func(_ context.Context, sessionID, transactionID string) error {
				d.told = append(d.told, sessionID+" "+transactionID)
				return d.away
			},
		},
		Books: func(_ context.Context, mode checkout.Mode) error {
			d.booked = append(d.booked, mode)
			return d.away
		},
		Verify: func(payload []byte, signature string) (books.AcquirerEvent, error) {
			return stripe.VerifyEvent(payload, signature, checkout.ModeLive, []string{"whsec_old", secret})
		},
	})
	return d
}

func report(id string) string {
	return fmt.Sprintf(`{"id": %s, "object": "event", "type": "payment_intent.succeeded", "created": %d, "livemode": true,
		"data": {"object": {"id": %q, "object": "payment_intent"}}}`, quoted(id), time.Now().Unix(), reference)
}

func quoted(text string) string {
	return `"` + strings.ReplaceAll(text, "\x00", `\u0000`) + `"`
}

func sign(body, key string, at time.Time) string {
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}

func (d *desk) send(body, signature string) int {
	r := httptest.NewRequestWithContext(d.t.Context(), http.MethodPost, acquirer.Path, strings.NewReader(body))
	r.Header.Set("Stripe-Signature", signature)
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	require.Empty(d.t, w.Body.String())
	return w.Code
}

func TestReports_AreNotedOnceAndMakeTheSessionLook(t *testing.T) {
	d := newDesk(t)
	d.away = errors.New("Temporal is away") // the session looks by itself
	body := report("evt_1")
	for range 3 {
		require.Equal(t, http.StatusOK, d.send(body, sign(body, secret, time.Now())))
	}
	require.Equal(t, []string{d.session.ID + " " + d.payment}, d.told, "three times the same report asks once")
	require.Empty(t, d.booked, "nothing is at risk")
	fresh, err := d.store.Books.StoreAcquirerEvent(t.Context(), books.AcquirerEvent{ID: "evt_1", Mode: checkout.ModeLive, CreatedAt: time.Now()})
	require.NoError(t, err)
	require.False(t, fresh, "it is stored")
	got, err := d.store.Sessions.Session(t.Context(), d.session.Ref)
	require.NoError(t, err)
	require.Equal(t, checkout.StatusPending, got.Status, "a report of success completes nothing")
}

func TestReports_OfADisputeMakeTheBooksLookOnce(t *testing.T) {
	d := newDesk(t)
	d.away = errors.New("Temporal is away")
	body := fmt.Sprintf(`{"id": "evt_3", "object": "event", "type": "charge.dispute.created", "created": %d,
		"livemode": true, "data": {"object": {"id": "dp_1", "object": "dispute", "payment_intent": %q}}}`,
		time.Now().Unix(), reference)
	for range 3 {
		require.Equal(t, http.StatusOK, d.send(body, sign(body, secret, time.Now())))
	}
	require.Equal(t, []checkout.Mode{checkout.ModeLive}, d.booked)
}

func counted(t *testing.T) (n int64) {
	var all metricdata.ResourceMetrics
	require.NoError(t, collect().Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "checkout.acquirer.reports" {
				for _, p := range sum.DataPoints {
					if outcome, _ := p.Attributes.Value("checkout.acquirer.report.outcome"); outcome.AsString() == "refused" {
						n += p.Value
					}
				}
			}
		}
	}
	return n
}

// collect returns the reader of this process's metrics. The global meter can be set once only.
var collect = sync.OnceValue(func() *metric.ManualReader {
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	return reader
})

func TestReports_OfSomebodyElseAreRefusedAndCounted(t *testing.T) {
	d := newDesk(t)
	before := counted(t)
	body := report("evt_3")
	for _, signature := range []string{"", sign(body, "whsec_wrong", time.Now())} {
		require.Equal(t, http.StatusBadRequest, d.send(body, signature), signature)
	}
	require.Equal(t, before+2, counted(t))
	large := strings.Repeat(" ", 1<<20) + body
	require.Equal(t, http.StatusRequestEntityTooLarge, d.send(large, sign(large, secret, time.Now())))
	require.Empty(t, d.told)

	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, acquirer.Path, nil)
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

// TestReports_ThatCanNeverBeStoredDoNotComeAgain: the network sends again what gets no 2xx, for days.
func TestReports_ThatCanNeverBeStoredDoNotComeAgain(t *testing.T) {
	d := newDesk(t)
	good := report("evt_5")
	for name, body := range map[string]string{
		"NUL in the id":        report("evt_\x00"),
		"NUL in the type":      strings.Replace(good, "succeeded\"", `succeeded\u0000"`, 1),
		"NUL in the object":    strings.Replace(good, reference, reference+`\u0000`, 1),
		"an id of 4,000 bytes": report("evt_" + strings.Repeat("a", 4000)),
		"no event":             `{}`,
		"no JSON":              `x`,
	} {
		require.Equal(t, http.StatusOK, d.send(body, sign(body, secret, time.Now())), name)
	}
	require.Empty(t, d.told)

	for i, created := range []int64{-1 << 62, -1, 1 << 40, 1 << 62} {
		body := fmt.Sprintf(`{"id": "evt_at_%d", "object": "event", "type": "payment_intent.succeeded", "created": %d,
			"livemode": true, "data": {"object": {"id": %q, "object": "payment_intent"}}}`, i, created, reference)
		require.Equal(t, http.StatusOK, d.send(body, sign(body, secret, time.Now())), created)
		require.Len(t, d.told, i+1, "a wrong time hides no payment: %d", created)
	}
}

func TestReports_ThatCannotBeStoredComeAgain(t *testing.T) {
	d := newDesk(t)
	d.store.Close()
	body := report("evt_4")
	require.Equal(t, http.StatusServiceUnavailable, d.send(body, sign(body, secret, time.Now())))
	require.Empty(t, d.told)
}
