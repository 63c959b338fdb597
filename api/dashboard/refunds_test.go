package dashboard

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

var backRow = regexp.MustCompile(`<tr id="((?:re|dp)_[0-9a-z]{26})">`)

func listedBack(p received) (ids []string) {
	for _, m := range backRow.FindAllStringSubmatch(p.body, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// requireFiltered checks a list, and its file, for each query, and that wrong queries are refused.
func requireFiltered(t *testing.T, b *browser, list string, want map[string][]string) {
	for query, ids := range want {
		require.ElementsMatch(t, ids, listedBack(b.open(list+query)), query)
		var exported []string
		for _, row := range b.table(list + ".csv" + query) {
			exported = append(exported, row["id"])
		}
		require.ElementsMatch(t, ids, exported, query)
	}
	for _, query := range []string{"?status=x", "?from=x"} {
		b.get(list+query).is(422, query)
		b.get(list+".csv"+query).is(400, query)
	}
}

func TestRefunds_FiltersAndNothingOfOthers(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	viewer.get("/test/refunds").shows("No refunds yet")
	refund := func(merchant string, mode checkout.Mode, status checkout.RefundStatus) checkout.Refund {
		s, _ := d.paid(merchant, mode)
		return d.refund(s, 5000, status)
	}
	pending := refund(d.merchant, checkout.ModeTest, checkout.RefundPending)
	succeeded := refund(d.merchant, checkout.ModeTest, checkout.RefundSucceeded)
	failed := refund(d.merchant, checkout.ModeTest, checkout.RefundFailed)
	refund(d.other, checkout.ModeTest, checkout.RefundSucceeded)
	live := refund(d.merchant, checkout.ModeLive, checkout.RefundSucceeded)

	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	requireFiltered(t, viewer, "/test/refunds", map[string][]string{
		"":                   {pending.ID, succeeded.ID, failed.ID},
		"?status=pending":    {pending.ID},
		"?status=succeeded":  {succeeded.ID},
		"?status=failed":     {failed.ID},
		"?from=" + tomorrow:  nil,
		"?to=" + tomorrow:    {pending.ID, succeeded.ID, failed.ID},
		"?before=" + live.ID: {pending.ID, succeeded.ID, failed.ID},
	})
	viewer.get("/test/refunds?status=failed").shows("50.00 EUR", "The customer's bank returned it", "requested by customer",
		`href="/test/sessions/`+failed.SessionID+`#`+failed.ID)
	row := viewer.table("/test/refunds.csv?status=failed")[0]
	require.Equal(t, []string{"50.00", "EUR", "0.50", "requested_by_customer", "returned", failed.SessionID},
		columns(row, "amount", "currency", "fee_returned", "reason", "failure", "session_id"))
}

func TestDisputes_FiltersAndTheDeadline(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	viewer.get("/test/disputes").shows("No disputes.")
	dispute := func(merchant string, mode checkout.Mode, status books.RiskStatus, responded bool) (id string) {
		s, _ := d.paid(merchant, mode)
		d.dispute(s, status, func(r *books.ChargeRisk) { r.Responded = responded })
		return value[string](d, `SELECT dispute_id FROM charge_risk WHERE id = $1`, "du_"+s.ID)
	}
	warning := dispute(d.merchant, checkout.ModeTest, books.RiskInquiry, false)
	open := dispute(d.merchant, checkout.ModeTest, books.RiskOpen, false)
	review := dispute(d.merchant, checkout.ModeTest, books.RiskOpen, true)
	lost := dispute(d.merchant, checkout.ModeTest, books.RiskLost, true)
	dispute(d.other, checkout.ModeTest, books.RiskOpen, false)
	dispute(d.merchant, checkout.ModeLive, books.RiskOpen, false)

	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	requireFiltered(t, viewer, "/test/disputes", map[string][]string{
		"":                       {warning, open, review, lost},
		"?status=warning":        {warning},
		"?status=needs_response": {open},
		"?status=under_review":   {review},
		"?status=won":            nil,
		"?status=lost":           {lost},
		"?from=" + tomorrow:      nil,
	})
	const deadline = `<strong class="wrong"><time datetime="2100-01-02T03:04:05Z">`
	viewer.get("/test/disputes?status=needs_response").shows(deadline, "product unacceptable", "1,234.50 EUR")
	viewer.get("/test/disputes?status=warning").shows(deadline)
	viewer.get("/test/disputes?status=under_review").hides(deadline).shows("2 Jan 2100", "answered")
	viewer.get("/test/disputes?status=lost").hides("2 Jan 2100")
	require.Equal(t, []string{"needs_response", "2100-01-02T03:04:05.000Z", "1234.50", "product_unacceptable"},
		columns(viewer.table("/test/disputes.csv?status=needs_response")[0], "status", "respond_by", "amount", "reason"))
	session := value[string](d, `SELECT t.session_id FROM charge_risk r JOIN transaction t ON t.id = r.transaction_id WHERE r.dispute_id = $1`, open)
	viewer.get("/test/sessions?search=" + open).leads("/test/sessions/" + session + "#" + open)
	viewer.get("/live/sessions?search=" + open).shows("No sessions match")
}

func TestSession_ShowsWhatWentBackAndWhatThePayoutKept(t *testing.T) {
	d := newDesk(t)
	s, payout := d.paid(d.merchant, checkout.ModeTest)
	owner := d.as(merchant.RoleOwner)
	path := "/test/sessions/" + s.ID
	owner.get(path).hides("Refunds</h2>", "Disputes</h2>", "Kept")
	first := d.refund(s, 10_000, checkout.RefundSucceeded)
	failed := d.refund(s, 500, checkout.RefundFailed)
	for _, page := range []string{path, "/test/payouts"} {
		owner.get(page).shows("99.00 EUR for refund " + first.ID).hides("for refund " + failed.ID)
	}
	owner.get(path).shows("Refund of 100.00 EUR", `id="`+first.ID+`"`, "The customer's bank returned it.", "requested by customer").
		hides("under way") // every refund has ended
	require.Equal(t, "99.00", owner.table("/test/payouts.csv")[0]["deducted"])

	d.dispute(s, books.RiskOpen, func(r *books.ChargeRisk) { r.Amount = 113_450 })
	owner.get(path).shows("Disputes</h2>", "needs response", "2 Jan 2100", "Dispute of 1,134.50 EUR").hides("Refund…")
	d.dispute(s, books.RiskLost, func(r *books.ChargeRisk) { r.Amount = 113_450 })
	d.exec(`UPDATE payout SET deducted = source_amount WHERE id = $1`, payout.ID)
	for failure, says := range map[checkout.PayoutFailure]string{
		checkout.PayoutRefunded:  "The payment was refunded.",
		checkout.PayoutDisputed:  "The customer's bank took the payment back.",
		checkout.PayoutRecovered: "The payout was kept for what you owe.",
	} {
		d.exec(`UPDATE payout SET status = 'failed', failure = $2, failed_at = now() WHERE id = $1`, payout.ID, failure)
		owner.get(path).shows(says).hides("Retry the payout now")
		owner.get("/test/payouts").shows(says[:len(says)-1]).hides("Send the payout again")
		owner.post(path + "/retry_payout").is(422).shows("Nothing is left to pay")
	}
}

func TestShowDeduction(t *testing.T) {
	p := checkout.Payout{SourceCurrency: money.EUR}
	owed := money.Amount(540)
	for want, d := range map[string]checkout.Deduction{
		"5.00 EUR for refund re_1":            {Type: checkout.DeductionRefund, Source: "re_1", Amount: 500},
		"5.00 EUR for dispute dp_1":           {Type: checkout.DeductionDispute, Source: "dp_1", Amount: 500},
		"5.00 EUR for what you owed":          {Type: checkout.DeductionRecovery, Source: "EUR", Amount: 500, Owed: &owed},
		"5.00 EUR for 5.40 USD that you owed": {Type: checkout.DeductionRecovery, Source: "USD", Amount: 500, Owed: &owed},
	} {
		require.Equal(t, want, showDeduction(p, d))
	}
}
