package hosted

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// slow lets through burst requests. The next token comes back after a quarter of an hour, when go test has given up.
func slow(burst int) storage.Rate { return storage.Rate{PerSecond: 0.001, Burst: burst} }

func (h *harness) from(address, method, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(h.t.Context(), method, testURL+path, strings.NewReader(form.Encode()))
	r.RemoteAddr = address
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return h.do(r)
}

func TestLimits_FormsOfAnAddress(t *testing.T) {
	h := newHarness(t)
	h.pay = declines
	h.server.entrance.Rates.Forms = slow(3)
	const tester = "192.0.2.1:1000"
	for i := range 5 {
		id := h.session() // card testing: one card after another, each in a session of its own
		w := h.from(tester, http.MethodPost, "/"+id, goodCard())
		if i < 3 {
			require.Equal(t, http.StatusOK, w.Code)
			continue
		}
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
		require.NoError(t, err)
		require.Positive(t, seconds)
		require.Contains(t, w.Body.String(), english.Texts.TooManyTitle)
		require.Contains(t, w.Body.String(), `href="/checkout/`+id+`"`, "the way back")
		require.Contains(t, w.Body.String(), "Wait "+w.Header().Get("Retry-After")+"\u00a0s")
	}
	require.Len(t, h.paid, 3)
	require.Len(t, h.cards.seen, 3, "the card network is not asked either")
	id := h.session()
	require.Equal(t, http.StatusTooManyRequests, h.from(tester, http.MethodPost, "/"+id+"/cancel", url.Values{}).Code)
	require.Equal(t, http.StatusOK, h.from(tester, http.MethodGet, "/"+id, nil).Code, "looking is another matter")
	require.Equal(t, http.StatusOK, h.from("192.0.2.2:1000", http.MethodPost, "/"+id, goodCard()).Code)
}

func TestLimits_CustomersWhoShareAnAddressPay(t *testing.T) {
	h := newHarness(t)
	h.pay = succeeds
	h.server.entrance.Rates.Forms = slow(3)
	const office = "192.0.2.1:1000"
	for i := range 25 {
		id := h.session()
		if i%5 == 0 {
			require.Equal(t, http.StatusUnprocessableEntity, h.from(office, http.MethodPost, "/"+id, url.Values{}).Code, "a slip")
		}
		require.Equal(t, http.StatusSeeOther, h.from(office, http.MethodPost, "/"+id, goodCard()).Code, i)
	}
	require.Len(t, h.paid, 25)
	h.pay = declines
	for i := range 4 {
		want := http.StatusOK
		if i == 3 {
			want = http.StatusTooManyRequests
		}
		require.Equal(t, want, h.from(office, http.MethodPost, "/"+h.session(), goodCard()).Code, "refused cards count as before")
	}
}

func TestLimits_AFormWhoseCardNobodyRefusedDoesNotCount(t *testing.T) {
	h := newHarness(t)
	h.server.entrance.Rates.Forms = slow(1)
	const office = "192.0.2.1:1000"
	send := func(form url.Values) int {
		return h.from(office, http.MethodPost, "/"+h.session(), form).Code
	}
	h.cards.err = errors.New("away")
	for range 3 {
		require.Equal(t, http.StatusServiceUnavailable, send(goodCard()), "the network does not answer")
	}
	h.cards.err, h.pay = nil, succeeds
	taken := goodCard()
	taken.Set(fieldPayment, checkout.NewID(checkout.PrefixTransaction))
	for range 3 {
		require.Equal(t, http.StatusSeeOther, send(taken), "the first session has this payment, the others do not")
	}
	require.Len(t, h.paid, 1)
	h.database.Exec(t, `ALTER TABLE transaction ADD CONSTRAINT full_disk CHECK (false) NOT VALID`)
	for range 3 {
		require.Equal(t, http.StatusInternalServerError, send(goodCard()), "the payment is not stored")
	}
	h.database.Exec(t, `ALTER TABLE transaction DROP CONSTRAINT full_disk`)
	h.pay = declines
	require.Equal(t, http.StatusOK, send(goodCard()), "a refused card has the only token")
	require.Equal(t, http.StatusTooManyRequests, send(goodCard()))
}

func TestBound_TheBanksPageOfTheSandboxToo(t *testing.T) {
	h := newHarness(t)
	cfg := h.server.Config
	cfg.Limits.Requests = slow(3)
	bank := Bound(cfg, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for i := range 5 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, testURL+"/txn_1", nil)
		w := httptest.NewRecorder()
		bank.ServeHTTP(w, r)
		require.Equal(t, i < 3, w.Code == http.StatusTeapot, i)
		if i >= 3 {
			require.Equal(t, http.StatusTooManyRequests, w.Code)
			require.NotEmpty(t, w.Header().Get("Retry-After"))
		}
	}
}

