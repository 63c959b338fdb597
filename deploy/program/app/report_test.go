package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// charge pays a live session of 10.00 EUR for USDC, which the plan in force earns from.
func (o operator) charge(store *storage.Store, merchantID string) {
	owner := checkout.Owner{MerchantID: merchantID, Mode: checkout.ModeLive}
	s := storagetest.Session(o.t, store, owner, func(s *checkout.Session) { s.Amount = 1000 })
	id := storagetest.Begin(o.t, store, s.Ref, storage.NewPayment{}, "")
	storagetest.Finish(o.t, store, s.Ref, id, storagetest.Succeeded)
	require.NoError(o.t, store.Books.RecordChargeCost(o.t.Context(), checkout.ModeLive, id, books.ChargeCost{Currency: money.EUR, Gross: 1000, Cost: 59}))
}

// yesterday moves everything into one day.
func (o operator) yesterday() {
	o.exec(`SET session_replication_role = replica;
		UPDATE transaction SET completed_at = '2026-10-01T12:00:00Z'; UPDATE payout SET created_at = '2026-10-01T23:59:59.999Z';
		UPDATE ledger_entry SET created_at = '2026-10-01T00:00:00Z'`)
}

func (o operator) exec(sql string) {
	o.db.Exec(o.t, sql)
}

func TestReport_IsATableForPeople(t *testing.T) {
	o := newOperator(t)
	id := o.merchant()
	o.must("merchant", "plan", id, "growth")
	store := o.store()
	o.charge(store, id)
	o.yesterday()
	out := o.must("report", "--day", "2026-10-01")
	require.Contains(t, out, "The live books of 2026-10-01, UTC\n\nPLAN ")
	for _, row := range []string{
		`growth +0\.80 % +1 +10\.00 +0\.08 +0\.59 +-0\.51 +EUR +0`,
		`fees of payments +0\.08 +EUR`, `cost of the acquirer +-0\.59 +EUR`,
		`pending +1 +0 +USDC +9\.92 +EUR`,
		`REFUNDS: none`, `DISPUTES: none`, `FLOAT NOW: none`, `OPEN FINDING: none`,
		`acquirer:receivable +EUR +0\.00 +0\.00 +0\.00 +0`,
		`The ledger agrees\.`,
	} {
		require.Regexp(t, `(?m)^`+row+`$`, out)
	}
	require.Contains(t, o.must("report", "--day", "2026-10-02"), "PLAN: none\n")

	o.exec(`SET session_replication_role = replica; UPDATE ledger_posting SET amount = amount + 1 WHERE account = 'revenue:fee'`)
	_, err := store.Books.ReconcileLedger(t.Context(), checkout.ModeLive)
	require.NoError(t, err)
	out = o.must("report")
	require.Contains(t, out, "The ledger does not agree: see the column DIFFERENCE.\n")
	require.Regexp(t, `(?m)^ledger_differs +\S+ +sum of all accounts EUR +The ledger has 0\.01 EUR, and should have 0\.00 EUR\.$`, out)
}

func TestReport_InJSONHasEveryAmountAsText(t *testing.T) {
	o := newOperator(t)
	o.charge(o.store(), o.merchant())
	o.yesterday()
	require.JSONEq(t, `{
		"day": "2026-10-01",
		"charges": [{"plan": "standard", "fee": "1.00 %", "currency": "EUR", "number": 1, "sum": "10.00", "earned": "0.10",
			"acquirer_cost": "0.59", "acquirer_cost_unknown": 0, "margin": "-0.49"}],
		"booked": [
			{"account": "acquirer:balance", "asset": "EUR", "amount": "9.41"},
			{"account": "acquirer:receivable", "asset": "EUR", "amount": "0.00"},
			{"account": "expense:acquirer", "asset": "EUR", "amount": "0.59"},
			{"account": "merchant:payable", "asset": "EUR", "amount": "-9.90"},
			{"account": "revenue:fee", "asset": "EUR", "amount": "-0.10"}],
		"refunds": [], "disputes": [],
		"payouts": [{"state": "pending", "currency": "USDC", "number": 1, "sum": "0", "source_currency": "EUR", "source_sum": "9.90"}],
		"float": [],
		"ledger": [
			{"what": "sum of all accounts", "asset": "EUR", "ledger": "0.00", "expected": "0.00", "under_way": "0.00", "difference": "0"},
			{"what": "acquirer:receivable", "asset": "EUR", "ledger": "0.00", "expected": "0.00", "under_way": "0.00", "difference": "0"}],
		"ledger_agrees": true, "open_findings": []
	}`, o.must("report", "--day", "2026-10-01", "--json"))
	require.Contains(t, o.must("report", "--day", "2026-09-30", "--json"), `"charges": [],`)
}

func TestReport_NeedsADayThatHasCome(t *testing.T) {
	o := newOperator(t)
	for _, day := range []string{"22.11.2026", "2026-02-30", "today"} {
		o.refused("--day must be a date such as 2026-11-22", "report", "--day", day)
	}
	o.refused("is in the future", "report", "--day", time.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly))
	o.refused("too many arguments", "report", "2026-11-22")
}
