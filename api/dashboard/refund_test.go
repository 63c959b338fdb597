package dashboard

import (
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// dispute stores a dispute of a paid session, as the card network has it.
func (d *desk) dispute(s checkout.Session, status books.RiskStatus, change ...func(*books.ChargeRisk)) {
	r := books.ChargeRisk{
		ID: "du_" + s.ID, Kind: books.RiskDispute, Status: status, Amount: s.Amount, Currency: s.Currency, Reason: "product_unacceptable",
		RespondBy: time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	for _, c := range change {
		c(&r)
	}
	charge := value[string](d, `SELECT acquirer_ref FROM transaction WHERE session_id = $1 AND status = 'succeeded'`, s.ID)
	must.Get(d.store.Books.RecordRisks(d.t.Context(), s.Mode, storage.ChargeToCheck{Reference: charge}, []books.ChargeRisk{r}))(d.t)
}

func (d *desk) refunds(s checkout.Session) (n int) {
	return value[int](d, `SELECT count(*) FROM refund r JOIN transaction t ON t.id = r.transaction_id WHERE t.session_id = $1`, s.ID)
}

func TestRefund_AFormRefundsOnce(t *testing.T) {
	d := newDesk(t)
	s, payout := d.paid(d.merchant, checkout.ModeTest)
	owner, developer := d.as(merchant.RoleOwner), d.as(merchant.RoleDeveloper)
	path := "/test/sessions/" + s.ID
	developer.get(path).hides("Refund…")
	developer.get(path + "/refund").is(403)
	developer.post(path+"/refund", "amount", "1.00").is(403)
	var started []string
	d.temporal.Start = func(o client.StartWorkflowOptions) error { started = append(started, o.ID); return nil }

	owner.get(path).shows(`href="` + path + `/refund">Refund…`)
	form := owner.form(path+"/refund", path+"/refund")
	require.Equal(t, "1234.50", form.fields.Get("amount"))
	form.send("amount", "60.00", "reason", "duplicate").leads(path + " refund_ordered")
	owner.get(path).shows("The refund is on its way")
	form.send("amount", "60.00", "reason", "duplicate").leads(path+" refund_ordered", "a double click")
	form.send("amount", "70.00").is(422).shows("This form has already refunded 60.00 EUR")

	id := value[string](d, `SELECT id FROM refund`)
	require.Equal(t, []string{id}, slices.Compact(started))
	require.Equal(t, "60.00 of "+s.ID, value[string](d, `SELECT detail FROM audit_entry WHERE action = 'payment.refunded' AND subject = $1`, id))
	r := must.Get(d.store.Refunds.Refund(t.Context(), d.ref(id)))(t)
	require.Equal(t, []any{money.Amount(6000), checkout.RefundDuplicate, checkout.RefundPending}, []any{r.Amount, r.Reason, r.Status})
	require.WithinDuration(t, r.CreatedAt, must.Get(idTime(id))(t), time.Minute, "lists find a refund by the time in its id")
	require.Equal(t, "1162.75", d.payout(payout).Net().String())
	another, _ := d.paid(d.merchant, checkout.ModeTest)
	owner.post("/test/sessions/"+another.ID+"/refund", "once", form.fields.Get("once"), "amount", "60.00", "reason", "duplicate").
		leads("/test/sessions/" + another.ID + " refund_ordered")
	require.Equal(t, 1, d.refunds(another), "its refund has another id")
	owner.form(path+"/refund", path+"/refund").send("amount", "1").is(422).shows("Another refund of the payment is under way")
}

func idTime(id string) (time.Time, error) {
	made, _ := checkout.IDTime(checkout.PrefixRefund, id)
	return made, nil
}

// TestRefund_NeedsAProofAbove100: smaller refunds of a payment add up, so that a thief of the cookie cannot split a large
// one.
func TestRefund_NeedsAProofAbove100(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	s, _ := d.paid(d.merchant, checkout.ModeTest)
	path := "/test/sessions/" + s.ID + "/refund"
	send := func(amount string) received { return owner.form(path, path).send("amount", amount) }
	end := func() { d.exec(`UPDATE refund SET status = 'succeeded', ended_at = now()`) }

	asked := owner.follow(send("100.01"))
	asked.shows("100.01 EUR go back to the customer", "Confirm your identity")
	owner.formOf(asked, path).send("password", "wrong").is(422).shows("The password is wrong")
	require.Zero(t, d.refunds(s))
	owner.formOf(asked, path).send("password", password).leads("/test/sessions/" + s.ID + " refund_ordered")
	owner.formOf(asked, path).send("password", password).leads("/test/sessions/" + s.ID + " refund_ordered")
	require.Equal(t, 1, d.refunds(s))

	s, _ = d.paid(d.merchant, checkout.ModeTest)
	path = "/test/sessions/" + s.ID + "/refund"
	small := owner.form(path, path)
	small.send("amount", "60").is(303)
	end()
	small.send("amount", "60").leads("/test/sessions/"+s.ID+" refund_ordered", "the same one does not add up")
	owner.follow(send("40.01")).shows("Confirm your identity")
	send("40").leads("/test/sessions/" + s.ID + " refund_ordered")
	require.Equal(t, 2, d.refunds(s))
}

func TestRefund_ALargeLiveOneNeedsASecondFactor(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner, func(c *Config) { c.RequireFactor = true })
	s, _ := d.paid(d.merchant, checkout.ModeLive)
	path := "/live/sessions/" + s.ID + "/refund"
	owner.form(path, path).send("password", password).leads("/live/account/needs_factor?back=%2Flive%2Fsessions%2F" + s.ID + "%2Frefund")
	require.Zero(t, d.refunds(s))
	phone, _ := owner.enrol()
	d.forgetUse()
	owner.formOf(owner.form(path, path).send(), path).send("password", password).is(422)
	owner.formOf(owner.form(path, path).send(), path).send("password", password, "code", phone.code(0)).is(303)
	require.Equal(t, 1, d.refunds(s))
}

func TestRefund_SaysWhyNot(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	pending := d.newSession(d.merchant, checkout.ModeTest)
	sold := func(change func(checkout.Session)) checkout.Session {
		s, _ := d.paid(d.merchant, checkout.ModeTest)
		change(s)
		return s
	}
	paid := sold(func(checkout.Session) {})
	fresh := func() string { return hex.EncodeToString(checkout.NewSeed()) }
	old := "018f" + fresh()[4:] // of 2024
	for name, c := range map[string]struct {
		session              checkout.Session
		once, amount, reason string
		says                 string
	}{
		"not paid":       {pending, fresh(), "1", "duplicate", "The session is not paid"},
		"no amount":      {paid, fresh(), "", "duplicate", "Enter an amount such as 12.50."},
		"not an amount":  {paid, fresh(), "1,50", "duplicate", "Enter an amount such as 12.50."},
		"nothing":        {paid, fresh(), "0.00", "duplicate", "Enter an amount such as 12.50."},
		"no reason":      {paid, fresh(), "1", "", "Choose a reason"},
		"unknown reason": {paid, fresh(), "1", "other", "Choose a reason"},
		"no token":       {paid, "", "1", "duplicate", "open for too long"},
		"an old token":   {paid, old, "1", "duplicate", "open for too long"},
		"a dispute is open": {
			sold(func(s checkout.Session) { d.dispute(s, books.RiskOpen) }), fresh(), "1", "duplicate", "A dispute of the payment is open",
		},
		"another refund is pending": {
			sold(func(s checkout.Session) { d.refund(s, 100, checkout.RefundPending) }), fresh(), "1", "duplicate", "Another refund of the payment is under way",
		},
		"too much": {
			sold(func(s checkout.Session) { d.refund(s, 123_000, checkout.RefundSucceeded) }), fresh(), "5", "duplicate", "Only 4.50 EUR are left",
		},
		"nothing left": {
			sold(func(s checkout.Session) { d.refund(s, 0, checkout.RefundSucceeded) }), fresh(), "5", "duplicate", "Nothing is left of the payment",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := d.refunds(c.session)
			got := owner.post("/test/sessions/"+c.session.ID+"/refund", "once", c.once, "amount", c.amount, "reason", c.reason, "password", password)
			got.is(422).shows(c.says)
			require.Equal(t, before, d.refunds(c.session))
		})
	}
	d.exec(`DELETE FROM token_bucket`)
	owner.get("/test/sessions/" + pending.ID + "/refund").shows("Nothing can be refunded").hides("<button>Refund")
	owner.get("/test/sessions/" + pending.ID).hides("Refund…")
}

func TestRefund_SaysWhatTheBalanceLacks(t *testing.T) {
	d, owner := newDeskAs(t, merchant.RoleOwner)
	sent := d.payout(d.endedPayout(d.merchant, checkout.ModeTest, money.MustCrypto("1000", money.USDC), ""))
	path := "/test/sessions/" + sent.SessionID + "/refund"
	owner.form(path, path).send("password", password).is(422).
		shows("Your balance lacks 222.15 EUR for this refund.") // beyond the 1,000.00 that a merchant may owe in test mode
	owner.form(path, path).send("amount", "1010.00", "password", password).is(303)
	owner.get("/test/").shows("Owed by you <span>999.90 EUR")
	owner.get("/test/sessions/" + sent.SessionID).shows(`hx-trigger="every 10s"`) // until the network has decided
}
