package treasury_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// backup keeps the rows that a payout and its transfer change. What it returns brings them back.
func (f fixture) backup(t *testing.T) (restore func()) {
	t.Helper()
	tables := []string{"treasury_account", "transfer", "transfer_payout", "transfer_slot", "transfer_version", "payout", "event", "ledger_entry",
		"ledger_posting", "checkout_session", "transaction"}
	for _, table := range tables {
		f.Exec(t, "CREATE TABLE backup_"+table+" AS TABLE "+table)
	}
	return func() {
		t.Helper()
		sql := "SET session_replication_role = replica;" // neither triggers nor references
		for _, table := range tables {
			sql += "DELETE FROM " + table + ";"
			overriding := ""
			if table == "ledger_entry" {
				overriding = "OVERRIDING SYSTEM VALUE "
			}
			sql += "INSERT INTO " + table + " " + overriding + "SELECT * FROM backup_" + table + ";"
		}
		f.Exec(t, sql)
	}
}

// recover runs one recovery. A dry one first changes nothing.
func (f onAnvil) recover(t *testing.T, chosen map[string]string) treasurer.RecoveryResult {
	t.Helper()
	o := treasurer.RecoveryOrder{AccountID: f.account(t).ID, Chosen: chosen, By: merchant.AuditEntry{Actor: "operator", Action: "payout.recovered"}}
	rows := `SELECT concat((SELECT count(*) FROM transfer_version), ' ', (SELECT count(*) FROM event), ' ',
		(SELECT count(*) FROM ledger_entry), ' ', (SELECT next_nonce FROM treasury_account))`
	before := f.query(t, rows)
	dry := must.Get(f.Recover(t.Context(), o))(t)
	require.Equal(t, before, f.query(t, rows), "a dry run writes nothing")
	o.Apply = true
	got := must.Get(f.Recover(t.Context(), o))(t)
	require.Len(t, got.Found, len(dry.Found))
	for i, r := range got.Found {
		require.Equal(t, r.Why == "", r.Done)
		r.Done = false
		require.Equal(t, dry.Found[i], r, "it writes what it showed")
	}
	require.NotNil(t, f.query(t, `SELECT frozen_at FROM treasury_account`), "only a person thaws")
	return got
}

// requireChain compares the wallets of the ledger with the chain, and requires that nothing is on its way.
func (f onAnvil) requireChain(t *testing.T) map[string]string {
	t.Helper()
	now := must.Get(f.node.Snapshot(t.Context()))(t)
	books := f.ledger(t)
	for _, currency := range []money.PayoutCurrency{money.ETH, money.USDC} {
		require.Equal(t, now.Balances[currency].Units().String(), books["wallet "+string(currency)])
		require.Contains(t, []string{"", "0"}, books["transit "+string(currency)])
	}
	return books
}

// thaw is what a person does at the end.
func (f fixture) thaw(t *testing.T) {
	t.Helper()
	require.NoError(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: f.account(t).ID}))
	require.Nil(t, f.query(t, `SELECT unexplained_block FROM treasury_account`))
}

// The backup has payouts as pending that the chain has paid: in a token, in ether, and two of the same amount.
func TestRecover_AnOldBackupPaysNobodyTwice(t *testing.T) {
	f := newOnAnvil(t)
	known := f.payout(t, f.owner, 3_000, money.USDC)
	f.send(t, known)
	token, ether := f.payout(t, f.owner, 10_000, money.USDC), f.payout(t, f.owner, 20_000, money.ETH)
	twin, twins := f.payout(t, f.owner, 50_000, money.USDC), f.payout(t, f.owner, 50_000, money.USDC)
	unpaid := f.payout(t, f.owner, 7_000, money.USDC)
	f.mine(t, 3)
	f.sync(t)
	restore := f.backup(t)

	before := f.received(t)
	f.confirms(t, token, ether, twin)
	paid := f.received(t)
	require.NotEqual(t, before, paid)
	hash := f.read(t, twin).TxHash
	restore()
	require.Equal(t, checkout.PayoutPending, f.read(t, token).Status)

	tooEarly := treasurer.ThawOrder{AccountID: f.account(t).ID}
	require.ErrorIs(t, f.Thaw(t.Context(), tooEarly), treasurer.ErrUnrecovered, "before the first round")
	for range 3 { // the rounds freeze the account and book the outflows to suspense
		f.sync(t)
		require.ErrorIs(t, f.Thaw(t.Context(), tooEarly), treasurer.ErrUnrecovered)
		f.mine(t, 1)
	}
	require.NotEqual(t, "0", f.ledger(t)["suspense USDC"])
	require.ErrorIs(t, f.refundError(t, token), storage.ErrFrozen, "it is paid")
	require.ErrorIs(t, f.refundError(t, unpaid), storage.ErrFrozen, "nobody knows that it is not")

	got := f.recover(t, nil)
	require.Len(t, got.Found, 3)
	require.Equal(t, []string{token.ID, ether.ID, ""}, []string{got.Found[0].Payout, got.Found[1].Payout, got.Found[2].Payout})
	require.ElementsMatch(t, []string{twin.ID, twins.ID}, got.Found[2].Fits)
	require.Equal(t, hash, got.Found[2].TxHash)

	require.ErrorIs(t, f.Thaw(t.Context(), tooEarly), treasurer.ErrUnrecovered, "one is left")
	got = f.recover(t, map[string]string{hash: unpaid.ID})
	require.Equal(t, "it cannot have paid the chosen payout", got.Found[0].Why)
	got = f.recover(t, map[string]string{hash: twin.ID})
	require.Len(t, got.Found, 1)
	require.True(t, got.Found[0].Done)
	require.Empty(t, f.recover(t, nil).Found, "a repeat finds nothing")

	for _, ref := range []checkout.Ref{token, ether, twin} {
		p := f.read(t, ref)
		require.Equal(t, checkout.PayoutSent, p.Status)
		require.Equal(t, []webhook.EventType{webhook.PayoutSent}, f.eventTypes(t, ref))
	}
	require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM audit_entry WHERE action = 'payout.recovered'`))
	require.Equal(t, 3, f.sync(t).Confirmed)
	require.Equal(t, "0", f.requireChain(t)["suspense USDC"])
	f.thaw(t)
	f.confirms(t, twins, unpaid)
	require.Empty(t, f.sync(t).Frozen)
	books := f.requireChain(t)
	require.Equal(t, []string{"0", "0"}, []string{books["merchant:payable EUR"], books["suspense USDC"]})
	require.Contains(t, []string{"", "0"}, books["suspense ETH"])
	for _, ref := range []checkout.Ref{known, token, ether, twin, twins, unpaid} {
		p := f.read(t, ref)
		require.NotNil(t, p.ConfirmedAt)
		require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM transfer_payout WHERE payout_id = $1`, ref.ID))
	}
	require.Equal(t, f.sentTo(t), f.received(t), "the chain has each payout once")
}

