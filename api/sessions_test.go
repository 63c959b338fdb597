package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
)

// with is a valid create with one member added or replaced.
func with(name, value string) string {
	members := map[string]string{"amount": "10.5", "currency": `"USD"`, "payout_currency": `"USDC"`}
	members[name] = value
	var all []string
	for n, v := range members {
		all = append(all, fmt.Sprintf("%q:%s", n, v))
	}
	return "{" + strings.Join(all, ",") + "}"
}

func TestCreateSession_AnswersTheWholeSession(t *testing.T) {
	f := newFront(t)
	started := map[string]string{}
	f.temporal.Start = func(o client.StartWorkflowOptions) error {
		prefix, _, _ := strings.Cut(o.ID, "_")
		started[prefix] = o.ID
		require.NotContains(t, fmt.Sprintf("%+v", o), "ann@example.com")
		return nil
	}
	got := f.do("POST", "/v1/checkout", f.key, `{"amount":10.5,"currency":"EUR","payout_currency":"ETH","livemode":false,
		"customer_email":"ann@example.com","metadata":{ "order_id": "A-1", "n": 1.50, "b": true },
		"redirect_url":"https://shop.example/thanks?a=1","webhook_url":null,"cancel_url":"https://shop.example/cart?s={CHECKOUT_SESSION_ID}",
		"description":"Spring <order>","locale":"de","line_items":[{"name":"Beans","quantity":3,"unit_amount":3.4,"image_url":"https://shop.example/b.png?k=A-1&x=%20"},{"name":"Bag","quantity":1,"unit_amount":0.30}]}`)
	require.Equal(t, 201, got.status, got.body)
	id := got.json["id"].(string)
	require.True(t, checkout.IsID("cs", id))
	require.Equal(t, id, started["cs"], "no session without its workflow")
	require.True(t, checkout.IsID("pic", started["pic"]), "a picture is fetched")
	require.Equal(t, "/v1/checkout/"+id, got.header.Get("Location"))
	created := timeIn(t, got.json["created_at"])
	expires := timeIn(t, got.json["expires_at"])
	require.Equal(t, time.Hour, expires.Sub(created))
	require.WithinDuration(t, time.Now(), created, time.Minute)
	delete(got.json, "created_at")
	delete(got.json, "expires_at")
	require.Equal(t, map[string]any{
		"payment_in_progress": false, "webhook_signed_by": nil,
		"id": id, "url": "https://pay.example.com/c/" + id, "amount": 10.5, "currency": "EUR", "payout_currency": "ETH",
		"status": "pending", "customer_email": "ann@example.com", "metadata": map[string]any{"order_id": "A-1", "n": 1.5, "b": true},
		"redirect_url": "https://shop.example/thanks?a=1", "webhook_url": nil, "livemode": false,
		"cancel_url": "https://shop.example/cart?s={CHECKOUT_SESSION_ID}", "description": "Spring <order>", "locale": "de",
		"line_items": []any{
			map[string]any{"name": "Beans", "quantity": 3.0, "unit_amount": 3.4, "image_url": "https://shop.example/b.png?k=A-1&x=%20"},
			map[string]any{"name": "Bag", "quantity": 1.0, "unit_amount": 0.3, "image_url": nil},
		},
		"transaction": nil, "payout": nil, "completed_at": nil,
		"timeline": []any{map[string]any{
			"status": "pending", "at": checkout.FormatTime(created), "transaction_id": nil, "payout_id": nil, "reason": nil,
		}},
	}, got.json)
	require.Contains(t, got.body, `"amount":10.50,`)
	require.Contains(t, got.body, `"metadata":{"order_id":"A-1","n":1.50,"b":true}`, "bytes kept")

	read := f.answers(200, "GET", "/v1/checkout/"+id, f.key, "")
	require.Equal(t, strings.Replace(got.body, `,"webhook_signed_by":null`, "", 1), read.body, "GET returns the same object")
	require.NotContains(t, f.log.String(), "ann@example.com")
	require.NotContains(t, f.log.String(), "A-1")
}

