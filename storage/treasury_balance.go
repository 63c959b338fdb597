package storage

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// BalanceCheck is the result of a comparison of an account's balances with the ledger.
type BalanceCheck struct {
	Inflows map[money.PayoutCurrency]string // booked: what the account has above the ledger, smallest units
	Short   map[money.PayoutCurrency]string // what it lacks even if all live transfers were paid
	Frozen  string                          // why this call froze the account; "" when it did not
}

// CompareBalances compares the balances of an account with the ledger. What is above it at the final block is booked as
// a top-up: a reorganization may undo what came later. What is below it, by more than the live transfers may take,
// freezes the account: at once when it is missing at the final block, and when it is missing at the latest block and
// still at a later one. Balances that are older than what the ledger knows say nothing, and the result is empty.
func (s *Treasury) CompareBalances(
	ctx context.Context, accountID string, now treasury.AccountSnapshot,
) (BalanceCheck, error) {
	return inTreasury(ctx, s, "compare balances", accountID, func(tx pgx.Tx, a accountRow) (got BalanceCheck, err error) {
		latest, err := a.atLatest(ctx, tx, now)
		if err != nil {
			return got, err
		}
		final, err := a.atFinal(ctx, tx, now)
		if err != nil {
			return got, err
		}
		got.Inflows, got.Short = inWords(final.above), inWords(final.short)
		maps.Copy(got.Short, inWords(latest.short))
		if err := a.bookDifference(ctx, tx, entryInflow, ledgerFunding, final.above, 1); err != nil {
			return got, err
		}
		got.Frozen, err = a.recordShortage(ctx, tx, now, latest, final)
		return got, err
	})
}

// comparison is by how much balances differ from the ledger. Its amounts are positive.
type comparison struct {
	known bool        // the balances are not older than what the ledger knows
	above money.Purse // more than the ledger has
	short money.Purse // less than the ledger has when every live transfer is paid
}

// atLatest compares the balances of the latest block.
func (a *accountRow) atLatest(ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot) (comparison, error) {
	known, err := pg.Value[bool](ctx, tx, `
		SELECT $2 >= greatest($3, coalesce(max(proved), 0)) FROM transfer WHERE account_id = $1 AND proved IS NOT NULL`,
		a.ID, now.Height, a.SeenHeight)
	if err != nil || !known {
		return comparison{}, err
	}
	live, err := a.live(ctx, tx, now.Height)
	if err != nil {
		return comparison{}, err
	}
	return a.compare(ctx, tx, now.Balances, live)
}

// atFinal compares the balances of the last final block. Of the live transfers, those whose slot is
// used up may have taken something there, and no other.
func (a *accountRow) atFinal(ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot) (comparison, error) {
	known, err := a.knowsFinal(ctx, tx, now)
	if err != nil || !known {
		return comparison{}, err
	}
	usedUp, err := a.usedUp(ctx, tx, now)
	if err != nil {
		return comparison{}, err
	}
	live, err := a.mayTake(ctx, tx, `id = ANY ($2)`, usedUp)
	if err != nil {
		return comparison{}, err
	}
	return a.compare(ctx, tx, now.FinalBalances, live)
}

// knowsFinal reports whether the ledger has nothing of the account that is later than the final block.
func (a *accountRow) knowsFinal(ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot) (known bool, err error) {
	newest, err := a.newestBlock(ctx, tx, now)
	return err == nil && newest <= now.FinalHeight, err
}

// compare compares balances with the ledger. live is what the live transfers may have taken.
func (a *accountRow) compare(ctx context.Context, tx pgx.Tx, balances, live money.Purse) (comparison, error) {
	got := comparison{true, money.Purse{}, money.Purse{}}
	booked, err := walletBalances(ctx, tx, a.Mode, a.ID)
	if err != nil {
		return got, err
	}
	for currency, has := range balances {
		more := has.Sub(booked[currency])
		if more.Sign() > 0 {
			got.above[currency] = more
		}
		if less := more.Add(live[currency]).Neg(); less.Sign() > 0 {
			got.short[currency] = less
		}
	}
	return got, nil
}

func inWords(amounts money.Purse) map[money.PayoutCurrency]string {
	words := map[money.PayoutCurrency]string{}
	for currency, amount := range amounts {
		words[currency] = amount.Units().String()
	}
	return words
}

// bookDifference books amounts of the wallet against another account. sign is 1 for more in the
// wallet, and -1 for less.
func (a *accountRow) bookDifference(
	ctx context.Context, tx pgx.Tx, kind, against string, amounts money.Purse, sign int,
) error {
	if len(amounts) == 0 {
		return nil
	}
	generation, err := pg.Value[int](ctx, tx, `
		SELECT coalesce(max(generation), 0) + 1 FROM ledger_entry WHERE kind = $1 AND subject = $2`, kind, a.ID)
	if err != nil {
		return err
	}
	e := entry{Mode: a.Mode, Kind: kind, Subject: a.ID, Generation: generation}
	for _, change := range amounts {
		if sign < 0 {
			change = change.Neg()
		}
		e.Postings = append(e.Postings, inCrypto(ledgerWallet, a.ID, change), inCrypto(against, "", change.Neg()))
	}
	return e.book(ctx, tx)
}

