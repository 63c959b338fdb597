package storage

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Debt is what a merchant owes in a currency.
type Debt struct {
	Currency money.Currency
	Owed     money.Amount
	Since    time.Time // of the oldest part of it
}

// Debts returns what a merchant owes, in the order in which it arose. For most merchants it reads one row.
func (s *PayoutReader) Debts(ctx context.Context, owner checkout.Owner) ([]Debt, error) {
	owes, err := pg.Value[bool](ctx, s.pool, `SELECT $2 = ANY (owes) FROM merchant WHERE id = $1`,
		owner.MerchantID, owner.Mode)
	if err != nil || !owes {
		return nil, pg.Wrap("debts", err)
	}
	all, err := debts(ctx, s.pool, owner)
	if err == nil && len(all) == 0 {
		err = (&Balances{pool: s.pool}).noteBalance(ctx, owner)
	}
	return all, pg.Wrap("debts", err)
}

func debts(ctx context.Context, from pg.Querier, owner checkout.Owner) ([]Debt, error) {
	all, err := balances(ctx, from, owner)
	if err != nil {
		return nil, err
	}
	var owed []Debt
	for _, b := range all {
		if b.Owed == 0 {
			continue
		}
		// The newest debits are the unpaid ones.
		since, err := pg.Value[*time.Time](ctx, from, `
			SELECT min(created_at) FROM (
				SELECT e.created_at, sum(l.amount) OVER (ORDER BY l.entry_id DESC) - l.amount AS newer
				FROM ledger_posting l JOIN ledger_entry e ON e.id = l.entry_id
				WHERE l.holder = $1 AND l.mode = $2 AND l.account = 'merchant:payable' AND l.asset = $3 AND l.amount > 0
					AND e.kind NOT IN ('payout', 'transfer_signed')) debit
			WHERE newer < $4`, owner.MerchantID, owner.Mode, b.Currency, int64(b.Owed))
		if err != nil {
			return nil, err
		}
		d := Debt{Currency: b.Currency, Owed: b.Owed}
		if since != nil {
			d.Since = *since
		}
		owed = append(owed, d)
	}
	slices.SortFunc(owed, func(a, b Debt) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Currency, b.Currency))
	})
	return owed, nil
}

// RecoverDebt deducts what the merchant owes from a payout that is not signed, oldest debt first; a debt in another
// currency at the rates of now. It returns the payout as it is then. When nothing is left, the payout is to fail with
// checkout.PayoutRecovered. A repeat deducts only what is owed by then. A debt in a currency without a rate stays. It
// returns checkout.ErrNotFound.
func (s *Payouts) RecoverDebt(
	ctx context.Context, p checkout.Payout, source checkout.RateSource,
) (checkout.Payout, error) {
	owed, err := s.Debts(ctx, p.Owner)
	if err != nil || len(owed) == 0 {
		return p, err
	}
	var currencies []money.Currency
	for _, d := range owed {
		currencies = append(currencies, d.Currency)
	}
	rates, err := checkout.FiatRates(ctx, source, p.SourceCurrency, currencies)
	if err != nil {
		return p, pg.Wrap("recover debt", err)
	}
	return s.recoverDebt(ctx, p.Ref, rates)
}

// recoverDebt is RecoverDebt with the prices of the debts' currencies in the payout's source currency. A debt that
// arose meanwhile, and has no price, stays.
func (s *Payouts) recoverDebt(
	ctx context.Context, ref checkout.Ref, rates map[money.Currency]*big.Rat,
) (checkout.Payout, error) {
	return pg.InTx(ctx, s.pool, "recover debt", func(tx pgx.Tx) (checkout.Payout, error) {
		percent, err := pg.Value[int64](ctx, tx, `
			SELECT recovery_percent FROM merchant WHERE id = $1 FOR NO KEY UPDATE`, ref.MerchantID)
		if err != nil {
			return checkout.Payout{}, err
		}
		p, err := lockPayout(ctx, tx, ref)
		// Refunds and disputes may take all of it. What an operator released is paid, although the merchant owes it then.
		if err != nil || p.closed() || p.Recorded || p.Net() == 0 || p.RiskReleased {
			return p.Payout, err
		}
		// A debt must not be paid with money that may go back to the customer.
		risky, err := p.atRisk(ctx, tx)
		if err != nil || risky {
			return p.Payout, err
		}
		owed, err := debts(ctx, tx, ref.Owner)
		if err != nil {
			return p.Payout, err
		}
		most := money.Amount(int64(p.Net()) * percent / 100)
		for _, d := range owed {
			rate := rates[d.Currency]
			if d.Currency == p.SourceCurrency {
				rate = big.NewRat(1, 1)
			}
			if rate == nil {
				continue
			}
			before := p.Net()
			if err := p.recoverDebt(ctx, tx, d, rate, most); err != nil {
				return p.Payout, err
			}
			most -= before - p.Net()
		}
		if p.Net() == 0 {
			p.Failure = checkout.PayoutRecovered
			err = p.refuse(ctx, tx, p.Failure)
		}
		return p.Payout, err
	})
}

// recoverDebt deducts a debt, at most the amount most of the payout. A debt in another currency is converted: the
// merchant pays at most a minor unit more than the rate says.
func (p *lockedPayout) recoverDebt(ctx context.Context, tx pgx.Tx, d Debt, rate *big.Rat, most money.Amount) error {
	price := new(big.Rat).Mul(d.Owed.Coins(d.Currency), rate)
	takes, pays := money.CeilAmount(price, p.SourceCurrency), d.Owed
	if takes > most {
		takes = most
		pays = min(d.Owed, money.FloorAmount(new(big.Rat).Quo(most.Coins(p.SourceCurrency), rate), d.Currency))
	}
	if takes <= 0 || pays <= 0 {
		return nil
	}
	if d.Currency != p.SourceCurrency {
		if err := p.convert(ctx, tx, p.SourceCurrency, takes); err != nil {
			return err
		}
		if err := p.convert(ctx, tx, d.Currency, -pays); err != nil {
			return err
		}
	}
	return p.deduct(ctx, tx, checkout.Deduction{
		Type: checkout.DeductionRecovery, Source: string(d.Currency), Amount: takes, Owed: &pays,
	})
}

// convert books one side of a conversion: what the merchant pays, or with an amount below 0 what it gets. Each side is
// an entry, because the list of the merchant's balance has a row for each.
func (p *lockedPayout) convert(ctx context.Context, tx pgx.Tx, currency money.Currency, pays money.Amount) error {
	generation, err := lastGeneration(ctx, tx, entryConvert, p.ID)
	if err != nil {
		return err
	}
	amount := big.NewInt(int64(pays))
	return entry{
		Mode: p.Mode, Kind: entryConvert, Subject: p.ID, Generation: generation + 1, MerchantID: p.MerchantID,
		Postings: []posting{
			{ledgerPayable, p.MerchantID, string(currency), amount},
			{ledgerExchange, "", string(currency), new(big.Int).Neg(amount)},
		},
	}.book(ctx, tx)
}
