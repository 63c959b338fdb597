package treasury_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/money"
)

// planted are books in which something is made to differ. They have one charge, whose payout is confirmed.
type planted struct {
	fixture

	charges []books.Charged // what the card network lists
}

func newPlanted(t *testing.T) *planted {
	p := &planted{fixture: newFixture(t)}
	p.settle(t)
	ref := p.usdc(t)
	p.send(t, ref)
	p.settle(t)
	id := p.paidBy(t, ref)
	p.Exec(t, `UPDATE transaction SET completed_at = completed_at - interval '1 hour'`)
	p.charges = []books.Charged{{
		Reference: id, TransactionID: id, Amount: 10_000, Currency: money.EUR, CreatedAt: time.Now().Add(-time.Hour),
		Cost: &books.ChargeCost{Currency: money.EUR, Gross: 10_000, Cost: 320, AvailableAt: time.Now()},
	}}
	return p
}

// reconcile runs a round, compares the books, and returns the day's findings with their details.
func (p *planted) reconcile(t *testing.T) (kinds map[books.FindingKind]string, report storage.DayReport) {
	p.sync(t)
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	entries := &activities.Books{Store: p.Store.Books, Accounts: map[checkout.Mode]activities.Account{checkout.ModeLive: {
		Movements: func(context.Context, time.Time, time.Time) iter.Seq2[books.Movement, error] {
			return func(func(books.Movement, error) bool) {}
		},
		Succeeded: func(_ context.Context, since, until time.Time) iter.Seq2[books.Charged, error] {
			return func(yield func(books.Charged, error) bool) {
				for _, c := range p.charges {
					if !c.CreatedAt.Before(since) && c.CreatedAt.Before(until) && !yield(c, nil) {
						return
					}
				}
			}
		},
		Charged: func(context.Context, string) (books.Charged, error) {
			return books.Charged{}, checkout.ErrNotFound
		},
	}}}
	env.RegisterActivity(entries)
	require.NoError(t, must.Err(env.ExecuteActivity(entries.ReconcileCharges, contract.ModeInput{Mode: checkout.ModeLive})))
	report = p.day(t, 0)
	kinds = map[books.FindingKind]string{}
	for _, f := range report.Findings {
		kinds[f.Kind] = f.Detail
	}
	require.Len(t, kinds, len(report.Findings), "each once")
	return kinds, report
}

// without hides rows of the ledger, and returns what puts them back.
func (p *planted) without(t *testing.T, kind string) (back func(*testing.T)) {
	const quiet = `SET session_replication_role = replica; `
	p.Exec(t, quiet+`CREATE TABLE gone_entry AS SELECT * FROM ledger_entry WHERE kind = '`+kind+`';
		CREATE TABLE gone_posting AS SELECT p.* FROM ledger_posting p JOIN gone_entry e ON e.id = p.entry_id;
		DELETE FROM ledger_posting WHERE entry_id IN (SELECT id FROM gone_entry);
		DELETE FROM ledger_entry WHERE id IN (SELECT id FROM gone_entry)`)
	return func(t *testing.T) {
		p.Exec(t, quiet+`INSERT INTO ledger_entry OVERRIDING SYSTEM VALUE SELECT * FROM gone_entry;
			INSERT INTO ledger_posting SELECT * FROM gone_posting`)
	}
}

// Each difference is found by its name, shown by the report, and closed when its cause is gone.
func TestReconcile_FindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant func(*testing.T, *planted) (remove func(*testing.T))
		found map[books.FindingKind]string // a part of the detail
	}{
		"a fee that changed": {
			func(_ *testing.T, p *planted) func(*testing.T) {
				was := p.charges[0].Cost
				p.charges[0].Cost = &books.ChargeCost{Currency: money.EUR, Gross: 10_000, Cost: 321}
				return func(*testing.T) { p.charges[0].Cost = was }
			}, map[books.FindingKind]string{books.FindingCostDiffers: "3.20 of 100.00 EUR are booked"},
		},
		"an entry missing": {
			func(t *testing.T, p *planted) func(*testing.T) { return p.without(t, "charge") },
			map[books.FindingKind]string{books.FindingLedgerDiffers: "The ledger has -100.00 EUR, and should have 0.00 EUR."},
		},
		"an outflow that we did not make": {
			func(t *testing.T, p *planted) func(*testing.T) {
				p.chain.foreign(t, 1, 5_000_000)
				p.chain.mine(5)
				p.Exec(t, `UPDATE treasury_account SET next_nonce = 2`) // as if an old backup lacked the transfer
				return p.thaw
			}, map[books.FindingKind]string{books.FindingTreasuryFrozen: "no transfer explains the transaction"},
		},
		"an inflow reorganized away": {
			func(t *testing.T, p *planted) func(*testing.T) {
				inflow := func(t *testing.T) {
					p.chain.take(money.USDT, -70_000_000)
					p.sync(t)
					p.chain.mine(4)
				}
				inflow(t)
				require.Equal(t, "-1000000000000", p.ledger(t)["funding USDT"], "it is booked at final depth")
				p.sync(t)
				require.Equal(t, "-1000070000000", p.ledger(t)["funding USDT"])
				p.chain.undo(7) // all blocks with it
				p.chain.mine(8)
				return func(t *testing.T) {
					inflow(t)
					p.thaw(t)
				}
			}, map[books.FindingKind]string{books.FindingLedgerDiffers: "1000070.000000 USDT, and should have 1000000",
				books.FindingTreasuryFrozen: "below the ledger by 70.000000 USDT"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanted(t)
			kinds, report := p.reconcile(t)
			require.Empty(t, kinds)
			require.True(t, report.Agrees(), "%+v", report.Checks)

			remove := c.plant(t, p)
			for range 2 {
				kinds, _ = p.reconcile(t)
				require.Len(t, kinds, len(c.found), "%v", kinds)
				for kind, says := range c.found {
					require.Contains(t, kinds[kind], says)
				}
			}
			remove(t)
			p.chain.mine(1)
			kinds, report = p.reconcile(t)
			require.Empty(t, kinds)
			require.True(t, report.Agrees(), "%+v", report.Checks)
		})
	}
}
