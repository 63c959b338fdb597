package storage

import (
	"context"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Float is what the treasury has of a currency, and what will leave it. It belongs to no merchant.
type Float struct {
	AccountID string
	Balance   money.Crypto // at the final block that was seen last
	Live      money.Crypto // what transfers that are not final may take
	Pending   money.Crypto // what payouts without a transfer need, before the network's fee
	days      *big.Rat     // how long the rest lasts
}

// Days returns how many days the rest lasts when as much leaves a day as in the last 7 days: nil when nothing left.
func (f Float) Days() *big.Rat { return f.days }

// DaysLeft is Days in words, "–" when nothing left.
func (f Float) DaysLeft() string {
	if f.days == nil {
		return "–"
	}
	return f.days.FloatString(1)
}

// Floats returns the float of each currency, of the accounts that are in use. Only operators may call it.
func (s *Treasury) Floats(ctx context.Context, mode checkout.Mode) ([]Float, error) {
	return pg.InSnapshot(ctx, s.pool, "floats", func(tx pgx.Tx) ([]Float, error) { return floats(ctx, tx, mode) })
}

// floats reads the account of each network that was compared last.
func floats(ctx context.Context, tx pgx.Tx, mode checkout.Mode) (all []Float, err error) {
	wallets, err := pg.Collect[seenWallet](ctx, tx, `
		SELECT DISTINCT ON (network) id, network, chain_id, now() - created_at AS age, seen_height, seen_balances
		FROM treasury_account WHERE mode = $1 ORDER BY network, coalesce(compared_at, created_at) DESC, id DESC`, mode)
	for _, w := range wallets {
		of, err := w.floats(ctx, tx, mode)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, err
}

func (w seenWallet) floats(ctx context.Context, tx pgx.Tx, mode checkout.Mode) (all []Float, err error) {
	account := accountRow{ID: w.ID, Network: w.Network}
	live, err := account.live(ctx, tx, w.SeenHeight)
	if err != nil {
		return nil, err
	}
	pending, err := w.pending(ctx, tx, mode)
	if err != nil {
		return nil, err
	}
	left, err := w.left(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, currency := range money.PayoutCurrencies {
		if has := w.SeenBalances[currency]; has.Known() {
			none := money.NewCrypto(new(big.Int), currency)
			f := Float{AccountID: w.ID, Balance: has, Live: none.Add(live[currency]), Pending: none.Add(pending[currency])}
			f.days = daysLeft(has.Sub(f.Live).Sub(f.Pending), left[currency], w.Age)
			all = append(all, f)
		}
	}
	return all, nil
}

// outflowDays is how far back the average of a day looks.
const outflowDays = 7

// pending adds up what the payouts need that have no transfer.
func (w seenWallet) pending(ctx context.Context, tx pgx.Tx, mode checkout.Mode) (money.Purse, error) {
	type row struct {
		Currency       money.PayoutCurrency
		SourceCurrency money.Currency
		Sum            string // smallest units of SourceCurrency, at the payouts' rates
	}
	rows, err := pg.Collect[row](ctx, tx, `
		SELECT p.currency, p.source_currency,
			sum((p.source_amount - p.deducted) * nullif(p.exchange_rate, '')::numeric)::text AS sum
		FROM payout p LEFT JOIN transaction t ON t.id = p.transaction_id
		WHERE p.mode = $1 AND p.status = 'pending' AND p.failure = '' AND p.network = $2 AND `+payoutChain+` = $3
			AND NOT EXISTS (SELECT FROM transfer_payout x WHERE x.payout_id = p.id AND x.standing)
		GROUP BY 1, 2`, mode, w.Network, w.ChainID)
	var all []money.Crypto
	for _, r := range rows {
		if sum, ok := new(big.Rat).SetString(r.Sum); ok {
			all = append(all, money.CeilCrypto(sum.Mul(sum, money.Amount(1).Coins(r.SourceCurrency)), r.Currency))
		}
	}
	return money.PurseOf(all...), err
}

// left adds up what the transfers of the last days paid, and what the network took for them.
func (w seenWallet) left(ctx context.Context, tx pgx.Tx) (money.Purse, error) {
	return purse(ctx, tx, `
		WITH recent AS (
			SELECT id, cost FROM transfer WHERE account_id = $1 AND created_at > now() - make_interval(days => $2))
		SELECT sum(x.amount) || ' ' || x.currency FROM recent JOIN transfer_payout x ON x.transfer_id = recent.id
		WHERE x.standing GROUP BY x.currency
		UNION ALL
		SELECT sum(cost) || ' ' || $3::text FROM recent HAVING sum(cost) IS NOT NULL`,
		w.ID, outflowDays, money.NetworkCurrency(w.Network))
}

// daysLeft divides what is left by what leaves a day. An account that is younger than the days that count has fewer.
func daysLeft(rest, left money.Crypto, age time.Duration) *big.Rat {
	const day = 24 * time.Hour
	if left.Sign() <= 0 {
		return nil
	}
	if rest.Sign() < 0 {
		return new(big.Rat)
	}
	days := big.NewRat(int64(min(max(age, day), outflowDays*day)), int64(day))
	return days.Mul(days, new(big.Rat).SetFrac(rest.Units(), left.Units()))
}
