package storage

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// BalanceCheck is the result of a comparison of an account's balances with the ledger.
type BalanceCheck struct {
	Inflows map[checkout.PayoutCurrency]string // booked: what the account has above the ledger, smallest units
	Short   map[checkout.PayoutCurrency]string // what it lacks even if all live transfers were paid
	Frozen  string                             // why this call froze the account; "" when it did not
}

// CompareBalances compares the balances of an account with the ledger. What is above it is booked as
// a top-up. What is below it, by more than the live transfers may take, freezes the account when it
// is still missing at a later height. Balances that are older than those compared last, or than the
// proof of a transfer's end, say nothing, and the result is empty.
func (s *Store) CompareBalances(
	ctx context.Context, accountID string, now checkout.AccountStanding,
) (BalanceCheck, error) {
	var got BalanceCheck
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		a, err := lockTreasury(ctx, tx, accountID)
		if err != nil {
			return err
		}
		newer, err := a.isNew(ctx, tx, now.Height)
		if err != nil || !newer {
			return err
		}
		above, short, err := a.differences(ctx, tx, now)
		if err != nil {
			return err
		}
		got.Inflows, got.Short = inWords(above), inWords(short)
		if err := a.bookDifference(ctx, tx, entryInflow, accountFunding, above, 1); err != nil {
			return err
		}
		got.Frozen, err = a.noteShortage(ctx, tx, now, got.Short)
		return err
	})
	if err != nil {
		return BalanceCheck{}, fmt.Errorf("compare balances: %w", err)
	}
	return got, nil
}

// isNew reports whether balances of this height are news: every transfer that has ended is in them.
func (a *treasury) isNew(ctx context.Context, tx pgx.Tx, height uint64) (bool, error) {
	var proved uint64
	err := tx.QueryRow(ctx, `
		SELECT coalesce(max(proved), 0) FROM transfer WHERE account_id = $1 AND proved IS NOT NULL`, a.ID).Scan(&proved)
	return height >= a.SeenHeight && height >= proved, err
}

// differences returns by how much the balances are above the ledger, and by how much they are below
// the ledger less what the live transfers may take. Each has only positive amounts.
func (a *treasury) differences(
	ctx context.Context, tx pgx.Tx, now checkout.AccountStanding,
) (above, short map[checkout.PayoutCurrency]*big.Int, err error) {
	has, err := balances(now)
	if err != nil {
		return nil, nil, err
	}
	booked, err := walletBalances(ctx, tx, a.Mode, a.ID)
	if err != nil {
		return nil, nil, err
	}
	live, err := a.live(ctx, tx, now.Height)
	if err != nil {
		return nil, nil, err
	}
	above, short = map[checkout.PayoutCurrency]*big.Int{}, map[checkout.PayoutCurrency]*big.Int{}
	for currency, units := range has {
		for _, m := range []map[checkout.PayoutCurrency]*big.Int{booked, live} {
			if m[currency] == nil {
				m[currency] = new(big.Int)
			}
		}
		more := new(big.Int).Sub(units, booked[currency])
		if more.Sign() > 0 {
			above[currency] = more
		}
		if less := new(big.Int).Neg(new(big.Int).Add(more, live[currency])); less.Sign() > 0 {
			short[currency] = less
		}
	}
	return above, short, nil
}

func inWords(amounts map[checkout.PayoutCurrency]*big.Int) map[checkout.PayoutCurrency]string {
	words := map[checkout.PayoutCurrency]string{}
	for currency, units := range amounts {
		words[currency] = units.String()
	}
	return words
}

// bookDifference books amounts of the wallet against another account. sign is 1 for more in the
// wallet, and -1 for less.
func (a *treasury) bookDifference(
	ctx context.Context, tx pgx.Tx, kind, against string, amounts map[checkout.PayoutCurrency]*big.Int, sign int64,
) error {
	if len(amounts) == 0 {
		return nil
	}
	var generation int
	err := tx.QueryRow(ctx, `
		SELECT coalesce(max(generation), 0) + 1 FROM ledger_entry WHERE kind = $1 AND subject = $2`,
		kind, a.ID).Scan(&generation)
	if err != nil {
		return err
	}
	e := entry{Mode: a.Mode, Kind: kind, Subject: a.ID, Generation: generation}
	for currency, units := range amounts {
		change := new(big.Int).Mul(units, big.NewInt(sign))
		e.Postings = append(e.Postings, posting{accountWallet, a.ID, string(currency), change},
			posting{against, "", string(currency), new(big.Int).Neg(change)})
	}
	return e.book(ctx, tx)
}

