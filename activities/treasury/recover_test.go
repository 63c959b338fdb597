package treasury_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// backup keeps the rows that a payout and its transfer change. What it returns brings them back.
func (f fixture) backup(t *testing.T) (restore func()) {
	tables := []string{"treasury_account", "transfer", "transfer_payout", "transfer_slot", "transfer_version", "payout",
		"payout_deduction", "event", "ledger_entry", "ledger_posting", "checkout_session", "transaction"}
	for _, table := range tables {
		f.Exec(t, "CREATE TABLE backup_"+table+" AS TABLE "+table)
	}
	return func() {
		sql := "SET session_replication_role = replica;" // neither triggers nor references
		for _, table := range tables {
			overriding := ""
			if table == "ledger_entry" {
				overriding = "OVERRIDING SYSTEM VALUE "
			}
			sql += "DELETE FROM " + table + "; INSERT INTO " + table + " " + overriding + "SELECT * FROM backup_" + table + ";"
		}
		f.Exec(t, sql)
	}
}

// lose restores a backup after something has become final.
func (f fixture) lose(t *testing.T, something func()) {
	restore := f.backup(t)
	something()
	f.chain.mine(f.chain.finality + 1)
	restore()
}

// recover runs a recovery of the only account, or of the one in the order. A dry one first changes nothing.
func (f fixture) recover(t *testing.T, o treasurer.RecoveryOrder) []treasurer.Recovery {
	if o.AccountID == "" {
		o.AccountID = f.account(t).ID
	}
	o.By = merchant.AuditEntry{Actor: "operator", Action: "payout.recovered"}
	rows := `SELECT concat((SELECT count(*) FROM transfer_version), ' ', (SELECT count(*) FROM event), ' ',
		(SELECT count(*) FROM ledger_entry), ' ', (SELECT sum(next_nonce) FROM treasury_account))`
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
	require.NotNil(t, f.query(t, `SELECT frozen_at FROM treasury_account WHERE id = $1`, o.AccountID), "only a person thaws")
	return got.Found
}

// recovered requires that a recovery writes the only payment that is lost.
func (f fixture) recovered(t *testing.T, o treasurer.RecoveryOrder) treasurer.Recovery {
	found := f.recover(t, o)
	require.Len(t, found, 1)
	require.True(t, found[0].Done, found[0].Why)
	return found[0]
}

// thaw is what a person does at the end.
func (f fixture) thaw(t *testing.T) {
	require.NoError(t, f.thawError(t))
	require.Nil(t, f.query(t, `SELECT unexplained_block FROM treasury_account`))
}

func (f fixture) thawError(t *testing.T) error {
	return f.Thaw(t.Context(), treasurer.ThawOrder{AccountID: f.account(t).ID})
}

func (f fixture) freeze(t *testing.T, why string) {
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), f.account(t).ID, why))
}

