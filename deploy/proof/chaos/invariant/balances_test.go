package invariant

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/sandbox"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// addBalances lets the first merchant have 1.00 EUR and 0.50 in reserve, and order a refund.
func (f *Facts) addBalances() {
	f.Balances = []Balance{{"mer_1", checkout.ModeTest, money.EUR, 100, 50}}
	f.Told = []Statement{{f.Balances[0], 100}}
	f.Verdicts = map[int][]Verdict{}
	for number := range verdicts {
		f.Verdicts[number] = []Verdict{{"re_mine", ""}}
	}
	order := Call{Op: OpRefund, MerchantID: "mer_1", Key: "refund-1", ID: "re_mine", At: noon, EndedAt: noon, Status: http.StatusCreated}
	f.Calls = slices.Insert(f.Calls, 5, order, order)
}

// balanceCases are cases of TestCheck_NamesExactlyWhatIsBroken.
var balanceCases = []brokenCase{
	{"31: a query has found something", func(f *Facts) { f.Verdicts[31][0].Wrong = "has 1 cent more" }, "31 re_mine"},
	{"32: another balance is told", func(f *Facts) { f.Told[0].Total, f.Told[0].Listed = 99, 99 }, "32 mer_1 test EUR"},
	{"32: another reserve is told", func(f *Facts) { f.Told[0].Reserved = 0 }, "32 mer_1 test EUR"},
	{"32: the list does not add up", func(f *Facts) { f.Told[0].Listed = 99 }, "32 mer_1 test EUR"},
	{"32: a currency is not told", func(f *Facts) {
		f.Balances = append(f.Balances, Balance{"mer_1", checkout.ModeTest, money.USD, -5, 0})
	}, "32 mer_1 test USD"},
	{"32: of a merchant who was not asked", func(f *Facts) {
		f.Balances = append(f.Balances, Balance{"mer_2", checkout.ModeLive, money.USD, -5, 0})
	}, ""},
	{"34: a payout pays what was deducted", func(f *Facts) { f.Payouts[0].Deducted = 1 }, "34 po_1"},
	{"34: a payout sends no amount", func(f *Facts) { f.Payouts[0].Amount = "" }, "34 po_1"},
	{"40: a key ordered two refunds", func(f *Facts) {
		f.Calls[6].ID, f.Verdicts[36] = "re_two", append(f.Verdicts[36], Verdict{"re_two", ""})
	}, "40 refund-1"},
	{"40: a refund is not there", func(f *Facts) { f.Verdicts[36] = nil }, "40 re_mine"},
}

// soldAndRefunded makes a merchant with a reserve, who sold, was paid, refunded a part, lost a dispute, and paid what it
// owed in another currency.
func soldAndRefunded(t *testing.T, db storagetest.Database) {
	var (
		ctx   = t.Context()
		store = db.Open(t, 0)
		owner = checkout.Owner{MerchantID: checkout.NewID(checkout.PrefixMerchant), Mode: checkout.ModeTest}
		sends = sandbox.Payouts{Sandbox: store.Sandbox, Payouts: store.Payouts}
	)
	require.NoError(t, store.Merchants.CreateMerchant(ctx, merchant.Merchant{
		ID: owner.MerchantID, Name: "Shop", Plan: "standard", FeeBasisPoints: 100, PaymentAttempts: 3,
	}, owner.Mode, []merchant.PayoutAddress{{Currency: money.USDC, Network: money.Ethereum, Address: "0xabc"}}))
	db.Exec(t, `UPDATE merchant SET reserve_basis_points = 1000, reserve_days = 0, debt_limit = 100000`)
	sell := func(currency money.Currency) (session checkout.Session, payment string) {
		session = storagetest.Session(t, store, owner, func(s *checkout.Session) { s.Currency = currency })
		payment = storagetest.Begin(t, store, session.Ref, storage.NewPayment{}, "")
		next := storagetest.Finish(t, store, session.Ref, payment, storagetest.Succeeded)
		ref := owner.Ref(next.PayoutID)
		got := must.Get(sends.Transfer(ctx, must.Get(store.Payouts.PayoutToSend(ctx, ref))(t)))(t)
		must.Get(store.Payouts.FinishPayout(ctx, ref, got.Generation, got.Failure))(t)
		return session, payment
	}
	session, payment := sell(money.EUR)
	must.Get(store.Sandbox.CreateSandboxCharge(ctx, storage.SandboxCharge{
		TransactionID: payment, Amount: 1050, Outcome: checkout.OutcomeSucceeded,
	}))(t)
	order := storage.RefundOrder{ID: "re_1", Session: session.Ref, Amount: 500}
	refund := must.Get(store.Refunds.OrderRefund(ctx, order))(t)
	must.Get(store.Sandbox.CreateSandboxRefund(ctx, storage.SandboxRefund{
		ID: "re_1", TransactionID: payment, Amount: 500, Status: checkout.RefundSucceeded,
	}, checkout.RefundSucceeded, 0))(t)
	db.Exec(t, `UPDATE sandbox_refund SET report_at = NULL`)
	done := checkout.RefundResult{Status: checkout.RefundSucceeded, Reference: "re_1", Amount: 500}
	must.Get(store.Refunds.RecordRefund(ctx, refund, done))(t)
	must.Get(store.Balances.ReleaseReserves(ctx, 1))(t)
	for _, status := range []books.RiskStatus{books.RiskOpen, books.RiskLost} {
		must.Get(store.Books.RecordRisks(ctx, owner.Mode, storage.ChargeToCheck{Reference: payment}, []books.ChargeRisk{{
			ID: "du_1", Kind: books.RiskDispute, Status: status, Amount: 550, Currency: money.EUR, Fee: 1500, FeeCurrency: money.EUR,
		}}))(t)
	}
	sell(money.USD)
}

