package hosted

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/failure"
	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

func TestPage_ShowsTheForm(t *testing.T) {
	h := newHarness(t)
	order := "A-1001"
	id := h.session(func(n *storage.NewSession, _ *merchant.Merchant) {
		n.Amount, n.Currency, n.OrderID = 123_456, money.CAD, &order
	})
	w := h.get("/" + id)
	require.Equal(t, http.StatusOK, w.Code)
	body := w.Body.String()
	for _, want := range []string{
		"<title>Pay Aurora Coffee</title>", "CA$1,234.56", "Test mode", "4242 4242 4242 4242", "A-1001", "shop.example.test",
		`name="card_number"`, `autocomplete="cc-number"`, `autocomplete="cc-exp"`, `autocomplete="cc-csc"`, `autocomplete="email"`,
		`inputmode="numeric"`, `value="ada@example.com"`, `action="/checkout/` + id + `"`, `href="/checkout/static/checkout.css?v=`,
	} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, redirectURL, "a pending session leads nowhere")
}

func TestPage_ShowsWhatIsBought(t *testing.T) {
	h := newHarness(t)
	h.pay = succeeds
	id := h.session(func(n *storage.NewSession, _ *merchant.Merchant) {
		n.Description, n.CancelURL = new("Two <weeks> of coffee"), new("https://shop.example.test/cart?s={CHECKOUT_SESSION_ID}&x=%7BCHECKOUT_SESSION_ID%7D")
		n.RedirectURL = new("https://shop.example.test/thanks/{CHECKOUT_SESSION_ID}")
		n.LineItems = []checkout.LineItem{{Name: "Beans & more", Quantity: 2, UnitAmount: 500}, {Name: "Bag", Quantity: 1, UnitAmount: 50}}
	})
	body := h.get("/" + id).Body.String()
	for _, want := range []string{
		`<p class="about">Two &lt;weeks&gt; of coffee</p>`, `<span>Beans &amp; more<small>2 × $5.00</small></span><span class="price">$10.00</span>`,
		`<span>Bag</span><span class="price">$0.50</span>`, `href="https://shop.example.test/cart?s=` + id + `&amp;x=` + id + `"`,
	} {
		require.Contains(t, body, want)
	}
	h.pay = asksBank
	require.NotContains(t, h.follow(h.post("/"+id, goodCard())), "/cart", "no way out while a payment is in flight")

	second := h.session(func(n *storage.NewSession, _ *merchant.Merchant) {
		n.Description, n.RedirectURL = new("Two weeks of coffee"), new("https://shop.example.test/thanks/{CHECKOUT_SESSION_ID}")
	})
	h.pay = succeeds
	body = h.follow(h.post("/"+second, goodCard()))
	require.Contains(t, body, `<dt>Description</dt><dd>Two weeks of coffee</dd>`)
	require.Contains(t, body, `href="https://shop.example.test/thanks/`+second+`"`)

	body = h.get("/" + h.session(func(n *storage.NewSession, _ *merchant.Merchant) { n.RedirectURL = nil })).Body.String()
	require.NotContains(t, body, `class="back"`, "nobody knows where the shop is")
}

func TestPage_LinksToTheMerchantsPages(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	require.NotContains(t, h.get("/"+id).Body.String(), `links`)
	contact := people.Contact{Support: "help@shop.example", TermsURL: "https://shop.example/terms?a=1&b=<2>", PrivacyURL: "https://shop.example/privacy"}
	require.NoError(t, h.store.People.SetBrand(t.Context(), h.refs[id].MerchantID, people.BrandChange{Contact: &contact}))
	body := h.get("/" + id).Body.String()
	for _, want := range []string{
		`<a rel="noreferrer" href="mailto:help@shop.example">Contact</a>`,
		`<a rel="noreferrer" href="https://shop.example/terms?a=1&amp;b=%3c2%3e">Terms</a>`, `href="https://shop.example/privacy">Privacy</a>`,
	} {
		require.Contains(t, body, want)
	}
}

