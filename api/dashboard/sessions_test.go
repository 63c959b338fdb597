package dashboard

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

func (d *desk) newSession(merchant string, mode checkout.Mode, change ...func(*checkout.Session)) checkout.Session {
	told := func(s *checkout.Session) {
		s.Amount, s.Metadata = 123450, json.RawMessage(`{"order_id":"order 7","n":1.50}`)
	}
	owner := checkout.Owner{MerchantID: merchant, Mode: mode}
	return storagetest.Session(d.t, d.store, owner, append([]func(*checkout.Session){told}, change...)...)
}

// beginPayment begins a payment of a session with a Visa card.
func (d *desk) beginPayment(s checkout.Session) (id string) {
	return storagetest.Begin(d.t, d.store, s.Ref, storage.NewPayment{Method: visa}, "")
}

var visa = checkout.PaymentMethod{Type: "card", Brand: "visa", Last4: "4242", ExpMonth: 12, ExpYear: 2040, Country: "US", ThreeDSecure: true}

// pay brings a payment to its end; "" succeeds.
func (d *desk) pay(s checkout.Session, failure checkout.FailureCode) (id string, settled storage.FollowUp) {
	id = d.beginPayment(s)
	result := checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded, Method: visa}
	if failure != "" {
		result = checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: failure, Method: visa}
	}
	return id, storagetest.Finish(d.t, d.store, s.Ref, id, result)
}

var sessionLink = regexp.MustCompile(`/(?:test|live)/sessions/(cs_[0-9a-z]{26})`)