func TestCreateSession_OptionalFieldsNotSuppliedAreNull(t *testing.T) {
	f := newFront(t)
	got := f.answers(201, "POST", "/v1/checkout", f.key, validSession)
	for _, name := range []string{"customer_email", "redirect_url", "cancel_url", "description", "locale", "line_items", "webhook_url", "transaction", "payout", "completed_at"} {
		value, ok := got.json[name]
		require.True(t, ok, name)
		require.Nil(t, value, name)
	}
	require.Equal(t, map[string]any{}, got.json["metadata"])
	require.NotContains(t, got.json, "webhook_secret")
}

func TestCreateSession_ReportsAllFaultsAtOnce(t *testing.T) {
	f := newFront(t)
	got := f.do("POST", "/v1/checkout", f.key, `{"amount":"10","currency":"usd","customer_email":"x","livemode":"no",
		"metadata":{"a":null,"b":{}},"redirect_url":"javascript:alert(1)","webhook_url":"http://10.0.0.1/hook","emial":1}`)
	require.Equal(t, 400, got.status)
	require.Equal(t, []string{"emial", "livemode", "amount", "currency", "payout_currency", "customer_email", "metadata.a", "metadata.b",
		"redirect_url", "webhook_url"}, got.params())
	require.Equal(t, "emial", got.json["param"])
	first := got.json["errors"].([]any)[0].(map[string]any)
	require.Equal(t, first["message"], got.json["message"])
	require.Contains(t, got.body, `"payout_currency is required"`)
	require.Contains(t, got.body, `"webhook_url must not lead to a private address"`)
	require.Contains(t, got.body, `"currency must be one of USD, EUR, GBP, CAD, AUD"`)
	require.Zero(t, f.count("checkout_session"))
}

func TestCreateSession_LineItemsAddUpToTheAmount(t *testing.T) {
	f := newFront(t)
	for items, want := range map[string]string{
		`[{"name":"Beans","quantity":3,"unit_amount":3.49}]`:                              "line_items must add up to amount: they add up to 10.47, and amount is 10.50",
		`[{"name":"Beans","quantity":3,"unit_amount":3.50},{"name":"Gift","quantity":1}]`: "line_items[1].unit_amount is required",
		`[{"name":"Beans","quantity":3,"unit_amount":3.505}]`:                             "line_items[0].unit_amount 3.505 has more than 2 decimals",
		`[{"name":"Beans","quantity":3,"unit_amount":"3.50"}]`:                            "line_items[0].unit_amount must be a number in major units with at most 2 decimals, for example 10.50",
		`[{"name":"Beans","quantity":3,"unit_amount":1000000}]`:                           "line_items[0].unit_amount must be between 0.00 and 999999.99, not 1000000",
		`[{"name":"Beans","quantity":0,"unit_amount":3.50}]`:                              "line_items[0].quantity must be a whole number from 1 to 10000",
		`[{"name":"","quantity":3,"unit_amount":3.50}]`:                                   "line_items[0].name must have 1 to 200 characters",
		`[{"name":"Beans","quantity":3,"unit_amount":3.50,"price":1}]`:                    "line_items[0].price is not a known field; known are name, quantity, unit_amount, image_url",
		`[{"name":"Beans","quantity":3,"unit_amount":-3.50}]`:                             "line_items[0].unit_amount must be between 0.00 and 999999.99, not -3.50",
		`[7]`: "line_items[0] must be an object",
		`[{"name":"Beans","quantity":3,"unit_amount":3.50},{"name":"Gift","quantity":1,"unit_amount":0}]`: "",
		`[{"name":"Beans","quantity":3,"unit_amount":3.500}]`:                                             "",
		`[{"name":"Beans","quantity":3,"unit_amount":35E-1}]`:                                             "",
	} {
		got := f.do("POST", "/v1/checkout", f.key, `{"amount":10.50,"currency":"EUR","payout_currency":"USDC","line_items":`+items+`}`)
		if want == "" {
			require.Equal(t, 201, got.status, got.body)
			continue
		}
		require.Equal(t, 400, got.status, items)
		require.Equal(t, want, got.json["message"])
	}
}