// recordShortage remembers the balances that were compared and the height of a first shortage. It freezes the
// account when something is missing for good.
func (a *accountRow) recordShortage(
	ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot, latest, final comparison,
) (why string, err error) {
	missing := final.short
	if a.ShortHeight != nil && now.Height > *a.ShortHeight && len(missing) == 0 {
		missing = latest.short
	}
	if len(missing) > 0 && a.FrozenAt == nil {
		why = "the balance is below the ledger by " + sentence(missing)
		if err := a.freeze(ctx, tx, why); err != nil {
			return "", err
		}
	}
	if latest.known && len(latest.short) == 0 {
		a.ShortHeight = nil
	} else if latest.known && a.ShortHeight == nil {
		a.ShortHeight = &now.Height
	}
	_, err = tx.Exec(ctx, `
		UPDATE treasury_account SET short_height = $2,
			seen_height = CASE WHEN $3 THEN $4 ELSE seen_height END,
			seen_balances = CASE WHEN $3 THEN $5 ELSE seen_balances END
		WHERE id = $1`, a.ID, a.ShortHeight, final.known, now.FinalHeight, now.FinalBalances)
	return why, err
}

// sentence names amounts for a person, such as "1.500000 USDC and 0.000200000000000000 ETH".
func sentence(amounts money.Purse) string {
	var words []string
	for _, amount := range amounts {
		words = append(words, amount.Named())
	}
	slices.Sort(words)
	return strings.Join(words, " and ")
}

// BookOutflows compares the outflows of an account, from its next block on, with its transfers. An
// outflow that no transfer explains is booked to suspense and freezes the account. It returns the
// reason, "" when there is none. It does nothing when another process has booked these blocks.
func (s *Treasury) BookOutflows(
	ctx context.Context, accountID string, from uint64, out treasury.Outflows,
) (why string, err error) {
	return inTreasury(ctx, s, "book outflows", accountID, func(tx pgx.Tx, a accountRow) (why string, err error) {
		if a.NextBlock != from || out.Next <= from {
			return why, nil
		}
		unexplained, err := a.unexplained(ctx, tx, out.All)
		if err != nil {
			return why, err
		}
		var taken []money.Crypto
		for _, o := range unexplained {
			taken = append(taken, o.Amount, o.Cost)
		}
		if len(unexplained) > 0 {
			why = "no transfer explains " + unexplained[0].Name()
			if err := a.freeze(ctx, tx, why); err != nil {
				return why, err
			}
		}
		if err := a.bookDifference(ctx, tx, entryOutflow, ledgerSuspense, money.PurseOf(taken...), -1); err != nil {
			return why, err
		}
		_, err = tx.Exec(ctx, `UPDATE treasury_account SET next_block = $2 WHERE id = $1`, a.ID, out.Next)
		return why, err
	})
}

// unexplained returns the outflows that are not the payment of a transfer. all has every outflow of a transaction or
// none of it: an output of a transfer explains one. An outflow keeps its cost unless the end of a transfer books it.
func (a *accountRow) unexplained(ctx context.Context, tx pgx.Tx, all []treasury.Outflow) ([]treasury.Outflow, error) {
	hashes := make([]string, len(all))
	for i, o := range all {
		hashes[i] = o.TxHash
	}
	versions, err := pg.Collect[knownVersion](ctx, tx, `
		SELECT v.tx_hash, x.destination, x.amount || ' ' || x.currency AS amount, v.cancels, t.status
		FROM transfer_version v JOIN transfer t ON t.id = v.transfer_id JOIN transfer_payout x ON x.transfer_id = t.id
		WHERE t.account_id = $1 AND v.tx_hash = ANY ($2)`, a.ID, hashes)
	known, booked := map[string][]knownVersion{}, map[string]bool{}
	for _, v := range versions {
		known[v.TxHash] = append(known[v.TxHash], v)
		booked[v.TxHash] = v.pays()
	}
	var unexplained []treasury.Outflow
	for _, o := range all {
		left := known[o.TxHash]
		i := slices.IndexFunc(left, func(v knownVersion) bool { return v.explains(o) })
		switch {
		case i >= 0 && o.Moved():
			known[o.TxHash] = slices.Delete(left, i, i+1)
		case i < 0:
			if booked[o.TxHash] {
				o.Cost = money.Crypto{}
			}
			unexplained = append(unexplained, o)
		}
	}
	return unexplained, err
}

// knownVersion is what a signed version of ours pays to one payout.
type knownVersion struct {
	TxHash      string
	Destination string
	Amount      money.Crypto
	Cancels     bool
	Status      treasury.TransferState
}

// pays reports whether the chain has the version as a payment.
func (v knownVersion) pays() bool {
	return !v.Cancels && (v.Status == TransferLive || v.Status == treasury.TransferStateConfirmed)
}

// explains reports whether the outflow is the payment of the version. A transaction of ours that
// moved nothing took only its fee.
func (v knownVersion) explains(o treasury.Outflow) bool {
	return !o.Moved() || v.pays() && v.Amount.Is(o.Amount) && strings.EqualFold(v.Destination, o.Destination)
}
