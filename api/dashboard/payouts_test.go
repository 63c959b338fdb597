package dashboard

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// endedPayout creates a paid session and ends its payout. A failure of "" sends amount.
func (d *desk) endedPayout(merchant string, mode checkout.Mode, amount money.Crypto, failure checkout.PayoutFailure) checkout.Ref {
	s := d.newSession(merchant, mode, func(s *checkout.Session) { s.Metadata = []byte(`{}`) })
	_, settled := d.pay(s, "")
	ref := s.Owner.Ref(settled.PayoutID)
	if failure == "" {
		d.exec(`UPDATE payout SET currency = $2 WHERE id = $1`, ref.ID, amount.Currency())
		_, _, err := d.store.Sandbox.RecordSandboxTransfer(d.t.Context(), checkout.Payout{Ref: ref, Generation: 1},
			treasury.SandboxTransfer{Signed: []byte("x"), TxHash: "0x" + ref.ID, Amount: amount, Fee: amount})
		require.NoError(d.t, err)
	}
	must.Get(d.store.Payouts.FinishPayout(d.t.Context(), ref, 1, failure))(d.t)
	return ref
}

func (d *desk) payout(ref checkout.Ref) checkout.Payout {
	p := must.Get(d.store.Payouts.Payout(d.t.Context(), ref))(d.t)
	return p
}

func (d *desk) hold(p checkout.Payout, hold checkout.PayoutHold) {
	must.Get(d.store.Payouts.HoldPayout(d.t.Context(), p, hold, time.Hour))(d.t)
}

// finishPayout ends a payout; "" is success.
func (d *desk) finishPayout(ref checkout.Ref, generation int, failure checkout.PayoutFailure) {
	must.Get(d.store.Payouts.FinishPayout(d.t.Context(), ref, generation, failure))(d.t)
}

var payoutRowOf = regexp.MustCompile(`<tr id="(po_[0-9a-z]{26})">`)