func TestCreateSession_PicturesHaveAddressesThatCanBeFetched(t *testing.T) {
	f := newFront(t)
	create := func(key, url string) answer {
		return f.do("POST", "/v1/checkout", key, with("line_items", `[{"name":"A","quantity":1,"unit_amount":10.50,"image_url":`+url+`}]`))
	}
	require.Equal(t, "line_items[0].image_url must be https in live mode", create(f.merchant.liveKey, `"http://shop.example/a.png"`).json["message"])
	f.temporal.Start = func(o client.StartWorkflowOptions) error {
		if strings.HasPrefix(o.ID, "pic_") {
			return errors.New("Temporal is away")
		}
		return nil
	}
	require.Equal(t, []string{"line_items[0].image_url"}, create(f.key, `"http://10.0.0.1/a.png?token=secret-canary"`).params())
	got := create(f.key, `"http://pictures.example/a.png?token=secret-canary"`)
	require.Equal(t, 201, got.status, "the worker's guard looks where the name leads; Reconcile starts the run")
	require.NotContains(t, f.log.String(), "secret-canary")
	require.Equal(t, 201, create(f.key, `null`).status)
}

func TestCreateSession_RefusesInvalidFields(t *testing.T) {
	f := newFront(t)
	for param, values := range map[string][]string{
		"cancel_url":  {`"x"`, `"ftp://shop.example"`, `"https://a@shop.example"`, `1`},
		"description": {`""`, `"a\nb"`, `1`, `"` + strings.Repeat("é", 501) + `"`},
		"locale":      {`""`, `"xx"`, `"EN"`, `1`},
		"line_items":  {`[]`, `{}`, `"x"`, `[` + strings.Repeat(`{},`, 50) + `{}]`, `[{"name":"a","quantity":1,"unit_amount":0.01}]`},
		"livemode":    {`1`, `[]`},
	} {
		for _, value := range values {
			got := f.do("POST", "/v1/checkout", f.key, with(param, value))
			require.Equal(t, "400 invalid_request", got.refused(), "%s %s: %s", param, value, got.body)
			require.Equal(t, param, got.json["param"], value)
			require.Equal(t, []string{param}, got.params(), value)
		}
	}
	require.Zero(t, f.count("checkout_session"))
}

func TestCreateSession_RefusesAnAmountThatTheFixedFeeWouldTake(t *testing.T) {
	f := newFront(t)
	for _, key := range []string{f.key, f.merchant.liveKey} {
		f.exec(`UPDATE merchant SET fee_basis_points = 290, fee_fixed = 500 WHERE id = $1`, f.merchant.ID)
		got := f.answers(400, "POST", "/v1/checkout", key, with("amount", `5.14`))
		require.Equal(t, "amount", got.json["param"])
		require.Contains(t, got.json["message"], "amount must exceed the fee of 2.90 % + 5.00 per payment")
		require.Equal(t, 201, f.do("POST", "/v1/checkout", key, with("amount", `5.16`)).status)
		require.Equal(t, []string{"amount"}, f.do("POST", "/v1/checkout", key, with("amount", `0.10`)).params(), "one fault")
		f.exec(`UPDATE merchant SET fee_basis_points = 10000, fee_fixed = 0 WHERE id = $1`, f.merchant.ID)
		require.Equal(t, 201, f.do("POST", "/v1/checkout", key, with("amount", `0.50`)).status, "without a fixed part")
	}
}

func TestCreateSession_LivemodeMustMatchTheKey(t *testing.T) {
	f := newFront(t)
	for _, tc := range []struct {
		key, livemode string
		status        int
	}{
		{f.key, `true`, 403}, {f.merchant.liveKey, `false`, 403},
		{f.key, `false`, 201}, {f.merchant.liveKey, `true`, 201},
		{f.key, `null`, 201}, {f.merchant.liveKey, `null`, 201},
	} {
		got := f.do("POST", "/v1/checkout", tc.key, with("livemode", tc.livemode))
		require.Equal(t, tc.status, got.status, got.body)
		if tc.status == 403 {
			require.Equal(t, "forbidden", got.json["error"])
		}
	}
	require.Equal(t, 403, f.do("POST", "/v1/checkout", f.key, `{"livemode":true,"amount":"x"}`).status, "what a key may do comes before how it says it")
	require.Equal(t, 4, f.count("checkout_session"))
}