func TestPreview_ShowsTheLooksAndCannotBePaid(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	merchant := h.refs[id].MerchantID
	color, contact := "#ab12cd", people.Contact{TermsURL: "https://shop.example/terms"}
	require.NoError(t, h.store.People.SetBrand(t.Context(), merchant, people.BrandChange{Color: &color, Contact: &contact}))
	body := h.get("/preview/" + merchant).Body.String()
	for _, want := range []string{`/color/ab12cd/`, `href="https://shop.example/terms"`, `id="pay-button" disabled`, `href="/checkout/preview/` + merchant + `?lang=de"`} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, "data-poll")
	body = h.get("/preview/" + merchant + "?color=012345").Body.String()
	require.Contains(t, body, `/color/012345/`)
	require.Contains(t, body, `?color=012345&amp;lang=de"`)
	require.Contains(t, h.get("/preview/"+merchant+"?color=red").Body.String(), `/color/ab12cd/`)
	require.Equal(t, 404, h.get("/preview/"+checkout.NewID(checkout.PrefixMerchant)).Code)
	require.Equal(t, 404, h.get("/preview/"+id).Code)
	require.Equal(t, 405, h.post("/preview/"+merchant, goodCard()).Code)
	require.Empty(t, h.paid)
}

func TestPage_SpeaksTheSessionsLanguageUnlessTheCustomerHasChosen(t *testing.T) {
	h := newHarness(t)
	id := h.session(func(n *storage.NewSession, _ *merchant.Merchant) { n.Locale = new(checkout.Locale("fr")) })
	for cookie, want := range map[string]string{"": "fr", "es": "es"} {
		w := h.ask("/"+id, "de", cookie)
		require.Equal(t, want, w.Header().Get("Content-Language"))
		require.Contains(t, w.Body.String(), `<html lang="`+want+`">`)
	}
	require.Contains(t, h.get("/"+id+"?lang=de").Body.String(), `<html lang="de">`)
}

func TestPage_Unknown(t *testing.T) {
	h := newHarness(t)
	for _, path := range []string{
		"/" + checkout.NewID(checkout.PrefixSession), "/" + checkout.NewID(checkout.PrefixTransaction), "/cs_1", "/", "", "/cs_" + strings.Repeat("u", 26),
		"/%00", "/..%2f..%2fetc", "/cs_'%20OR%201=1", "/static/nothing.css", "/static/..%2fpage.go", "/" + checkout.NewID(checkout.PrefixSession) + "/nothing",
	} {
		w := h.get(path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		require.Contains(t, w.Body.String(), "Page not found")
	}
	require.Equal(t, http.StatusNotFound, h.get("/"+checkout.NewID(checkout.PrefixSession)+"/status").Code)
	require.Equal(t, http.StatusNotFound, h.get("/cs_1/status").Code)
}

func TestPage_MethodNotAllowed(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	for path, allow := range map[string][]string{
		"/" + id: {"GET", "HEAD", "POST"}, "/" + id + "/status": {"GET", "HEAD"}, "/static/checkout.css": {"GET", "HEAD"}, "/" + id + "/return": {"GET", "POST"},
	} {
		w := h.do(httptest.NewRequestWithContext(t.Context(), http.MethodDelete, testURL+path, nil))
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
		require.Equal(t, allow, w.Header().Values("Allow"), path)
		require.Contains(t, w.Body.String(), english.Texts.MethodTitle)
	}
	require.Equal(t, http.StatusMethodNotAllowed, h.get("/"+id+"/cancel").Code)
}

func TestStatus_AnInventedPaymentNeverReachesTheWorkflow(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	for _, path := range []string{"/" + id + "?payment=", "/" + id + "/status?payment="} {
		require.Less(t, h.get(path+checkout.NewID(checkout.PrefixTransaction)).Code, 400)
	}
	require.Empty(t, h.paid)
}

func TestStatus_HoldsNoPersonalData(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	w := h.get("/" + id + "/status")
	var got map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Contains(t, got, "now")
	delete(got, "now")
	require.Equal(t, map[string]any{
		"status": "pending", "payment_in_flight": false, "action": false, "checking": false, "not_possible": false,
		"expires_at": checkout.FormatTime(h.read(id).ExpiresAt),
	}, got)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
}

func TestFail_EveryKindHasItsStatusInTheCustomersLanguage(t *testing.T) {
	t.Parallel()
	s := newServer(Config{CheckoutURL: testURL, Log: slog.New(slog.DiscardHandler)})
	for _, kind := range failure.Kinds {
		for _, l := range languages {
			page, script := httptest.NewRecorder(), httptest.NewRecorder()
			failing := s.inLanguage(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.fail(w, r, fmt.Errorf("hush: %w", kind))
				s.failJSON(script, r, fmt.Errorf("hush: %w", kind))
			}))
			failing.ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?lang="+l.tag, nil))
			require.Equal(t, kind.Status(), page.Code)
			require.Equal(t, kind.Status(), script.Code)
			require.Contains(t, page.Body.String(), problem(&l.Texts, kind, kind).Heading)
			require.NotContains(t, page.Body.String(), "hush")
			require.NotContains(t, script.Body.String(), "hush")
		}
	}
}