func listed(p received) (ids []string) {
	for _, m := range sessionLink.FindAllStringSubmatch(p.body, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

func TestSessions_FiltersAndSearch(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	viewer.get("/test/sessions").shows("No sessions yet")

	email := "ann+1@shop.example"
	pending := d.newSession(d.merchant, checkout.ModeTest, func(s *checkout.Session) { s.CustomerEmail = &email })
	usd := d.newSession(d.merchant, checkout.ModeTest, func(s *checkout.Session) { s.Currency = money.USD })
	txn, settled := d.pay(usd, "")
	d.newSession(d.merchant, checkout.ModeLive)
	d.newSession(d.other, checkout.ModeTest)
	all := []string{usd.ID, pending.ID}
	slices.Sort(all) // in the same millisecond they have no order
	slices.Reverse(all)

	today := time.Now().UTC()
	day := func(days int) string { return today.AddDate(0, 0, days).Format(time.DateOnly) }
	for query, want := range map[string][]string{
		"":                                   all,
		"?status=completed":                  {usd.ID},
		"?status=pending&currency=EUR":       {pending.ID},
		"?status=expired":                    nil,
		"?currency=USD":                      {usd.ID},
		"?from=" + day(-1) + "&to=" + day(1): all,
		"?to=" + day(-1):                     nil,
		"?from=" + day(1):                    nil,
		"?search=" + txn:                     {usd.ID},
		"?search=" + settled.PayoutID:        {usd.ID},
		"?search=%20" + pending.ID + "+":     {pending.ID},
		"?search=ANN%2B1@shop.example":       {pending.ID},
		"?search=order+7":                    all,
		"?search=order":                      all,
		"?search=rder":                       nil,
		"?search=ann%2B":                     {pending.ID},
		"?search=4242":                       {usd.ID},
		"?search=%00":                        all, // nothing that could be searched for
		"?search=%ff":                        all,
		"?search=1234.50":                    all,
		"?search=EUR+1%2C234.50":             {pending.ID},
		"?search=1%2C234.50+usd":             {usd.ID},
		"?search=n:1.50":                     all,
		"?search=n:1.5":                      nil,
		"?search=1234.50&to=" + day(-32):     nil,
		"?before=nonsense":                   all,
	} {
		got := viewer.open("/test/sessions" + query)
		require.Equal(t, want, listed(got), query)
		if want == nil {
			require.Contains(t, got.text(), "No sessions match", query)
		}
	}
	viewer.get("/test/sessions").shows("1,234.50 USD", email)
	for _, query := range []string{"?from=nonsense", "?status=bogus", "?currency=BTC", "?to=2026-02-30", "?from=0001-01-01", "?from=2026-02-02&to=2026-02-01"} {
		viewer.get("/test/sessions"+query).is(422, query).shows(`role="alert"`)
	}
}

func TestSessions_SearchLeadsToDeliveriesAndEvents(t *testing.T) {
	s := plainSender(t)
	foreign := newSender(s.desk, s.other, s.mode, "https://other.example/", "", `{}`)
	viewer := s.as(merchant.RoleViewer)
	viewer.get("/test/sessions?search=" + s.ref.ID).leads("/test/deliveries/" + s.ref.ID)
	viewer.get("/test/sessions?search=+" + s.event.ID).leads("/test/deliveries?event=" + s.event.ID)
	viewer.get("/test/sessions?search=req_1").leads("/test/requests?id=req_1")
	for _, path := range []string{"/live/sessions?search=" + s.ref.ID, "/test/sessions?search=" + foreign.ref.ID, "/test/sessions?search=" + foreign.event.ID} {
		require.Contains(t, viewer.get(path).text(), "No sessions match", path)
	}
}

func TestSession_ShowsItsWholeTree(t *testing.T) {
	d := newDesk(t)
	d.newEndpoint("https://shop.example/hook")
	s := d.newSession(d.merchant, checkout.ModeTest, func(s *checkout.Session) {
		s.Description, s.CancelURL, s.Locale = new("Two mugs"), new("https://shop.example/cart"), new(checkout.Locale("de"))
		s.LineItems = []checkout.LineItem{{Name: "Blue mug", Quantity: 2, UnitAmount: 61725}}
	})
	d.pay(s, checkout.FailureInsufficientFunds)
	txn, settled := d.pay(s, "")
	delivery := d.ref(settled.Deliveries[0].ID)
	must.Get(d.store.Webhooks.BeginAttempt(t.Context(), delivery, webhook.Turn{RunID: "run", Try: 1}))(t)
	require.NoError(t, d.store.Webhooks.FinishAttempt(t.Context(), delivery, webhook.Attempt{Run: 1, Number: 1, Duration: 1234 * time.Millisecond, ErrorKind: webhook.ErrorTimeout}, time.Minute))
	payout := d.ref(settled.PayoutID)
	_, _, err := d.store.Sandbox.RecordSandboxTransfer(t.Context(), checkout.Payout{Ref: payout, Generation: 1}, treasury.SandboxTransfer{Signed: []byte("s"), TxHash: "0xfeed", Amount: money.MustCrypto("1319.913333", money.USDC), Fee: money.MustCrypto("0.001", money.USDC)})
	require.NoError(t, err)
	run := `href="https://temporal.example/namespaces/shop.a1b2c/workflows/` + payout.ID + `"`
	d.as(merchant.RoleViewer).get("/test/sessions/" + s.ID).shows(run) // a payout on the way may have a run
	d.finishPayout(payout, 1, "")

	got := d.as(merchant.RoleViewer).get("/test/sessions/" + s.ID).is(200)
	for _, want := range []string{
		s.ID, "1,234.50 EUR", "Visa •••• 4242, 12/2040", "3-D Secure", "Insufficient funds", "insufficient_funds", "12.35 EUR", txn,
		"Two mugs", "https://shop.example/cart", "<dt>Language</dt><dd>de</dd>", "2 × Blue mug",
		"order 7", "1.50", "Created", "Payment failed", "Paid", "Payout sent", "1319.913333 USDC", "0xfeed", "sandbox:shop",
		"checkout.failed", "checkout.completed", "payout.sent", "https://shop.example/hook", "no answer in 10 s", "1.2 s",
		`href="https://pay.example.com/` + s.ID + `"`, `href="/test/deliveries/` + delivery.ID + `"`,
		`href="https://temporal.example/namespaces/shop.a1b2c/workflows/` + s.ID + `"`,
		`href="https://temporal.example/namespaces/shop.a1b2c/workflows/` + delivery.ID + `"`,
		`hx-trigger="every 10s"`, // a delivery will be tried again
	} {
		got.shows(want)
	}
	got.hides("Expire it now", run) // most have none

	d.exec(`UPDATE webhook_delivery SET status = 'delivered', next_attempt_at = NULL, sending_until = NULL`)
	d.as(merchant.RoleViewer).get("/test/sessions/" + s.ID).hides("hx-get") // nothing can change any more
}

func TestSession_APaymentUnderWayIsShown(t *testing.T) {
	d := newDesk(t)
	s := d.newSession(d.merchant, checkout.ModeTest)
	d.beginPayment(s)
	d.as(merchant.RoleOwner).get("/test/sessions/"+s.ID).shows("Payment in progress", "after the payment in progress",
		`hx-trigger="every 3s"`).hides("Expire it now")
}

func TestExpireSession_ThroughTheWorkflowAndIsNoted(t *testing.T) {
	d := newDesk(t)
	s := d.newSession(d.merchant, checkout.ModeTest)
	path := "/test/sessions/" + s.ID
	asked := 0
	d.temporal.Update = func(o client.UpdateWorkflowOptions) error {
		require.Equal(t, s.ID, o.WorkflowID)
		require.Equal(t, contract.UpdateExpire, o.UpdateName)
		asked++
		_, err := d.store.Sessions.ExpireSession(t.Context(), d.ref(s.ID), storage.Expiry{At: s.ExpiresAt, Early: true})
		return err
	}
	viewer, developer := d.as(merchant.RoleViewer), d.as(merchant.RoleDeveloper)
	viewer.get(path).hides("Expire it now")
	developer.get(path).shows("Expire it now")

	for range 2 { // a second click changes and notes nothing
		got := developer.post(path + "/expire").is(303)
		developer.follow(got).shows("The session has expired.")
	}
	require.Equal(t, 1, asked)
	require.Equal(t, int64(1), value[int64](d, `SELECT count(*) FROM audit_entry WHERE action = 'session.expiry_requested' AND subject = $1 AND mode = 'test'`, s.ID))
}

func TestExpireSession_SaysWhyNot(t *testing.T) {
	d, developer := newDeskAs(t, merchant.RoleDeveloper)
	refuse := func(kind string) func(client.UpdateWorkflowOptions) error {
		return func(client.UpdateWorkflowOptions) error { return temporal.NewApplicationError("no", kind) }
	}
	s := d.newSession(d.merchant, checkout.ModeTest)
	d.temporal.Update = refuse(contract.ErrTypePaymentInFlight)
	developer.post("/test/sessions/" + s.ID + "/expire").is(422).shows("A payment of this session is in progress")

	d.temporal.Update = func(client.UpdateWorkflowOptions) error { // the customer was faster
		d.pay(s, "")
		return temporal.NewApplicationError("no", contract.ErrTypeSessionNotPending)
	}
	developer.post("/test/sessions/" + s.ID + "/expire").is(422).shows("has already ended")
	require.Equal(t, int64(2), value[int64](d, `SELECT count(*) FROM audit_entry WHERE action = 'session.expiry_requested'`), "what was asked for is noted first")
}

// signed signs a transfer of a live payout and raises its fee once. It returns the transfer.
func (d *desk) signed(ref checkout.Ref) storage.Transfer {
	ctx := d.t.Context()
	standing := treasury.AccountSnapshot{
		Height: 21_000_000, Balances: money.PurseOf(money.MustCrypto("5", money.ETH), money.MustCrypto("900000", money.USDC), money.MustCrypto("0", money.USDT)),
	}
	account, err := d.store.Treasury.OpenTreasury(ctx, checkout.ModeLive, treasury.Account{Network: "ethereum", ChainID: "eip155:1", Address: "0xTreasury"}, standing)
	require.NoError(d.t, err)
	p := d.payout(ref)
	fee := money.MustCrypto("0.913333", money.USDC)
	pays := treasury.TransferOutput{PayoutID: p.ID, Destination: p.Destination, Amount: money.MustCrypto("1319.000000", money.USDC), Fee: fee}
	plan := treasury.TransferPlan{Outputs: []treasury.TransferOutput{pays}, Fee: fee, MaxCost: money.MustCrypto("0.000700000000000000", money.ETH)}
	version := func(hash string) storage.SignVersion {
		return func(_ context.Context, plan treasury.TransferPlan) (treasury.TransferVersion, error) {
			return treasury.TransferVersion{TransferPlan: plan, TxHash: hash, Raw: []byte("bytes that move money")}, nil
		}
	}
	got := must.Get(d.store.Treasury.SignTransfer(ctx, storage.SigningOrder{
		Payouts: []storage.PricedPayout{{Payout: p, Value: 140_000}}, AccountID: account.ID, Plan: plan, Chain: standing, Sign: version("0xfirst"),
		Limits: treasury.PayoutLimits{Payout: 1_000_000, Day: 1_000_000, MerchantDay: 1_000_000, MerchantUnsettled: 1_000_000},
	}))(d.t)
	require.Equal(d.t, treasury.SigningGo, got.Payouts[0].Step)
	live := must.Get(d.store.Treasury.LiveTransfers(ctx, account.ID, 1))(d.t)
	plan.Slot = live[0].Slot
	_, added, err := d.store.Treasury.AddVersion(ctx, live[0], plan, version("0xsecond"))
	require.NoError(d.t, err)
	require.True(d.t, added)
	return live[0]
}

// livePayout creates a live session whose payment has prices of sources, and returns its payout.
func (d *desk) livePayout() (checkout.Session, checkout.Ref) {
	s := d.newSession(d.merchant, checkout.ModeLive)
	_, settled := d.pay(s, "")
	payout := s.Owner.Ref(settled.PayoutID)
	d.exec(`UPDATE payout SET destination = '0xShop' WHERE id = $1`, payout.ID)
	d.exec(`UPDATE transaction SET acquirer_ref = 'pi_3Q', rate_at = '2026-11-22T16:00:00Z',
		rate_sources = '[{"source": "coinbase", "rate": "1.0931", "at": "2026-11-22T15:59:58Z"}, {"source": "kraken", "rate": "1.0929", "at": "2026-11-22T15:59:59Z"}]'
		WHERE session_id = $1`, s.ID)
	return s, payout
}

func TestSession_ShowsItsMoney(t *testing.T) {
	d := newDesk(t)
	s, payout := d.livePayout()
	viewer := d.as(merchant.RoleViewer)
	path := "/live/sessions/" + s.ID
	viewer.get(path).hides("Signed versions") // nothing is signed
	p := d.payout(payout)
	d.hold(p, checkout.HoldFloat)
	viewer.get(path).shows("The payout account is short of this currency", "next try")
	for hold, text := range map[checkout.PayoutHold]string{
		checkout.HoldUnsettled: "Earlier payments are not settled yet", checkout.HoldDelay: "The payment is too recent",
		checkout.HoldRisk: "The payment may be returned to the customer",
	} {
		d.hold(p, hold)
		viewer.get(path).shows(text)
	}

	transfer := d.signed(payout)
	d.finishPayout(payout, 1, "")
	got := viewer.get(path)
	for _, want := range []string{
		"pi_3Q", "coinbase 1.0931", "kraken 1.0929", "22 Nov 2026 15:59:58", "22 Nov 2026 16:00:00", "not final", "Slot 0", transfer.ID,
		"network fee 0.913333 USDC", `href="https://etherscan.io/tx/0xfirst"`, `href="https://etherscan.io/tx/0xsecond"`, "0.000700000000000000 ETH",
		"Charge", "acquirer:receivable", "1234.50 EUR", "merchant:payable", "revenue:fee", "Transfer signed", "transit", "1319.000000 USDC",
	} {
		got.shows(want)
	}
	got.hides("Transfer confirmed", "Waits")

	_, ended, err := d.store.Treasury.EndTransfer(t.Context(), transfer, treasury.TransferSnapshot{
		State: treasury.TransferStateConfirmed, TxHash: "0xsecond", Height: 21_000_005, BlockHash: "0xblock", Cost: money.MustCrypto("0.000345", money.ETH),
	}, treasury.AccountSnapshot{Height: 21_000_071})
	require.NoError(t, err)
	require.True(t, ended)
	got = viewer.get(path)
	for _, want := range []string{
		"confirmed", "Confirmed", "in block 21000005, proved final 66 blocks later", "in the block", "Transfer confirmed", "expense:gas", "0.000345000000000000 ETH",
	} {
		got.shows(want)
	}
	got.hides("bytes that move money")

	test := d.newSession(d.merchant, checkout.ModeTest)
	d.pay(test, "")
	shown := viewer.get("/test/sessions/" + test.ID).text()
	for _, absent := range []string{"Acquirer", "Signed versions", "Exchange rate", "Slot"} {
		require.NotContains(t, shown, absent, "test mode has none")
	}
}

func TestRetryPayout_OnlyOwnersAndItIsNoted(t *testing.T) {
	d := newDesk(t)
	s := d.newSession(d.merchant, checkout.ModeTest)
	_, settled := d.pay(s, "")
	payout := s.Owner.Ref(settled.PayoutID)
	path := "/test/sessions/" + s.ID
	owner, developer := d.as(merchant.RoleOwner), d.as(merchant.RoleDeveloper)
	owner.get(path).hides("Retry the payout now")                                                            // it is pending
	owner.post("/test/sessions/" + d.newSession(d.merchant, checkout.ModeTest).ID + "/retry_payout").is(404) // it has no payout
	d.finishPayout(payout, 1, checkout.PayoutInvalidAddress)

	var started []string
	d.temporal.Start = func(o client.StartWorkflowOptions) error { started = append(started, o.ID); return nil }
	developer.get(path).hides("Retry the payout now")
	developer.post(path + "/retry_payout").is(403)
	require.Empty(t, started)

	owner.get(path).shows("Retry the payout now")
	owner.post(path + "/retry_payout").is(303).leads(path + " payout_retried")
	owner.get(path).shows("The payout is sent again", "Before: failed")
	owner.post(path + "/retry_payout").is(422).shows("has not failed, or was already retried") // a double click
	require.Equal(t, []string{payout.ID}, started)
	require.Equal(t, int64(1), value[int64](d, `SELECT count(*) FROM audit_entry WHERE action = 'payout.retried' AND subject = $1 AND mode = 'test'
		AND detail LIKE '%invalid_address'`, payout.ID))
}

// What a retry pays is said before it is asked for, and after it was signed.
func TestRetryPayout_SaysWhichRateItHas(t *testing.T) {
	d := newDesk(t)
	s := d.newSession(d.merchant, checkout.ModeTest)
	_, settled := d.pay(s, "")
	d.finishPayout(s.Owner.Ref(settled.PayoutID), 1, checkout.PayoutInvalidAddress)
	owner, path := d.as(merchant.RoleOwner), "/test/sessions/"+s.ID
	owner.get(path).hides("locked") // rates of the sandbox are fixed
	d.exec(`UPDATE transaction SET rate_until = now() + interval '1 hour'`)
	owner.get(path).shows("Its exchange rate is locked until")
	d.exec(`UPDATE transaction SET rate_until = now() - interval '1 hour'`)
	owner.get(path).shows("The lock of its exchange rate has ended: it uses the rate 1.08, or a lower one")
	d.exec(`UPDATE payout SET exchange_rate = '1.02'`)
	owner.get(path).shows("at 1.02 (1.08 when the customer paid)")
}

// The network reverted a transfer: the person reads what to do, and when the announced address holds.
func TestRetryPayout_AfterARevertedTransferNeedsAnotherAddress(t *testing.T) {
	d := newDesk(t)
	s := d.newSession(d.merchant, checkout.ModeTest)
	_, settled := d.pay(s, "")
	payout := s.Owner.Ref(settled.PayoutID)
	d.finishPayout(payout, 1, checkout.PayoutInvalidAddress)
	d.Revert(t, payout.ID)
	owner, path := d.as(merchant.RoleOwner), "/test/sessions/"+s.ID
	got := owner.post(path + "/retry_payout")
	got.is(422).shows("The network reverted a transfer to sandbox:shop. Set another payout address in the dashboard's settings")
	d.exec(`UPDATE payout_address SET next_network = network, next_address = 'sandbox:new', next_by = 'ann', next_at = '2100-01-02T03:04:05Z'`)
	owner.post(path + "/retry_payout").shows("The payout address changes at 2100-01-02T03:04:05.000Z. Retry the payout then.")
	require.Equal(t, int64(0), value[int64](d, `SELECT count(*) FROM audit_entry WHERE action = 'payout.retried'`))
}

func TestSession_CallsADeliveryAsTheLogDoes(t *testing.T) {
	s := plainSender(t)
	session := s.newSession(s.merchant, checkout.ModeTest)
	s.exec(`UPDATE event SET session_id = $1 WHERE id = $2`, session.ID, s.event.ID)
	viewer := s.as(merchant.RoleViewer)
	says := func(word string) {
		for _, path := range []string{"/test/sessions/" + session.ID, "/test/deliveries", "/test/deliveries/" + s.ref.ID} {
			require.Regexp(t, `<span class="status \w+">`+word+`</span>`, viewer.get(path).body, path)
		}
	}
	s.exec(`UPDATE webhook_delivery SET next_attempt_at = now() + interval '1 hour'`)
	says("pending")
	s.attempt("run", 1, 500, "")
	says("retrying")
	require.NoError(t, s.store.Webhooks.HoldDelivery(t.Context(), s.ref))
	says("on hold")
}

// TestVisible_NothingReorders: U+202E writes "gpj.exe" for "exe.jpg".
func TestVisible_NothingReorders(t *testing.T) {
	d := newDesk(t)
	d.newSession(d.merchant, checkout.ModeTest, func(s *checkout.Session) {
		s.Metadata = json.RawMessage(`{"order_id":"a\u202egpj.exe"}`)
	})
	viewer := d.as(merchant.RoleViewer)
	for _, path := range []string{"/test/sessions", "/test/sessions.csv"} {
		got := viewer.get(path)
		require.NotContains(t, got.body, "\u202e", path)
		require.Contains(t, got.body, `a\u202egpj.exe`, path)
	}
}