func TestLimits_RequestsOfAnAddress(t *testing.T) {
	h := newHarness(t)
	h.server.entrance.Rates.Requests = slow(6)
	id := h.session()
	for i, path := range []string{"/" + id, "/" + checkout.NewID(checkout.PrefixSession), "/" + id + "/return", "/" + id + "/status", "/cs_1", "/logo/mer_1/1.png"} {
		require.NotEqual(t, http.StatusTooManyRequests, h.get(path).Code, i)
	}
	for _, path := range []string{"/" + id, "/" + id + "/return", "/" + id + "/status", "/cs_1", "/logo/mer_1/1.png"} {
		require.Equal(t, http.StatusTooManyRequests, h.get(path).Code, path)
	}
	require.Equal(t, http.StatusOK, h.get("/static/checkout.css").Code, "the page for those who wait has its style")
}

func TestLimits_StatusOfASession(t *testing.T) {
	h := newHarness(t)
	pgtemp.StopTime(t, h.database.URL, "token_bucket", "at")
	id, refused := h.session(), 0
	for i := range 60 { // from as many addresses
		w := h.from("192.0.2."+strconv.Itoa(i)+":1", http.MethodGet, "/"+id+"/status", nil)
		if w.Code == http.StatusTooManyRequests {
			refused++
			require.JSONEq(t, `{"error":"rate_limited"}`, w.Body.String())
			require.Equal(t, "1", w.Header().Get("Retry-After"))
		}
	}
	require.Equal(t, 40, refused)
	require.Equal(t, http.StatusOK, h.get("/"+h.session()+"/status").Code, "another session has its own")
}

func TestLimits_DeclinedCardsAtALiveMerchant(t *testing.T) {
	h := newStripe(t, checkout.ModeLive, "eip155:1")
	h.server.Declines = storage.DeclineRates{Address: slow(3), Merchant: slow(4)}
	const tester, other, customer, guest = "192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1"
	shop, another := checkout.NewID(checkout.PrefixMerchant), checkout.NewID(checkout.PrefixMerchant)
	send := func(address, shop string, mode checkout.Mode, result checkout.ChargeResult) *httptest.ResponseRecorder {
		h.pay = decides(result)
		id, form := h.session(func(n *storage.NewSession, m *merchant.Merchant) { n.Mode, m.ID = mode, shop }), goodToken()
		if !mode.Live() {
			form = goodCard()
		}
		return h.from(address, http.MethodPost, "/"+id, form)
	}
	declined := checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined}
	broken := checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureProcessingError}
	paid := checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}
	for range 4 {
		require.Equal(t, http.StatusOK, send(tester, shop, checkout.ModeLive, broken).Code, "no card was declined")
		require.Equal(t, http.StatusOK, send(tester, shop, checkout.ModeTest, declined).Code, "test cards are there for it")
		require.Equal(t, http.StatusSeeOther, send(tester, shop, checkout.ModeLive, paid).Code)
	}
	for range 3 {
		require.Equal(t, http.StatusOK, send(tester, shop, checkout.ModeLive, declined).Code)
	}
	asked := len(h.paid)
	refused := send(tester, shop, checkout.ModeLive, paid)
	require.Equal(t, http.StatusTooManyRequests, refused.Code)
	seconds, err := strconv.Atoi(refused.Header().Get("Retry-After"))
	require.NoError(t, err)
	require.InDelta(t, 1000, seconds, 60)
	require.Contains(t, refused.Body.String(), "Several cards were declined here in a short time. You have not been charged")
	require.Contains(t, refused.Body.String(), `value="ada@example.com"`)
	require.Len(t, h.paid, asked, "nothing is charged")
	require.Equal(t, http.StatusSeeOther, send(tester, shop, checkout.ModeTest, paid).Code)
	require.Equal(t, http.StatusSeeOther, send(tester, another, checkout.ModeLive, paid).Code)
	require.Equal(t, http.StatusSeeOther, send(other, shop, checkout.ModeLive, paid).Code)

	require.Equal(t, http.StatusOK, send(other, shop, checkout.ModeLive, declined).Code, "the merchant's last")
	require.Equal(t, http.StatusTooManyRequests, send(other, shop, checkout.ModeLive, paid).Code)
	require.Equal(t, http.StatusSeeOther, send(customer, shop, checkout.ModeLive, paid).Code, "who was not declined pays")
	require.Equal(t, http.StatusOK, send(guest, shop, checkout.ModeLive, declined).Code)
	require.Equal(t, http.StatusTooManyRequests, send(guest, shop, checkout.ModeLive, paid).Code)
	h.database.Exec(t, `UPDATE token_bucket SET at = at - interval '1001 seconds'`)
	require.Equal(t, http.StatusSeeOther, send(guest, shop, checkout.ModeLive, paid).Code)
}