// sentTo adds up what the rows say that the merchant got in USDC.
func (f onAnvil) sentTo(t *testing.T) string {
	t.Helper()
	total, ok := f.query(t, `SELECT trunc(sum(amount) * 1000000)::text FROM transfer_payout WHERE currency = 'USDC'`).(string)
	require.True(t, ok)
	return total
}

// The lost version was mined. Its transfer must not count as dead, or the payout could be retried or refunded.
func TestRecover_AVersionThatTheBackupLacks(t *testing.T) {
	f := newOnAnvil(t)
	f.sync(t)
	ref, id := f.sent(t)
	plan := must.Get(f.node.Bump(t.Context(), f.version(t, id, 1)))(t)
	second := must.Get(f.node.Sign(t.Context(), plan))(t)
	require.NoError(t, f.node.Send(t.Context(), second))
	f.mine(t, 3)
	for range 2 {
		got := f.sync(t)
		require.Equal(t, 0, got.Dead+got.Confirmed)
		require.Contains(t, got.Alarms, "the chain says that "+id+" is dead, and shows its payment")
	}
	require.Equal(t, checkout.PayoutSent, f.read(t, ref).Status)
	require.ErrorIs(t, f.refundError(t, ref), checkout.ErrTransferStands)
	require.Contains(t, f.query(t, `SELECT frozen_why FROM treasury_account`), "no transfer explains the transaction")
	got := f.recover(t, nil)
	require.Equal(t, id, got.Found[0].Transfer)
	require.Equal(t, 1, f.sync(t).Confirmed)
	require.Equal(t, second.TxHash, f.read(t, ref).TxHash)
	require.Equal(t, []webhook.EventType{webhook.PayoutSent}, f.eventTypes(t, ref))
	require.Equal(t, "0", f.requireChain(t)["suspense USDC"])
	f.thaw(t)
}

// What no payout explains stays with a person, and so does a payout that has failed.
func TestRecover_LeavesTheRestToAPerson(t *testing.T) {
	f := newOnAnvil(t)
	f.sync(t)
	require.ErrorIs(t, must.Err(f.Recover(t.Context(), treasurer.RecoveryOrder{AccountID: f.account(t).ID})), storage.ErrNotFrozen)
	require.ErrorIs(t, must.Err(f.Recover(t.Context(), treasurer.RecoveryOrder{AccountID: "tre_none"})), checkout.ErrNotFound)

	failed := f.payout(t, f.owner, 4_000, money.USDC)
	restore := f.backup(t)
	lost := f.payout(t, f.owner, 90_000, money.USDC) // its row is lost too
	for _, ref := range []checkout.Ref{failed, lost} {
		f.send(t, ref)
	}
	f.mine(t, 3)
	restore()
	f.sync(t)
	f.end(t, failed, 0, checkout.PayoutInsufficientLiquidity)
	got := f.recover(t, nil)
	require.Len(t, got.Found, 2)
	require.Equal(t, []string{"the payout has failed: retry it, and run this again", "no payout fits"},
		[]string{got.Found[0].Why, got.Found[1].Why})

	f.retried(t, failed)
	require.True(t, f.recover(t, nil).Found[0].Done)
	require.Equal(t, []webhook.EventType{webhook.PayoutFailed, webhook.PayoutSent}, f.eventTypes(t, failed))
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.thaw(t)
	require.NotEqual(t, "0", f.requireChain(t)["suspense USDC"], "nobody has explained the other one")
}

