package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

func TestDeleteFinished_RemovesWhatEndedLongAgoAndNothingElse(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	const age = 24 * time.Hour
	old := func(ref checkout.Ref, ended bool) checkout.Ref {
		id := checkout.FirstID(checkout.PrefixDelivery, time.Now().Add(-72*time.Hour))[:14] + ref.ID[14:]
		f.Exec(t, `ALTER TABLE webhook_attempt DISABLE TRIGGER ALL`)
		f.Exec(t, `ALTER TABLE webhook_delivery DISABLE TRIGGER ALL`)
		f.Exec(t, `UPDATE webhook_attempt SET delivery_id = $1 WHERE delivery_id = $2`, id, ref.ID)
		f.Exec(t, `UPDATE webhook_delivery SET id = $1, created_at = created_at - interval '72 hours' WHERE id = $2`, id, ref.ID)
		f.Exec(t, `ALTER TABLE webhook_attempt ENABLE TRIGGER ALL`)
		f.Exec(t, `ALTER TABLE webhook_delivery ENABLE TRIGGER ALL`)
		ref.ID = id
		if ended {
			f.Exec(t, `UPDATE webhook_delivery SET finished_at = finished_at - interval '72 hours' WHERE id = $1`, id)
		}
		return ref
	}
	end := func(ref checkout.Ref) {
		f.begin(t, ref, "run-"+ref.ID, 1)
		require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, refused(1, 1), 0))
		f.end(t, ref, webhook.DeliveryFailed)
	}
	_, ref := f.publishTest(t, e, webhook.PayoutSent)
	end(ref)
	gone := old(ref, true)
	_, ref = f.publishTest(t, e, webhook.PayoutSent)
	end(ref)
	fresh := old(ref, false) // an old delivery whose replay ended just now
	_, ref = f.publishTest(t, e, webhook.PayoutSent)
	f.begin(t, ref, "run", 1)
	unfinished := old(ref, false)
	_, young := f.publishTest(t, e, webhook.PayoutSent)
	end(young)

	n := must.Get(f.Installation.DeleteFinished(t.Context(), age, 100))(t)
	require.EqualValues(t, 1, n)
	_, err := f.Webhooks.Delivery(t.Context(), gone)
	require.ErrorIs(t, err, checkout.ErrNotFound)
	for _, kept := range []checkout.Ref{fresh, unfinished, young} {
		require.Len(t, f.read(t, kept).Attempts, 1)
	}
	require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM webhook_attempt`))
	require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM event`), "its event went with it")
	n = must.Get(f.Installation.DeleteFinished(t.Context(), age, 100))(t)
	require.Zero(t, n)

	// An event without a delivery: the merchant had no registration.
	f.Exec(t, `DELETE FROM webhook_attempt WHERE delivery_id = $1`, young.ID)
	f.Exec(t, `DELETE FROM webhook_delivery WHERE id = $1`, young.ID)
	_, n, err = f.Installation.DeleteUnsentEvents(t.Context(), age, "", 100)
	require.NoError(t, err)
	require.Zero(t, n, "it is not that old")
	f.Exec(t, `ALTER TABLE event DISABLE TRIGGER ALL`)
	f.Exec(t, `UPDATE event SET id = $1 || substr(id, 15), created_at = created_at - interval '72 hours'
		WHERE id NOT IN (SELECT event_id FROM webhook_delivery)`, checkout.FirstID(checkout.PrefixEvent, time.Now().Add(-72*time.Hour))[:14])
	f.Exec(t, `ALTER TABLE event ENABLE TRIGGER ALL`)
	last, n, err := f.Installation.DeleteUnsentEvents(t.Context(), age, "", 100)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	last, n, err = f.Installation.DeleteUnsentEvents(t.Context(), age, last, 100)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, last)
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM event`))
}

func TestDeleteFinished_TakesTheLimitAtATime(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	for range 5 {
		_, ref := f.publishTest(t, e, webhook.PayoutSent)
		f.end(t, ref, webhook.DeliveryFailed)
	}
	var total int
	for range 10 {
		n := must.Get(f.Installation.DeleteFinished(t.Context(), 0, 2))(t)
		require.LessOrEqual(t, n, 2)
		total += n
		if n == 0 {
			break
		}
	}
	require.Equal(t, 5, total)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM event`))
}

func TestDeleteFinished_KeepsTheEventOfAnotherDelivery(t *testing.T) {
	f := newFixture(t)
	_, ended := f.publishTest(t, f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated), webhook.PayoutSent)
	_, waits := f.publishTest(t, f.endpoint(t, "https://shop.example/b", webhook.MerchantUpdated), webhook.PayoutSent)
	f.Exec(t, `UPDATE webhook_delivery SET event_id = (SELECT event_id FROM webhook_delivery WHERE id = $1) WHERE id = $2`, ended.ID, waits.ID)
	f.end(t, ended, webhook.DeliveryFailed)

	require.Equal(t, 1, must.Get(f.Installation.DeleteFinished(t.Context(), 0, 100))(t))
	require.Equal(t, webhook.DeliveryPending, f.read(t, waits).Status)
}

func (f fixture) oldSession(t *testing.T, mode checkout.Mode) checkout.Session {
	n := f.newSession()
	fresh := checkout.NewID(checkout.PrefixSession)
	n.Ref = f.merchant.Owner(mode).Ref(checkout.FirstID(checkout.PrefixSession, time.Now().AddDate(0, 0, -100))[:12] + fresh[12:])
	n.OrderID = nil
	return f.create(t, n)
}

