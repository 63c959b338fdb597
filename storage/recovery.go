package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/treasury"
)

// ErrNotFrozen: the account may sign at any time, so what the transfers lack cannot be written.
var ErrNotFrozen = errors.New("the treasury account is not frozen")

// Unexplained returns the outflows of the account that no transfer explains.
func (s *Treasury) Unexplained(
	ctx context.Context, accountID string, all []treasury.Outflow,
) (unexplained []treasury.Outflow, err error) {
	return inTreasury(ctx, s, "unexplained outflows", accountID,
		func(tx pgx.Tx, a accountRow) ([]treasury.Outflow, error) { return a.unexplained(ctx, tx, all) })
}

// PayoutsTo returns the payouts of every merchant that an outflow of the account may have paid: in its
// currency, to its destination, without a transfer that stands. A payout counts with each address that it had, and
// with its merchant's present one, which a retry that is lost may have given it. Failed ones count, also when their
// payment is refunded. Only the treasury may call it.
func (s *Treasury) PayoutsTo(ctx context.Context, a TreasuryAccount, o treasury.Outflow) ([]checkout.Payout, error) {
	got, err := pg.Collect[checkout.Payout](ctx, s.pool, `
		SELECT `+payoutColumns+payoutJoin+`
		LEFT JOIN current_payout_address d ON d.merchant_id = p.merchant_id AND d.mode = p.mode AND d.currency = p.currency
		WHERE p.mode = $1 AND `+payoutChain+` = $2 AND p.network = $3 AND p.currency = $4
			AND (lower($5) IN (lower(p.destination), lower(d.address)) OR EXISTS (
				SELECT FROM jsonb_array_elements(p.retried) former WHERE lower(former->>'destination') = lower($5)))
			AND p.status IN ('pending', 'failed')
			AND NOT EXISTS (SELECT FROM transfer_payout x WHERE x.payout_id = p.id AND x.standing)
		ORDER BY p.id`, a.Mode, a.ChainID, a.Network, o.Amount.Currency(), o.Destination)
	return got, pg.Wrap("payouts to an address", err)
}