// The gas of an unexplained transaction is booked with it. A thaw need not wait until recovered transfers are final.
func TestThaw_RightAfterARecoveryStaysThawed(t *testing.T) {
	f := newOnAnvil(t)
	f.sync(t)
	known := f.payout(t, f.owner, 4_000, money.USDC)
	restore := f.backup(t)
	lost := f.payout(t, f.owner, 90_000, money.USDC) // its row is lost too
	for _, ref := range []checkout.Ref{known, lost} {
		f.send(t, ref)
	}
	f.mine(t, 3)
	restore()
	require.Equal(t, checkout.HoldFrozen, f.transfer(t, known).Held, "also when its run comes before the first round")
	require.Contains(t, f.query(t, `SELECT frozen_why FROM treasury_account`), "a transaction uses slot 1")
	f.sync(t)
	got := f.recover(t, nil)
	require.Equal(t, []string{known.ID, ""}, []string{got.Found[0].Payout, got.Found[1].Payout})
	f.thaw(t)
	for range 3 {
		f.mine(t, 1)
		require.Empty(t, f.sync(t).Frozen)
	}
	require.Nil(t, f.query(t, `SELECT frozen_at FROM treasury_account`))
	f.requireChain(t)
}

// The backup has the payment undecided, so no payout fits its transaction yet. An early thaw would pay it twice.
func TestThaw_WaitsForPaymentsOfBeforeTheRestore(t *testing.T) {
	f := newOnAnvil(t)
	f.sync(t)
	session, id := f.begin(t, f.owner, 10_000, money.USDC)
	restore := f.backup(t)
	f.confirms(t, f.complete(t, session, id))
	paid := f.received(t)
	restore()
	f.sync(t)

	account := f.account(t)
	require.NotNil(t, account.FrozenAt)
	require.Equal(t, "no payout fits", f.recover(t, nil).Found[0].Why)
	err := f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: account.ID})
	require.ErrorIs(t, err, treasurer.ErrUnrecovered)
	require.ErrorContains(t, err, id)
	f.Exec(t, `UPDATE transaction SET status = 'created'`) // the backup is from before it began, and it can begin again
	require.ErrorContains(t, f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: account.ID}), id)
	f.Exec(t, `UPDATE transaction SET status = 'processing'`)

	payout := f.complete(t, session, id)
	require.True(t, f.recover(t, nil).Found[0].Done)
	f.thaw(t)
	f.mine(t, 3)
	f.sync(t)
	require.Equal(t, checkout.PayoutSent, f.read(t, payout).Status)
	require.Equal(t, paid, f.received(t))
	f.requireChain(t)
}

// The lost payment waits in the pool behind a dropped nonce, and is mined as soon as another transfer fills the gap.
func TestSync_APaymentBehindAGapFreezesAfterARestore(t *testing.T) {
	f := newOnAnvil(t)
	f.booked(t)
	dropped, waits := f.payout(t, f.owner, 5_000, money.USDC), f.payout(t, f.owner, 6_000, money.USDC)
	restore := f.backup(t)
	f.send(t, dropped)
	f.send(t, waits)
	behind := f.version(t, f.transferOf(t, waits), 1)
	require.NoError(t, f.anvil.Drop(t.Context(), f.read(t, dropped).TxHash)) // it takes the other one with it
	require.NoError(t, f.node.Send(t.Context(), behind))
	f.mine(t, 1)
	require.Equal(t, "0", f.received(t))
	restore()

	require.Equal(t, checkout.HoldFrozen, f.transfer(t, dropped).Held)
	require.Contains(t, f.query(t, `SELECT frozen_why FROM treasury_account`), "a transaction uses slot 1")
	o := treasurer.ThawOrder{AccountID: f.account(t).ID}
	require.ErrorAs(t, f.Thaw(t.Context(), o), new(storage.NotFinalError))

	// A person fills the gap: the treasury sends nothing to itself.
	account := f.anvil.Accounts[1]
	require.NoError(t, must.Err(f.anvil.Send(t.Context(), chains.Transaction{From: account, To: &account})))
	f.mine(t, 3)
	f.sync(t)
	require.ErrorIs(t, f.Thaw(t.Context(), o), treasurer.ErrUnrecovered)
	got := f.recover(t, nil)
	require.Equal(t, []string{"it moved nothing, so it paid no payout", ""}, []string{got.Found[0].Why, got.Found[1].Why})
	require.Equal(t, waits.ID, got.Found[1].Payout)
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.thaw(t)
	f.confirms(t, dropped)
	require.Equal(t, f.sentTo(t), f.received(t))
	f.requireChain(t)
}