// The backup has payouts as pending that the chain has paid: in a token, in ether, and two of the same amount.
func TestRecover_AnOldBackupPaysNobodyTwice(t *testing.T) {
	f := newFixture(t)
	known := f.payout(t, f.owner, 3_000, money.USDC)
	f.send(t, known)
	token, ether := f.payout(t, f.owner, 10_000, money.USDC), f.payout(t, f.owner, 20_000, money.ETH)
	twin, twins := f.payout(t, f.owner, 50_000, money.USDC), f.payout(t, f.owner, 50_000, money.USDC)
	unpaid := f.payout(t, f.owner, 7_000, money.USDC)
	f.settle(t)
	hash := ""
	f.lose(t, func() {
		f.confirms(t, token, ether, twin)
		hash = f.read(t, twin).TxHash
	})
	require.Equal(t, checkout.PayoutPending, f.read(t, token).Status)

	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered, "before the first round")
	for range 3 { // the rounds freeze the account and book the outflows to suspense
		f.sync(t)
		require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)
		f.chain.mine(1)
	}
	require.NotEqual(t, "0", f.ledger(t)["suspense USDC"])
	require.ErrorIs(t, f.refundError(t, token), storage.ErrFrozen, "it is paid")
	require.ErrorIs(t, f.refundError(t, unpaid), storage.ErrFrozen, "nobody knows that it is not")

	found := f.recover(t, treasurer.RecoveryOrder{})
	require.Len(t, found, 3)
	require.Equal(t, []string{token.ID, ether.ID, ""}, []string{found[0].Payout, found[1].Payout, found[2].Payout})
	require.ElementsMatch(t, []string{twin.ID, twins.ID}, found[2].Fits)
	require.Equal(t, hash, found[2].TxHash)

	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered, "one is left")
	found = f.recover(t, treasurer.RecoveryOrder{Chosen: map[string]string{hash: unpaid.ID}})
	require.Equal(t, "it cannot have paid the chosen payout", found[0].Why)
	f.recovered(t, treasurer.RecoveryOrder{Chosen: map[string]string{hash: twin.ID}})
	require.Empty(t, f.recover(t, treasurer.RecoveryOrder{}), "a repeat finds nothing")

	for _, ref := range []checkout.Ref{token, ether, twin} {
		require.Equal(t, checkout.PayoutSent, f.read(t, ref).Status)
		require.Equal(t, []webhook.EventType{webhook.PayoutSent}, f.eventTypes(t, ref))
	}
	require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM audit_entry WHERE action = 'payout.recovered'`))
	require.Equal(t, 3, f.sync(t).Confirmed)
	require.Equal(t, "0", f.requireBooked(t)["suspense USDC"])
	f.thaw(t)
	f.confirms(t, twins, unpaid)
	require.Empty(t, f.sync(t).Frozen)
	books := f.requireBooked(t)
	require.Equal(t, []string{"0", "0"}, []string{books["merchant:payable EUR"], books["suspense USDC"]})
	require.Contains(t, []string{"", "0"}, books["suspense ETH"])
	f.requirePaidOnce(t, known, token, ether, twin, twins, unpaid)
	require.EqualValues(t, 6, f.query(t, `SELECT count(*) FROM transfer_payout`))
}

// The lost version was mined. Its transfer must not count as dead, or the payout could be retried or refunded.
func TestRecover_AVersionThatTheBackupLacks(t *testing.T) {
	f := newFixture(t)
	ref, id := f.sent(t)
	f.sync(t)
	plan := must.Get(f.chain.Bump(t.Context(), f.version(t, id, 1)))(t)
	second := must.Get(f.chain.Sign(t.Context(), plan))(t)
	require.NoError(t, f.chain.Send(t.Context(), second))
	f.chain.mine(f.chain.finality + 1)
	for range 2 {
		got := f.sync(t)
		require.Equal(t, 0, got.Dead+got.Confirmed)
		require.Contains(t, got.Alarms, "the chain says that "+id+" is dead, and shows its payment")
	}
	require.Equal(t, checkout.PayoutSent, f.read(t, ref).Status)
	require.ErrorIs(t, f.refundError(t, ref), checkout.ErrTransferStands)
	require.Contains(t, f.account(t).FrozenWhy, "no transfer explains the transaction")
	require.Equal(t, id, f.recovered(t, treasurer.RecoveryOrder{}).Transfer)
	require.Equal(t, 1, f.sync(t).Confirmed)
	require.Equal(t, second.TxHash, f.read(t, ref).TxHash)
	require.Equal(t, []webhook.EventType{webhook.PayoutSent}, f.eventTypes(t, ref))
	require.Equal(t, "0", f.requireBooked(t)["suspense USDC"])
	f.thaw(t)
}

// loseRow loses the transfer of a payout, and another one with its payout. It returns the first.
func (f fixture) loseRow(t *testing.T) (known checkout.Ref) {
	known = f.payout(t, f.owner, 4_000, money.USDC)
	f.lose(t, func() {
		f.send(t, known)
		f.send(t, f.payout(t, f.owner, 90_000, money.USDC))
	})
	return known
}

// What no payout explains stays with a person, and so does a payout that has failed.
func TestRecover_LeavesTheRestToAPerson(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	require.ErrorIs(t, must.Err(f.Recover(t.Context(), treasurer.RecoveryOrder{AccountID: f.account(t).ID})), storage.ErrNotFrozen)
	require.ErrorIs(t, must.Err(f.Recover(t.Context(), treasurer.RecoveryOrder{AccountID: "tre_none"})), checkout.ErrNotFound)

	failed := f.loseRow(t)
	f.sync(t)
	f.end(t, failed, 0, checkout.PayoutInsufficientLiquidity)
	found := f.recover(t, treasurer.RecoveryOrder{})
	require.Len(t, found, 2)
	require.Equal(t, []string{"the payout has failed: retry it, and run this again", "no payout fits"},
		[]string{found[0].Why, found[1].Why})

	f.retried(t, failed)
	require.True(t, f.recover(t, treasurer.RecoveryOrder{})[0].Done)
	require.Equal(t, []webhook.EventType{webhook.PayoutFailed, webhook.PayoutSent}, f.eventTypes(t, failed))
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.thaw(t)
	require.NotEqual(t, "0", f.requireBooked(t)["suspense USDC"], "nobody has explained the other one")
}

// The gas of an unexplained transaction is booked with it. A thaw need not wait until recovered transfers are final.
func TestThaw_RightAfterARecoveryStaysThawed(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	known := f.loseRow(t)
	require.Equal(t, checkout.HoldFrozen, f.transfer(t, known).Held, "also when its run comes before the first round")
	require.Contains(t, f.account(t).FrozenWhy, "a transaction uses slot 1")
	f.sync(t)
	found := f.recover(t, treasurer.RecoveryOrder{})
	require.Equal(t, []string{known.ID, ""}, []string{found[0].Payout, found[1].Payout})
	f.thaw(t)
	for range 3 {
		f.chain.mine(1)
		require.Empty(t, f.sync(t).Frozen)
	}
	require.Nil(t, f.account(t).FrozenAt)
	f.requireBooked(t)
}

// The backup has the payment undecided, so no payout fits its transaction yet. An early thaw would pay it twice.
func TestThaw_WaitsForPaymentsOfBeforeTheRestore(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	session, id := f.begin(t, f.owner, 10_000, money.USDC)
	f.lose(t, func() { f.send(t, f.complete(t, session, id)) })
	f.sync(t)

	require.NotNil(t, f.account(t).FrozenAt)
	require.Equal(t, "no payout fits", f.recover(t, treasurer.RecoveryOrder{})[0].Why)
	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)
	require.ErrorContains(t, f.thawError(t), id)
	f.Exec(t, `UPDATE transaction SET status = 'created'`) // the backup is from before it began, and it can begin again
	require.ErrorContains(t, f.thawError(t), id)
	f.Exec(t, `UPDATE transaction SET status = 'processing'`)

	payout := f.complete(t, session, id)
	f.recovered(t, treasurer.RecoveryOrder{})
	f.thaw(t)
	f.settle(t)
	require.Equal(t, checkout.PayoutSent, f.read(t, payout).Status)
	payments, _ := f.chain.paid()
	require.Len(t, payments, 1)
	f.requireBooked(t)
}

// The lost payment waits in the pool behind a dropped nonce, and is mined as soon as another transfer fills the gap.
func TestSync_APaymentBehindAGapFreezesAfterARestore(t *testing.T) {
	f := newFixture(t)
	f.settle(t)
	dropped, waits := f.payout(t, f.owner, 5_000, money.USDC), f.payout(t, f.owner, 6_000, money.USDC)
	f.lose(t, func() {
		f.send(t, dropped)
		f.send(t, waits)
		delete(f.chain.pool, f.read(t, dropped).TxHash)
	})
	require.Empty(t, f.chain.mined())

	require.Equal(t, checkout.HoldFrozen, f.transfer(t, dropped).Held)
	require.Contains(t, f.account(t).FrozenWhy, "a transaction uses slot 1")
	require.ErrorAs(t, f.thawError(t), new(storage.NotFinalError))

	// A person fills the gap: the treasury sends nothing to itself.
	require.NoError(t, f.chain.accept(fakeTx{Tip: 5, Cap: 5_000, Pays: []fakeOutput{{To: "0xTreasury", Currency: money.ETH}}}))
	f.chain.mine(f.chain.finality + 1)
	f.sync(t)
	require.ErrorIs(t, f.thawError(t), treasurer.ErrUnrecovered)
	found := f.recover(t, treasurer.RecoveryOrder{})
	require.Equal(t, []string{"it moved nothing, so it paid no payout", ""}, []string{found[0].Why, found[1].Why})
	require.Equal(t, waits.ID, found[1].Payout)
	require.Equal(t, 1, f.sync(t).Confirmed)
	f.thaw(t)
	f.confirms(t, dropped)
	f.requirePaidOnce(t, dropped, waits)
	f.requireBooked(t)
}