// noteShortage remembers the balances and the height of a first shortage, and freezes the account at a
// later one.
func (a *treasury) noteShortage(
	ctx context.Context, tx pgx.Tx, now checkout.AccountStanding, short map[checkout.PayoutCurrency]string,
) (why string, err error) {
	first, height := a.ShortHeight, now.Height
	switch {
	case len(short) == 0:
		first = nil
	case first == nil:
		first = &height
	case height > *first && !a.Frozen:
		var missing []string
		for currency, units := range short {
			missing = append(missing, fmt.Sprintf("%s of the smallest unit of %s", units, currency))
		}
		slices.Sort(missing)
		why = "the balance is below the ledger by " + strings.Join(missing, " and ")
		if err := a.freeze(ctx, tx, why); err != nil {
			return "", err
		}
	}
	_, err = tx.Exec(ctx, `
		UPDATE treasury_account SET seen_height = $2, short_height = $3, seen_balances = $4
		WHERE id = $1`, a.ID, height, first, now.Balances)
	return why, err
}

// acceptShortage books what the balances are short of.
func (a *treasury) acceptShortage(ctx context.Context, tx pgx.Tx, now checkout.AccountStanding) error {
	newer, err := a.isNew(ctx, tx, now.Height)
	if err != nil || !newer {
		return err
	}
	_, short, err := a.differences(ctx, tx, now)
	if err != nil {
		return err
	}
	return a.bookDifference(ctx, tx, entryShortage, accountSuspense, short, -1)
}

// NoteOutflows compares the outflows of an account, from its next block on, with its transfers. An
// outflow that no transfer explains is booked to suspense and freezes the account. It returns the
// reason, "" when there is none. It does nothing when another process has noted these blocks.
func (s *Store) NoteOutflows(
	ctx context.Context, accountID string, from uint64, out checkout.Outflows,
) (why string, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		a, err := lockTreasury(ctx, tx, accountID)
		if err != nil || a.NextBlock != from || out.Next <= from {
			return err
		}
		strange, err := a.unexplained(ctx, tx, out.All)
		if err != nil {
			return err
		}
		total := map[checkout.PayoutCurrency]*big.Int{}
		for _, o := range strange {
			// What has no amount freezes the account all the same, and the balances show it.
			_ = add(total, o.Currency, o.Amount)
		}
		if len(strange) > 0 {
			why = fmt.Sprintf("no transfer explains the transaction %s of nonce %d", strange[0].TxHash, strange[0].Nonce)
			if err := a.freezeBehind(ctx, tx, why); err != nil {
				return err
			}
		}
		if err := a.bookDifference(ctx, tx, entryOutflow, accountSuspense, total, -1); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE treasury_account SET next_block = $2 WHERE id = $1`, a.ID, out.Next)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("note outflows: %w", err)
	}
	return why, nil
}

// unexplained returns the outflows that are not the payment of a transfer.
func (a *treasury) unexplained(
	ctx context.Context, tx pgx.Tx, all []checkout.Outflow,
) ([]checkout.Outflow, error) {
	hashes := make([]string, len(all))
	for i, o := range all {
		hashes[i] = o.TxHash
	}
	rows, err := tx.Query(ctx, `
		SELECT v.tx_hash, v.currency, v.destination, v.amount::text AS amount, t.status
		FROM transfer_version v JOIN transfer t ON t.id = v.transfer_id
		WHERE t.account_id = $1 AND v.tx_hash = ANY ($2)`, a.ID, hashes)
	if err != nil {
		return nil, err
	}
	known := map[string]knownVersion{}
	versions, err := pgx.CollectRows(rows, pgx.RowToStructByName[knownVersion])
	for _, v := range versions {
		known[v.TxHash] = v
	}
	var strange []checkout.Outflow
	for _, o := range all {
		if v, there := known[o.TxHash]; !there || !v.explains(o) {
			strange = append(strange, o)
		}
	}
	return strange, err
}

// knownVersion is what a signed version of ours pays.
type knownVersion struct {
	TxHash      string
	Currency    checkout.PayoutCurrency
	Destination string
	Amount      string
	Status      TransferStatus
}

// explains reports whether the outflow is the payment of the version. A transaction of ours that
// moved nothing took only its fee.
func (v knownVersion) explains(o checkout.Outflow) bool {
	paid, err := o.Currency.Units(o.Amount)
	if err != nil {
		return false
	}
	if paid.Sign() == 0 {
		return true
	}
	planned, err := v.Currency.Units(v.Amount)
	return err == nil && (v.Status == TransferLive || v.Status == TransferConfirmed) && v.Currency == o.Currency &&
		strings.EqualFold(v.Destination, o.Destination) && paid.Cmp(planned) == 0
}