// TestVerdicts_NameExactlyWhatIsBroken changes correct rows in each case.
func TestVerdicts_NameExactlyWhatIsBroken(t *testing.T) {
	t.Parallel()
	db := storagetest.New(t)
	soldAndRefunded(t, db)
	conn := db.Connect(t)
	for _, c := range []struct{ name, sql, want string }{
		{"everything is in order", ``, ``},
		{"31: a refund that no entry has", `UPDATE refund SET amount = amount - 1`, `31`},
		{"31: a fee that no entry has", `UPDATE charge_risk SET fee = 1501`, `31`},
		{"31: a dispute that is won, and nothing is booked", `UPDATE charge_risk SET status = 'won'`, `31 38`},
		{"31: a posting of another merchant", `UPDATE ledger_posting SET holder = 'mer_2' WHERE account = 'merchant:payable'`, `31`},
		{"31: a reserve that nothing keeps", `INSERT INTO reserve SELECT 'txn_2', merchant_id, mode, currency, amount, now() FROM reserve LIMIT 1`, `31 37`},
		{"33: a deduction is lost", `DELETE FROM payout_deduction WHERE type = 'reserve'`, `33`},
		{"33: a conversion at another rate", `UPDATE payout_deduction SET owed = owed + 1 WHERE type = 'recovery'`, `33`},
		{"33: a conversion that no entry has", `DELETE FROM ledger_posting p USING ledger_entry e WHERE e.id = p.entry_id AND e.kind = 'conversion'`, `33`},
		{"33: more than the payout is deducted", `
			UPDATE payout_deduction SET amount = amount + 2000 WHERE type = 'reserve';
			UPDATE payout SET deducted = deducted + 2000`, `31 33`},
		{"35: the sandbox gave back more than the charge", `UPDATE sandbox_refund SET amount = 1051`, `35`},
		{"35: a refund of more than the payment", `UPDATE refund SET amount = 1051`, `31 35`},
		{"35: refunds return more than the fee", `UPDATE refund SET fee_returned = 12`, `31 35`},
		{"36: nobody looks at a refund", `
			UPDATE refund SET status = 'pending', ended_at = NULL, next_action_at = now() - interval '6 minutes';
			UPDATE sandbox_refund SET status = 'pending', later_status = 'pending'`, `36`},
		{"36: the card network has decided otherwise", `UPDATE sandbox_refund SET status = 'failed', later_status = 'failed'`, `36`},
		{"36: an end without an event", `DELETE FROM event WHERE type = 'refund.succeeded'`, `36`},
		{"36: an event that comes twice", `
			INSERT INTO event (id, merchant_id, mode, type, subject_id, created_at, body, generation)
			SELECT 'evt_2', merchant_id, mode, type, subject_id, created_at, body, 2 FROM event WHERE type = 'refund.succeeded'`, `36`},
		{"36: events that are so old may be gone", `
			DELETE FROM event WHERE type = 'refund.succeeded';
			UPDATE refund SET created_at = now() - interval '2 days'`, ``},
		{"37: released, and not booked", `UPDATE reserve SET released_at = now()`, `31 37`},
		{"37: released twice", `
			INSERT INTO ledger_entry (mode, kind, subject, generation) SELECT mode, kind, subject, 2 FROM ledger_entry WHERE kind = 'release';
			INSERT INTO ledger_posting SELECT max(e.id), 'test', 'merchant:reserve', 'mer_2', 'EUR', 1 FROM ledger_entry e`, `31 37`},
		{"38: an opened dispute of which nobody is told", `DELETE FROM event WHERE type LIKE 'dispute.%'`, `38`},
		{"38: a decision of which nobody is told", `DELETE FROM event WHERE type = 'dispute.closed'`, `38`},
		{"38: it is opened twice", `
			INSERT INTO event (id, merchant_id, mode, type, subject_id, created_at, body, generation)
			SELECT 'evt_2', merchant_id, mode, type, subject_id, created_at, body, 2 FROM event WHERE type = 'dispute.opened'`, `38`},
		{"39: an event of another merchant", `UPDATE event SET merchant_id = 'mer_2' WHERE type = 'refund.succeeded'`, `39`},
		{"39: an event of the other mode", `UPDATE event SET mode = 'live' WHERE type = 'dispute.opened'`, `39`},
	} {
		require.Equal(t, c.want, brokenBy(t, conn, c.sql), c.name)
	}
}

// brokenBy returns the numbers of the invariants that a change breaks. It takes the change back.
func brokenBy(t *testing.T, conn *pgx.Conn, sql string) (numbers string) {
	ctx := context.WithoutCancel(t.Context())
	tx := must.Get(conn.Begin(ctx))(t)
	defer func() { require.NoError(t, tx.Rollback(ctx)) }()
	must.Get(tx.Exec(ctx, `SET LOCAL session_replication_role = replica;`+sql))(t) // the database's own guards are off
	f := &Facts{At: time.Now(), DeliveryRetention: 24 * time.Hour}
	require.NoError(t, readBalances(ctx, tx, f))
	for number := range All {
		found := f.Verdicts[number]
		if verdicts[number] != "" {
			require.NotEmpty(t, found, number)
		}
		for _, v := range found {
			if v.Wrong != "" {
				t.Log(number, v.ID, v.Wrong)
				numbers += fmt.Sprint(" ", number)
				break
			}
		}
	}
	return numbers[min(1, len(numbers)):]
}
