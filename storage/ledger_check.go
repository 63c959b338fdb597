package storage

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// LedgerCheck compares a sum of the ledger with what it should be. All amounts are decimals in Asset.
type LedgerCheck struct {
	What       string // such as "wallet tre_…"
	Asset      string
	Ledger     string
	Expected   string // "" when it is not known yet
	UnderWay   string // by how much the two may differ, because of transfers that are not final
	Difference string // what the ledger has too much; "0" when it agrees
}

// Agrees reports whether the ledger is as it should be. It is so while nothing to compare with is known.
func (c LedgerCheck) Agrees() bool { return c.Difference == "0" }

// ReconcileLedger opens a finding for each sum of the ledger that differs and for each frozen account that is not
// retired, and closes those whose cause is gone. It returns the new ones.
func (s *Books) ReconcileLedger(ctx context.Context, mode checkout.Mode) (fresh []books.Finding, err error) {
	type byKind = map[books.FindingKind][]books.Finding
	found, err := pg.InSnapshot(ctx, s.pool, "check ledger", func(tx pgx.Tx) (byKind, error) {
		found := byKind{}
		checks, err := checkLedger(ctx, tx, mode)
		if err != nil {
			return nil, err
		}
		for _, c := range checks {
			if !c.Agrees() {
				found[books.FindingLedgerDiffers] = append(found[books.FindingLedgerDiffers], c.finding())
			}
		}
		found[books.FindingTreasuryFrozen], err = pg.Collect[books.Finding](ctx, tx, `
			SELECT '' AS id, mode, '' AS kind, id AS subject, frozen_why AS detail, frozen_at AS opened_at, NULL AS closed_at
			FROM treasury_account WHERE mode = $1 AND frozen_at IS NOT NULL AND retired_at IS NULL ORDER BY id`, mode)
		return found, err
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range []books.FindingKind{books.FindingLedgerDiffers, books.FindingTreasuryFrozen} {
		more, err := pg.InTx(ctx, s.pool, "keep findings", func(tx pgx.Tx) ([]books.Finding, error) {
			return keepFindings(ctx, tx, mode, kind, found[kind])
		})
		if err != nil {
			return fresh, err
		}
		fresh = append(fresh, more...)
	}
	return fresh, nil
}

func (c LedgerCheck) finding() books.Finding {
	return books.Finding{Subject: c.What + " " + c.Asset, Detail: fmt.Sprintf(
		"The ledger has %s %s, and should have %s %s.", c.Ledger, c.Asset, c.Expected, c.Asset)}
}

// checkLedger makes the three comparisons: the ledger adds up to 0, the wallets have what the chain
// showed last, and the acquirer owes what it has not booked yet.
func checkLedger(ctx context.Context, tx pgx.Tx, mode checkout.Mode) ([]LedgerCheck, error) {
	var all []LedgerCheck
	type comparison func(context.Context, pgx.Tx, checkout.Mode) ([]LedgerCheck, error)
	for _, check := range []comparison{checkSums, checkWallets, checkReceivable} {
		found, err := check(ctx, tx, mode)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// compared is a row with two sums in smallest units.
type compared struct {
	Asset    string
	Ledger   whole
	Expected whole
}

// ledgerCheck compares two sums that may be underWay apart.
func ledgerCheck(what, asset string, ledger, expected, underWay *big.Int) LedgerCheck {
	c := LedgerCheck{
		What: what, Asset: asset, Ledger: inAsset(asset, ledger), Expected: inAsset(asset, expected),
		UnderWay: inAsset(asset, underWay), Difference: "0",
	}
	if more := new(big.Int).Sub(ledger, expected); more.CmpAbs(underWay) > 0 {
		c.Difference = inAsset(asset, more)
	}
	return c
}

// inAsset writes a number of smallest units as a decimal.
func inAsset(asset string, units *big.Int) string {
	places := money.USD.Places() // all fiat currencies that we charge have the same
	if c := money.PayoutCurrency(asset); c.Valid() {
		places = c.Places()
	}
	return money.FormatUnits(units, places)
}

// compare runs a query of two sums and compares them, row by row.
func compare(ctx context.Context, tx pgx.Tx, what, query string, args ...any) (checks []LedgerCheck, err error) {
	rows, err := pg.Collect[compared](ctx, tx, query, args...)
	for _, r := range rows {
		checks = append(checks, ledgerCheck(what, r.Asset, &r.Ledger.Int, &r.Expected.Int, new(big.Int)))
	}
	return checks, err
}

func checkSums(ctx context.Context, tx pgx.Tx, mode checkout.Mode) ([]LedgerCheck, error) {
	return compare(ctx, tx, "sum of all accounts", `
		SELECT asset, sum(amount)::text AS ledger, '0' AS expected FROM ledger_posting
		WHERE mode = $1 GROUP BY 1 ORDER BY 1`, mode)
}

// checkReceivable compares what the acquirer owes by the ledger with the charges that it has not booked, less what
// it gave back to cards, for us or for others, or holds because of disputes.
func checkReceivable(ctx context.Context, tx pgx.Tx, mode checkout.Mode) ([]LedgerCheck, error) {
	return compare(ctx, tx, ledgerReceivable, `
		WITH paid AS (SELECT t.id, t.mode, t.settled, s.amount, s.currency FROM transaction t
			JOIN checkout_session s ON s.id = t.session_id WHERE t.mode = $1 AND t.status = 'succeeded'
				AND (t.acquirer <> 'sandbox' OR t.chain_ref <> 'sandbox')),
		moved AS (
			SELECT asset, amount AS ledger, 0 AS expected FROM ledger_posting
			WHERE mode = $1 AND account = $2
			UNION ALL
			SELECT currency, 0, amount FROM paid WHERE settled IS NULL
			UNION ALL
			SELECT p.currency, 0, -coalesce(r.amount, p.amount) FROM refund r
				JOIN paid p ON p.id = r.transaction_id AND p.mode = r.mode
			WHERE `+refundStands+`
			UNION ALL
			SELECT r.currency, 0, -r.amount FROM charge_risk r JOIN paid p ON p.id = r.transaction_id AND p.mode = r.mode
			WHERE r.kind <> 'fraud_warning' AND r.status IN ('open', 'lost'))
		SELECT asset, sum(ledger)::text AS ledger, sum(expected)::text AS expected FROM moved GROUP BY 1 ORDER BY 1`,
		mode, ledgerReceivable)
}

// seenWallet is an account of the treasury with the balances that the chain showed last.
type seenWallet struct {
	ID           string
	Network      string
	ChainID      string
	Age          time.Duration
	SeenHeight   uint64
	SeenBalances money.Purse // nil before the first comparison
}

func checkWallets(ctx context.Context, tx pgx.Tx, mode checkout.Mode) ([]LedgerCheck, error) {
	wallets, err := pg.Collect[seenWallet](ctx, tx, `
		SELECT id, network, chain_id, now() - created_at AS age, seen_height, seen_balances
		FROM treasury_account WHERE mode = $1 ORDER BY id`, mode)
	if err != nil {
		return nil, err
	}
	var all []LedgerCheck
	for _, w := range wallets {
		checks, err := w.check(ctx, tx, mode)
		if err != nil {
			return nil, err
		}
		all = append(all, checks...)
	}
	return all, nil
}

func (w seenWallet) check(ctx context.Context, tx pgx.Tx, mode checkout.Mode) (checks []LedgerCheck, err error) {
	booked, err := walletBalances(ctx, tx, mode, w.ID)
	if err != nil {
		return nil, err
	}
	account := accountRow{ID: w.ID, Network: w.Network}
	live, err := account.live(ctx, tx, w.SeenHeight)
	if err != nil {
		return nil, err
	}
	for _, currency := range money.PayoutCurrencies {
		seen, ledger := w.SeenBalances[currency], booked[currency].Units()
		if !seen.Known() && ledger.Sign() == 0 {
			continue
		}
		what, asset := ledgerWallet+" "+w.ID, string(currency)
		if !seen.Known() {
			checks = append(checks, LedgerCheck{What: what, Asset: asset, Ledger: inAsset(asset, ledger), Difference: "0"})
			continue
		}
		checks = append(checks, ledgerCheck(what, asset, ledger, seen.Units(), live[currency].Units()))
	}
	return checks, nil
}