// UndecidedPayment returns the oldest payment in the outflow's currency that was asked for before the account was
// frozen, or before its last unexplained outflow was booked, and is not decided; "" when there is none. The freeze
// alone may be older than the payment: the backup may be of a frozen account. One that has not begun can begin while
// its session is pending: then the card network says that it has the money already. After a restore the outflow may
// have paid its payout, which is made when the payment is decided again. Only the treasury may call it.
func (s *Treasury) UndecidedPayment(ctx context.Context, a TreasuryAccount, o treasury.Outflow) (id string, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT coalesce(min(t.id), '') FROM transaction t JOIN checkout_session s ON s.id = t.session_id
		WHERE t.mode = $1 AND t.chain_ref = $2 AND s.payout_currency = $3
			AND (t.status = 'processing' OR t.status = 'created' AND s.status = 'pending' AND t.card_token IS NOT NULL)
			AND t.created_at < greatest(coalesce($4, now()),
				(SELECT max(created_at) FROM ledger_entry WHERE kind = $5 AND subject = $6))`,
		a.Mode, a.ChainID, o.Amount.Currency(), a.FrozenAt, entryOutflow, a.ID).Scan(&id)
	return id, pg.Wrap("undecided payments", err)
}

// Recovered is a transaction of the chain that PostgreSQL lacks, with the payouts that it paid.
type Recovered struct {
	AccountID  string
	Outflows   []treasury.Outflow       // that paid the payouts; the first has the cost of the whole transaction
	Version    treasury.TransferVersion // as it was signed, with the fees that the merchants paid
	TransferID string                   // the live transfer that lacks the version; "" when the transfer is lacking
	Payouts    []PricedPayout           // as its outputs, each with its rate; none with a TransferID
}

// RecoverTransfer writes a transfer, or a version of a live one, that the chain has and PostgreSQL lacks: with the
// payouts' amounts, their events, the ledger and the account's next number, in one transaction under the lock of the
// account. The payouts are sent then. The transfer is live: the next round of the treasury confirms it. A booking of
// the outflows to suspense is undone; other outflows of the transaction stay there. done is false when a transfer
// explains them by now. It returns ErrNotFrozen, and checkout.ErrConflict when a payout or the transfer changed.
func (s *Treasury) RecoverTransfer(ctx context.Context, r Recovered, by merchant.AuditEntry) (done bool, err error) {
	doing := "recover the transfer of " + r.Version.TxHash
	return inTreasury(ctx, s, doing, r.AccountID, func(tx pgx.Tx, a accountRow) (done bool, err error) {
		if a.FrozenAt == nil {
			return false, ErrNotFrozen
		}
		unexplained, err := a.unexplained(ctx, tx, r.Outflows)
		if err != nil || len(unexplained) == 0 {
			return false, err
		}
		number := 1
		if r.TransferID == "" {
			r.TransferID = checkout.NewID(checkout.PrefixTransfer)
			err = r.insert(ctx, tx, a)
		} else {
			number, err = r.append(ctx, tx, a)
		}
		if err != nil {
			return false, err
		}
		if err := r.unsuspend(ctx, tx, a, number); err != nil {
			return false, err
		}
		return true, finishRecovered(ctx, tx, r.TransferID, r.Version, r.Payouts, by)
	})
}

// insert stores the transfer as SignTransfer does.
func (r Recovered) insert(ctx context.Context, tx pgx.Tx, a accountRow) error {
	payouts := pairOutputs(r.Payouts, r.Version.Outputs)
	if err := lockMerchants(ctx, tx, merchantsOf(r.Payouts)...); err != nil {
		return err
	}
	for i := range payouts {
		p := &payouts[i]
		var err error
		if p.lockedPayout, err = lockGeneration(ctx, tx, p.priced.Payout); err != nil {
			return err
		}
		if empty := p.Status == checkout.PayoutFailed && p.Net() == 0; p.Standing || p.closed() && !empty {
			return fmt.Errorf("%w: %s does not wait for a transfer", checkout.ErrConflict, p.ID)
		}
		if err := p.revive(ctx, tx, len(p.priced.Deductions)); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{}
	queueTransfer(batch, r.TransferID, a, payouts, r.Version, r.Outflows[0].Height)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if err := bookSigned(ctx, tx, a, payouts, r.TransferID); err != nil {
		return err
	}
	for _, p := range payouts {
		if err := noteBalance(ctx, tx, p.Owner); err != nil {
			return err
		}
	}
	return nil
}

// append stores the version and returns its number. A version that came after a cancellation is not ours.
func (r Recovered) append(ctx context.Context, tx pgx.Tx, a accountRow) (number int, err error) {
	all, err := versions(ctx, tx, `
		WHERE t.id = $1 AND t.account_id = $2 AND t.status = 'live' ORDER BY v.number`, r.TransferID, a.ID)
	if err != nil {
		return 0, err
	}
	same := func(v storedVersion) bool {
		return slices.Equal(v.Slot, r.Version.Slot) &&
			slices.EqualFunc(v.Outputs, r.Version.Outputs, treasury.TransferOutput.Is)
	}
	if len(all) == 0 || slices.ContainsFunc(all, func(v storedVersion) bool { return !same(v) }) {
		return 0, fmt.Errorf("%w: it is no version of %s", checkout.ErrConflict, r.TransferID)
	}
	batch := &pgx.Batch{}
	queueVersion(batch, r.TransferID, len(all)+1, r.Version, a.Now)
	return len(all) + 1, tx.SendBatch(ctx, batch).Close()
}

// unsuspend takes back what BookOutflows booked when it found the outflows.
func (r Recovered) unsuspend(ctx context.Context, tx pgx.Tx, a accountRow, number int) error {
	if r.Outflows[0].Height >= a.NextBlock {
		return nil // it will find them explained
	}
	e := entry{Mode: a.Mode, Kind: entryRecovered, Subject: r.TransferID, Generation: number}
	for _, o := range r.Outflows {
		e.Postings = append(e.Postings,
			inCrypto(ledgerWallet, a.ID, o.Amount), inCrypto(ledgerSuspense, "", o.Amount.Neg()),
			inCrypto(ledgerWallet, a.ID, o.Cost), inCrypto(ledgerSuspense, "", o.Cost.Neg()))
	}
	return e.book(ctx, tx)
}

// finishRecovered ends the payouts of a transfer that paid the version as sent, unless they are. rates has payouts with
// the rates of the payment; the others have theirs.
func finishRecovered(
	ctx context.Context, tx pgx.Tx, transferID string, paid treasury.TransferVersion, rates []PricedPayout,
	by merchant.AuditEntry,
) error {
	payouts, err := payoutsOf(ctx, tx, transferID)
	if err != nil {
		return err
	}
	for i, ref := range payouts {
		by.ID, by.Subject = checkout.NewID(checkout.PrefixAuditEntry), ref.ID
		by.MerchantID, by.Mode = ref.MerchantID, &ref.Mode
		if err := pg.Audit(ctx, tx, by); err != nil {
			return err
		}
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return err
		}
		if p.Status != checkout.PayoutPending {
			continue
		}
		p.Amount, p.Fee, p.TxHash = paid.Outputs[i].Amount, paid.Outputs[i].Fee, paid.TxHash
		if to := paid.Outputs[i].Destination; !strings.EqualFold(p.Destination, to) { // paid in another generation
			p.Destination = to
		}
		if len(rates) > 0 {
			p.ExchangeRate = rates[i].ExchangeRate
		}
		err = p.set(ctx, tx, `amount = $4, fee = $5, exchange_rate = $6, destination = $7`,
			p.Amount, p.Fee, p.ExchangeRate, p.Destination)
		if err != nil {
			return err
		}
		if _, err := p.decidePayout(ctx, tx, ""); err != nil {
			return err
		}
	}
	return nil
}