// TestCreateSession_NeedsWhatItsPayoutNeeds: what is paid out on a real chain needs an acquirer, a treasury, an exchange
// rate and an address, in live mode and in a test mode on test networks. The sandbox pays everything.
func TestCreateSession_NeedsWhatItsPayoutNeeds(t *testing.T) {
	t.Parallel()
	noRate := func(ago time.Duration) func(*Payouts) {
		return func(p *Payouts) {
			p.NoQuoteSince = func(money.Currency, money.PayoutCurrency) time.Time { return time.Now().Add(-ago) }
		}
	}
	without := func(p *Payouts) { p.Currencies = []money.PayoutCurrency{money.ETH} }
	for name, c := range map[string]struct {
		change     func(*Payouts)
		body       string
		want, says string // the refusal of the mode with a chain
		retryAfter string
	}{
		"nothing is missing": {func(*Payouts) {}, validSession, "201 <nil>", "", ""},
		"a treasury":         {without, validSession, "403 forbidden", "mode is not available for USDC.", ""},
		"an address": {
			func(*Payouts) {}, with("payout_currency", `"BTC"`), "403 forbidden",
			"mode is not activated: there is no payout address for BTC.", "",
		},
		"a rate for a minute":      {noRate(time.Minute), validSession, "201 <nil>", "", ""},
		"a rate for three minutes": {noRate(3 * time.Minute), validSession, "503 unavailable", "exchange rate", "30"},
	} {
		for _, mode := range modes {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				f := newFront(t, func(cfg *Config) {
					p := *cfg.Payouts[checkout.ModeLive]
					c.change(&p)
					cfg.Payouts = map[checkout.Mode]*Payouts{mode: &p}
				})
				f.exec(`UPDATE payout_address SET address = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'`)
				got := f.do("POST", "/v1/checkout", f.merchant.key(mode), c.body)
				require.Equal(t, c.want, got.refused(), got.body)
				require.Equal(t, c.retryAfter, got.header.Get("Retry-After"))
				if c.says != "" {
					require.Contains(t, got.json["message"], c.says)
				}
				switch mode {
				case checkout.ModeLive:
					f.answers(201, "POST", "/v1/checkout", f.key, c.body)
				case checkout.ModeTest: // no acquirer of live mode
					got = f.do("POST", "/v1/checkout", f.merchant.liveKey, c.body)
					require.Equal(t, "403 forbidden", got.refused())
					require.Contains(t, got.json["message"], "live card acquirer")
				}
			})
		}
	}
}

// TestCreateSession_AnAddressOfTheSandboxIsNoneOnATestNetwork: it is from before test mode had a chain.
func TestCreateSession_AnAddressOfTheSandboxIsNoneOnATestNetwork(t *testing.T) {
	f := newFront(t, func(c *Config) { c.Payouts[checkout.ModeTest] = c.Payouts[checkout.ModeLive] })
	f.exec(`UPDATE payout_address SET address = 'sandbox:shop' WHERE mode = 'test'`)
	got := f.do("POST", "/v1/checkout", f.key, validSession)
	require.Equal(t, "403 forbidden", got.refused())
	require.Contains(t, got.json["message"], "there is no payout address for USDC.")
}