func (f fixture) endOld(t *testing.T) {
	f.Exec(t, `UPDATE checkout_session SET ended_at = ended_at - interval '100 days' WHERE ended_at IS NOT NULL`)
}

func TestDeleteOldSessions_KeepsWhatIsNeededElsewhere(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.Merchants.CreateMerchant(t.Context(), f.merchant, checkout.ModeLive, nil))
	expire := func(s checkout.Session) checkout.Session {
		must.Get(f.Sessions.ExpireSession(t.Context(), s.Ref, storage.Expiry{At: s.ExpiresAt, Early: true}))(t)
		return s
	}
	failed := checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined}
	succeeded := checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}

	paid := f.oldSession(t, checkout.ModeTest)
	_, settled := f.pay(t, paid, succeeded)
	f.Exec(t, `UPDATE payout SET status = 'sent', sent_at = now() WHERE id = $1`, settled.PayoutID)
	unpaid := expire(f.oldSession(t, checkout.ModeTest))
	unpaidLive := expire(f.oldSession(t, checkout.ModeLive))

	kept := map[string]checkout.Session{}
	kept["its payout is pending"] = f.oldSession(t, checkout.ModeTest)
	f.pay(t, kept["its payout is pending"], succeeded)
	kept["the card network knows a payment"] = f.oldSession(t, checkout.ModeLive)
	f.pay(t, kept["the card network knows a payment"], failed)
	expire(kept["the card network knows a payment"])
	kept["it is paid in live mode"] = f.oldSession(t, checkout.ModeLive)
	f.pay(t, kept["it is paid in live mode"], succeeded)
	kept["it is pending"] = f.oldSession(t, checkout.ModeTest)
	f.Exec(t, `DELETE FROM event`) // Retention deletes those that no address got
	kept["the log has an event"] = f.oldSession(t, checkout.ModeTest)
	_, logged := f.pay(t, kept["the log has an event"], succeeded)
	f.Exec(t, `UPDATE payout SET status = 'sent', sent_at = now() WHERE id = $1`, logged.PayoutID)
	f.endOld(t)
	kept["it ended lately"] = expire(f.oldSession(t, checkout.ModeTest))
	ledger := f.query(t, `SELECT count(*) FROM ledger_entry`)
	require.NotZero(t, ledger)

	deleted := 0
	for after := ""; ; {
		last, n, err := f.Installation.DeleteOldSessions(t.Context(), 90*24*time.Hour, after, 2)
		require.NoError(t, err)
		deleted += n
		if last == "" {
			break
		}
		after = last
	}
	require.Equal(t, 3, deleted)
	for _, s := range []checkout.Session{paid, unpaid, unpaidLive} {
		require.ErrorIs(t, must.Err(f.Sessions.Session(t.Context(), s.Ref)), checkout.ErrNotFound)
	}
	for why, s := range kept {
		_, err := f.Sessions.Session(t.Context(), s.Ref)
		require.NoError(t, err, why)
	}
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transaction WHERE session_id = $1`, paid.ID))
	require.Equal(t, ledger, f.query(t, `SELECT count(*) FROM ledger_entry`))
}

func TestDeleteOldAuditEntries_AndSandbox(t *testing.T) {
	f := newFixture(t)
	old := checkout.FirstID(checkout.PrefixAuditEntry, time.Now().AddDate(0, 0, -400))
	for _, id := range []string{old, checkout.NewID(checkout.PrefixAuditEntry)} {
		require.NoError(t, f.AuditLog.Audit(t.Context(), merchant.AuditEntry{ID: id, MerchantID: f.merchant.ID, Actor: "operator"}))
	}
	f.Exec(t, `UPDATE audit_entry SET created_at = now() - interval '400 days' WHERE id = $1`, old)
	require.Equal(t, 1, must.Get(f.Installation.DeleteOldAuditEntries(t.Context(), 365*24*time.Hour, 10))(t))

	f.Exec(t, `INSERT INTO sandbox_charge (transaction_id, session_id, behavior, method, amount, currency, outcome, return_url, callbacks, created_at)
		SELECT id, '', '', '{}', 1, 'EUR', '', '', callbacks, now() - interval '40 days' FROM (VALUES ('old', 0), ('owed', 1)) v (id, callbacks)`)
	f.Exec(t, `INSERT INTO sandbox_refund (id, transaction_id, amount, status, later_status, later_at)
		SELECT id, transaction_id, 1, '', '', now() FROM (VALUES ('a', 'old'), ('b', 'owed')) v (id, transaction_id)`)
	f.Exec(t, `INSERT INTO sandbox_transfer (tx_hash, payout_id, created_at) VALUES ('old', 'a', now() - interval '40 days'), ('new', 'b', now())`)
	for table, rows := range map[string]storage.OldRows{"sandbox_charge": storage.OldSandboxCharges, "sandbox_transfer": storage.OldSandboxTransfers} {
		require.Equal(t, 1, must.Get(f.Installation.DeleteOld(t.Context(), rows, 30*24*time.Hour, 10))(t), table)
		require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM `+table))
	}
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM sandbox_refund`), "a refund goes with its charge")
}

func TestDeleteOldSessions_TakesTheDisputesOfTestMode(t *testing.T) {
	f := newFixture(t)
	s := f.oldSession(t, checkout.ModeTest)
	id, next := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	d := f.contests(t, sale{s, id, s.Owner.Ref(next.PayoutID)}, books.RiskLost)
	require.Equal(t, "lost", string(d.Status))
	f.endOld(t)
	f.Exec(t, `DELETE FROM event`)
	_, n, err := f.Installation.DeleteOldSessions(t.Context(), 24*time.Hour, "", 100)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM charge_risk`))
}