func listedPayouts(p received) (ids []string) {
	for _, m := range payoutRowOf.FindAllStringSubmatch(p.body, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

func TestPayouts_FiltersAndSums(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	viewer.get("/test/payouts").shows("No payouts yet")
	const test = checkout.ModeTest
	first := d.endedPayout(d.merchant, test, money.MustCrypto("0.100000000000000001", money.ETH), "")
	second := d.endedPayout(d.merchant, test, money.MustCrypto("0.200000000000000002", money.ETH), "")
	failed := d.endedPayout(d.merchant, test, money.Crypto{}, checkout.PayoutInvalidAddress)
	d.endedPayout(d.other, test, money.MustCrypto("7", money.USDC), "")
	d.endedPayout(d.merchant, checkout.ModeLive, money.MustCrypto("8", money.USDC), checkout.PayoutNetworkError)

	today := func(days int) string { return time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) }
	for query, want := range map[string][]string{
		"":                                       {first.ID, second.ID, failed.ID},
		"?status=sent":                           {first.ID, second.ID},
		"?status=failed":                         {failed.ID},
		"?status=pending":                        nil,
		"?currency=ETH":                          {first.ID, second.ID},
		"?currency=BTC":                          nil,
		"?from=" + today(1):                      nil,
		"?from=" + today(-1) + "&to=" + today(1): {first.ID, second.ID, failed.ID},
	} {
		got := viewer.open("/test/payouts" + query)
		require.ElementsMatch(t, want, listedPayouts(got), query)
	}
	for _, query := range []string{"from=nonsense", "status=x", "currency=EUR"} {
		viewer.get("/test/payouts?"+query).is(422, query)
	}

	all := viewer.get("/test/payouts").text()
	require.Contains(t, all, "0.300000000000000003 ETH", "exact")
	require.Contains(t, all, "2,444.30 EUR")
	viewer.get("/test/payouts?status=failed").shows("From <span>1,222.15 EUR</span>, after the fee").hides("0.3")
}

func TestPayouts_AFailedOneIsMendedAndSentAgain(t *testing.T) {
	d := newDesk(t)
	ref := d.endedPayout(d.merchant, checkout.ModeTest, money.Crypto{}, checkout.PayoutInvalidAddress)
	owner, developer := d.as(merchant.RoleOwner), d.as(merchant.RoleDeveloper)
	owner.get("/test/payouts").shows("still the one that was refused: <code>sandbox:shop</code>")
	developer.get("/test/payouts").hides("Send again")
	d.exec(`UPDATE payout_address SET address = 'sandbox:mended' WHERE merchant_id = $1`, d.merchant)
	shown := owner.get("/test/payouts").text()
	require.Contains(t, shown, "goes to your current address: <code>sandbox:mended</code>")
	form := regexp.MustCompile(`action="(/test/payouts/po_\w+/retry)"`).FindStringSubmatch(shown)
	require.NotNil(t, form)
	d.temporal.Start = func(client.StartWorkflowOptions) error { return nil }
	developer.post(form[1]).is(403)
	owner.post(form[1]).is(303).leads("/test/payouts payout_retried")
	owner.post(form[1]).is(422).shows("has not failed, or was already retried", ref.ID)
	p := d.payout(ref)
	require.Equal(t, checkout.PayoutPending, p.Status)
	owner.get("/test/payouts").hides("Send again")
	d.exec(`DELETE FROM payout_address WHERE merchant_id = $1`, d.merchant)
	d.finishPayout(ref, 2, checkout.PayoutNetworkError)
	owner.get("/test/payouts").shows("No address is set for USDC")
}

func TestPayouts_OfTheBalanceHaveNoSession(t *testing.T) {
	d := newDesk(t)
	ref := d.endedPayout(d.merchant, checkout.ModeTest, money.Crypto{}, checkout.PayoutNetworkError)
	d.endedPayout(d.merchant, checkout.ModeTest, money.Crypto{}, checkout.PayoutNetworkError) // a newer one
	d.exec(`UPDATE payout SET session_id = NULL, transaction_id = NULL, chain_ref = 'sandbox' WHERE id = $1`, ref.ID)
	owner := d.as(merchant.RoleOwner)
	owner.get("/test/payouts").shows("Balance payout", `action="/test/payouts/`+ref.ID+`/retry"`).hides(`/sessions/"`)
	require.Equal(t, []string{""}, columns(owner.table("/test/payouts.csv")[1], "session_id"))

	found := owner.get("/test/sessions?search=" + ref.ID).is(303).header.Get("Location")
	require.True(t, strings.HasSuffix(found, "#"+ref.ID), found)
	require.Equal(t, []string{ref.ID}, listedPayouts(owner.open(found)), "the newest on its page")

	d.temporal.Start = func(client.StartWorkflowOptions) error { return nil }
	owner.post("/test/payouts/" + ref.ID + "/retry").is(303)
	require.Equal(t, checkout.PayoutPending, d.payout(ref).Status)
}

func TestPayouts_LinkToTheExplorerAndSayWhyTheyWait(t *testing.T) {
	d := newDesk(t)
	_, payout := d.livePayout()
	p := d.payout(payout)
	d.hold(p, checkout.HoldFloat)
	viewer := d.as(merchant.RoleViewer)
	viewer.get("/live/payouts").shows("The payout account is short of this currency")
	transfer := d.signed(payout)
	d.finishPayout(payout, 1, "")
	_, _, err := d.store.Treasury.EndTransfer(t.Context(), transfer, treasury.TransferSnapshot{
		State: treasury.TransferStateConfirmed, TxHash: "0xsecond", Height: 21_000_005, BlockHash: "0xblock", Cost: money.MustCrypto("0.000345", money.ETH),
	}, treasury.AccountSnapshot{Height: 21_000_071})
	require.NoError(t, err)
	viewer.get("/live/payouts").shows(`href="https://etherscan.io/tx/0xsecond"`).hides("too little")
}