func TestCreateSession_LiveNeedsAnAmountThatCanBePaidOut(t *testing.T) {
	f := newFront(t, func(c *Config) {
		c.Payouts[checkout.ModeLive].Bounds = func(from money.Currency, _ money.PayoutCurrency) (checkout.PayoutBounds, bool) {
			return checkout.PayoutBounds{Least: 1400, Most: 916_000}, from == money.EUR
		}
	})
	create := func(key, amount, currency string) answer {
		return f.do("POST", "/v1/checkout", key, `{"amount": `+amount+`, "currency": "`+currency+`", "payout_currency": "USDC"}`)
	}
	refused := func(got answer, message string) {
		require.Equal(t, "400 invalid_request", got.refused(), got.body)
		require.Equal(t, "amount", got.json["param"])
		require.Equal(t, []string{"amount"}, got.params())
		require.Equal(t, message, got.json["message"])
	}
	refused(create(f.merchant.liveKey, "14.13", "EUR"), // of which 13.99 would be left
		"amount must currently be at least 14.14 EUR for USDC, because of the network fee")
	require.Equal(t, 201, create(f.merchant.liveKey, "14.14", "EUR").status)
	refused(create(f.merchant.liveKey, "10500", "EUR"), "amount must currently be at most 9252.53 EUR, because of the payout limit")
	refused(create(f.merchant.liveKey, "9252.54", "EUR"), "amount must currently be at most 9252.53 EUR, because of the payout limit")
	require.Equal(t, 201, create(f.merchant.liveKey, "9252.53", "EUR").status)
	require.Equal(t, 201, create(f.key, "0.50", "EUR").status, "test mode has no network")

	unknown := create(f.merchant.liveKey, "50.00", "USD")
	require.Equal(t, "503 unavailable", unknown.refused(), "the process has just started")
	require.Equal(t, "5", unknown.header.Get("Retry-After"))
	f.exec(`UPDATE merchant SET fee_basis_points = 10000 WHERE id = $1`, f.merchant.ID)
	require.Contains(t, create(f.merchant.liveKey, "999999.99", "EUR").json["message"], "amount cannot currently be paid out in USDC: network fees are too high for any amount")
	require.Equal(t, 3, f.count("checkout_session"))
}
func TestCreateSession_LifetimeOfLiveSessionsIsOneHourWhateverTestModeHas(t *testing.T) {
	f := newFront(t, func(c *Config) { c.SessionLifetime = time.Minute })
	for key, want := range map[string]time.Duration{f.key: time.Minute, f.merchant.liveKey: time.Hour} {
		got := f.do("POST", "/v1/checkout", key, validSession)
		created := timeIn(t, got.json["created_at"])
		expires := timeIn(t, got.json["expires_at"])
		require.Equal(t, want, expires.Sub(created))
	}
}

func TestCreateSession_OrderIDInUse(t *testing.T) {
	f := newFront(t)
	body := with("metadata", `{"order_id":"A-1"}`)
	first := f.answers(201, "POST", "/v1/checkout", f.key, body)
	again := f.do("POST", "/v1/checkout", f.key, body)
	require.Equal(t, "409 order_id_in_use", again.refused())
	require.Equal(t, first.json["id"], again.json["session_id"])
	require.Equal(t, first.json["url"], again.json["url"])
	require.Equal(t, "pending", again.json["status"])
	require.Equal(t, "A pending session already has this metadata.order_id. Send the customer to its url, or expire it first.", again.json["message"])
	require.Empty(t, again.header.Get("Location"))

	require.Equal(t, 201, f.do("POST", "/v1/checkout", f.merchant.liveKey, body).status, "the other mode")
	other, unguarded := f.newMerchant(true), f.newMerchant(false)
	for _, key := range []string{other.testKey, unguarded.testKey, unguarded.testKey} {
		require.Equal(t, 201, f.do("POST", "/v1/checkout", key, body).status, "another merchant; one without the guard")
	}
	require.Equal(t, 201, f.do("POST", "/v1/checkout", f.key, with("metadata", `{"order_id":"A-2"}`)).status)
	require.Equal(t, 201, f.do("POST", "/v1/checkout", f.key, with("metadata", `{"order_id":7}`)).status)
	require.Equal(t, 409, f.do("POST", "/v1/checkout", f.key, with("metadata", `{"order_id":"7"}`)).status, "number or string")

	f.expireAs(f.endsExpired(f.merchant, checkout.ModeTest))
	require.Equal(t, 200, f.do("POST", "/v1/checkout/"+first.json["id"].(string)+"/expire", f.key, "").status)
	require.Equal(t, 201, f.do("POST", "/v1/checkout", f.key, body).status, "expired frees it")
}

// TestCreateSession_OrderIDOfASessionThatHasEnded: a shop cannot use or expire a paid session, and must learn that its
// order is paid. A session past its time is about to free its order id.
func TestCreateSession_OrderIDOfASessionThatHasEnded(t *testing.T) {
	f := newFront(t)
	body := with("metadata", `{"order_id":"A-1"}`)
	first := f.answers(201, "POST", "/v1/checkout", f.key, body).json["id"]
	f.exec(`UPDATE checkout_session SET expires_at = now() - interval '1 second'`)
	got := f.answers(503, "POST", "/v1/checkout", f.key, body)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.NotContains(t, got.json, "session_id")
	f.exec(`UPDATE checkout_session SET status = 'completed', ended_at = now()`)
	got = f.do("POST", "/v1/checkout", f.key, body)
	require.Equal(t, "409 order_id_in_use", got.refused())
	require.Equal(t, []any{first, "completed"}, []any{got.json["session_id"], got.json["status"]})
	require.Equal(t, "The order with this metadata.order_id is already paid: its session is completed.", got.json["message"])
}

func TestCreateSession_WebhookURLGetsASecretOnlyWithoutARegistration(t *testing.T) {
	f := newFront(t)
	body := with("webhook_url", `"https://shop.example/hook"`)
	first := f.answers(201, "POST", "/v1/checkout", f.key, body)
	secret := first.json["webhook_secret"].(string)
	require.Regexp(t, `^whsec_[0-9a-f]{64}$`, secret)
	require.Nil(t, first.json["webhook_signed_by"])
	require.Equal(t, "https://shop.example/hook", first.json["webhook_url"])
	read := f.do("GET", "/v1/checkout/"+first.json["id"].(string), f.key, "")
	require.NotContains(t, read.json, "webhook_secret", "shown once")

	second := f.do("POST", "/v1/checkout", f.key, body)
	require.NotEqual(t, secret, second.json["webhook_secret"], "of this session only")

	require.Equal(t, 201, f.do("POST", "/v1/webhooks", f.key, `{"url":"https://shop.example/all","events":["*"]}`).status)
	third := f.answers(201, "POST", "/v1/checkout", f.key, body)
	require.NotContains(t, third.json, "webhook_secret")
	live := f.do("POST", "/v1/checkout", f.merchant.liveKey, body)
	require.Contains(t, live.json, "webhook_secret", "a registration of the other mode does not sign")
	require.NotContains(t, f.log.String(), secret)
}

func TestCreateSession_RegistrationOfTheSameURLSigns(t *testing.T) {
	f := newFront(t)
	f.do("POST", "/v1/webhooks", f.key, `{"url":"https://shop.example/oldest","events":["*"]}`)
	same := f.do("POST", "/v1/webhooks", f.key, `{"url":"https://shop.example/hook","events":["payout.sent"]}`)
	signer, err := f.store.Webhooks.SigningEndpoint(t.Context(), checkout.Owner{MerchantID: f.merchant.ID, Mode: checkout.ModeTest}, "https://shop.example/hook")
	require.NoError(t, err)
	require.Equal(t, same.json["id"], signer)
	got := f.do("POST", "/v1/checkout", f.key, with("webhook_url", `"https://shop.example/hook"`))
	session, err := f.store.Sessions.Session(t.Context(), f.ref(got.json["id"].(string)))
	require.NoError(t, err)
	require.Equal(t, signer, *session.SigningEndpoint)
	require.Equal(t, signer, got.json["webhook_signed_by"])
	for _, spelling := range []string{"HTTPS://Shop.example/hook", "https://shop.example:443/hook#x", "https://shop.example./hook?"} {
		got = f.do("POST", "/v1/checkout", f.key, with("webhook_url", `"`+spelling+`"`))
		require.Equal(t, signer, got.json["webhook_signed_by"], spelling)
		require.Equal(t, spelling, got.json["webhook_url"], "as it was sent")
	}
}

func TestCreateSession_UnreachableTemporalLeavesNothing(t *testing.T) {
	temporal := unreachableTemporal(t)
	f := newFront(t, func(c *Config) { c.Runs = &runs.Client{Temporal: temporal} })
	began := time.Now()
	got := f.do("POST", "/v1/checkout", f.key, with("webhook_url", `"https://shop.example/hook"`))
	require.Equal(t, "503 unavailable", got.refused(), got.body)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.NotContains(t, got.body, "127.0.0.1")
	require.Less(t, time.Since(began), 5*time.Second)
	require.Zero(t, f.count("checkout_session"))
	require.Zero(t, f.count("webhook_endpoint"), "nor the secret of its webhook_url")
	require.Contains(t, f.log.String(), "127.0.0.1", "the chain is in the log")
}
