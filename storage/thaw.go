package storage

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// ThawOrder asks for signatures after a freeze. A person explains the missing money.
type ThawOrder struct {
	AccountID string
	Retire    bool                     // leave it frozen, and let the other accounts of its chain sign
	Now       treasury.AccountSnapshot // of a moment at which every payment that the chain shows is booked
	Paid      []string                 // payouts that the missing money paid
	Losses    money.Purse              // what is missing besides them, and paid nobody
	Foreign   treasury.Slot            // units that transactions of nobody used
	Burnt     []BurntGas               // of transfers that paid nothing and may not have ended
	By        merchant.AuditEntry      // of each payout in Paid; without its id, subject and merchant
}

// ShortageError names what an account lacks without an explanation.
type ShortageError struct {
	Missing  string        // such as "1.500000 USDC"
	Payments []LostPayment // what may have taken it
}

func (e ShortageError) Error() string {
	return "the chain has " + e.Missing + " less than the ledger says"
}

// ClaimError is why Paid or Losses of an order do not fit the missing money. It is a checkout.ErrConflict.
type ClaimError string

func (e ClaimError) Error() string { return string(e) }

// Is implements the interface of errors.Is.
func (ClaimError) Is(target error) bool { return target == checkout.ErrConflict }

// LostPayment is a signed transfer that the chain does not show, and whose amount is missing.
type LostPayment struct {
	PayoutID    string
	Status      checkout.PayoutStatus
	TransferID  string
	Amount      money.Crypto
	Destination string
}

// Thaw lets an account sign again. A person must have explained what froze it. Numbers that somebody
// else used are skipped. A payout that was paid by missing money is sent, with its event and its booking, and its
// transfer is confirmed: it can be neither retried nor refunded. A loss is booked to suspense.
//
// It returns a ShortageError while something is missing that the order does not name, or when less is missing,
// checkout.ErrNotFound, a ClaimError when a payout cannot have been paid like this, and a NotFinalError or
// ErrBehind when the ledger knows more than the final block of the order. A failed payout whose payment an operator
// refunded is checkout.ErrPaymentRefunded. It returns ErrOtherAccount unless every other account of the chain
// is retired. An order to retire the account asks for no other one, and returns ErrNotFrozen.
func (s *Treasury) Thaw(ctx context.Context, o ThawOrder) error {
	return runInTreasury(ctx, s, "thaw", o.AccountID, func(tx pgx.Tx, a accountRow) error {
		if err := a.mayThaw(ctx, tx, o.Retire); err != nil {
			return err
		}
		if err := a.explainShortage(ctx, tx, o); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			UPDATE treasury_account SET short_height = NULL,
				frozen_at = CASE WHEN $4 THEN frozen_at END, frozen_why = CASE WHEN $4 THEN frozen_why ELSE '' END,
				unexplained_block = CASE WHEN $4 THEN next_block END, retired_at = CASE WHEN $4 THEN clock_timestamp() END,
				next_nonce = greatest(next_nonce, $2), accepted_units = accepted_units || $3
			WHERE id = $1`, o.AccountID, o.Now.Next, append(treasury.Slot{}, o.Foreign...), o.Retire)
		return err
	})
}

// mayThaw returns ErrOtherAccount, and for a retirement ErrNotFrozen.
func (a *accountRow) mayThaw(ctx context.Context, tx pgx.Tx, retire bool) error {
	switch {
	case !retire:
		return a.requireOthersRetired(ctx, tx)
	case a.FrozenAt == nil:
		return ErrNotFrozen
	}
	return nil
}

// RetireByHand retires a frozen account whose chain cannot be asked any longer. Nothing is compared: a person says that
// no payment without a transfer paid a payout, and why is added to the reason of its freeze. A round that still follows
// the account may freeze it again. It returns checkout.ErrNotFound, and ErrNotFrozen.
func (s *Treasury) RetireByHand(ctx context.Context, accountID, why string) error {
	return runInTreasury(ctx, s, "retire by hand", accountID, func(tx pgx.Tx, a accountRow) error {
		if a.FrozenAt == nil {
			return ErrNotFrozen
		}
		_, err := tx.Exec(ctx, `
			UPDATE treasury_account SET retired_at = clock_timestamp(), frozen_why = frozen_why || '; retired by hand: ' || $2
			WHERE id = $1`, accountID, why)
		return err
	})
}

// explainShortage books what is missing at the final block as the order says.
func (a *accountRow) explainShortage(ctx context.Context, tx pgx.Tx, o ThawOrder) error {
	if err := a.requireFinal(ctx, tx, o.Now); err != nil {
		return err
	}
	burnt, err := a.unbooked(ctx, tx, o.Now, o.Burnt, o.Paid)
	if err != nil {
		return err
	}
	final, err := a.compare(ctx, tx, o.Now.FinalBalances, burnt)
	if err != nil {
		return err
	}
	missing := final.short
	paid := map[string]bool{}
	for _, id := range o.Paid {
		if paid[id] {
			continue // by the transfer of an earlier one
		}
		together, err := a.paidByMissing(ctx, tx, o, id, missing)
		if err != nil {
			return err
		}
		for _, o := range together {
			paid[o.PayoutID] = true
		}
	}
	left := maps.Clone(missing)
	for currency, amount := range missing {
		if amount.Sign() == 0 || amount.Is(o.Losses[currency]) {
			delete(missing, currency)
		}
	}
	if len(missing) == 0 {
		for currency, loss := range o.Losses {
			if !loss.Is(left[currency]) {
				return ClaimError(loss.Named() + " is more than what is missing")
			}
		}
		return a.bookDifference(ctx, tx, entryShortage, ledgerSuspense, o.Losses, -1)
	}
	short := ShortageError{Missing: sentence(missing)}
	for _, amount := range missing {
		more, err := a.lostPayments(ctx, tx, o.Now, amount)
		if err != nil {
			return err
		}
		short.Payments = append(short.Payments, more...)
	}
	return short
}

// lostPayments are the payments that may have taken what is missing of a currency: of failed payouts, exactly
// that amount in one transfer; of transfers about which nothing is decided, any that is not more.
func (a *accountRow) lostPayments(
	ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot, missing money.Crypto,
) ([]LostPayment, error) {
	usedUp, err := a.usedUp(ctx, tx, now)
	if err != nil {
		return nil, err
	}
	return pg.Collect[LostPayment](ctx, tx, lostPayment+`
			AND x.currency = $3 AND (SELECT sum(y.amount) = $4::numeric OR t.status = 'live' AND sum(y.amount) < $4::numeric
				FROM transfer_payout y WHERE y.transfer_id = t.id)
		ORDER BY t.nonce, x.payout_id`, a.ID, usedUp, missing.Currency(), missing)
}

// lostPayment begins a query over payments of the account $1 that the chain does not show: their transfers have
// ended, or are those of $2, whose slots are used up. None of them has a payout that another transfer may pay.
const lostPayment = `
	SELECT x.payout_id, p.status, t.id AS transfer_id, x.amount || ' ' || x.currency AS amount, x.destination
	FROM transfer t JOIN transfer_payout x ON x.transfer_id = t.id
		JOIN payout p ON p.id = x.payout_id AND p.merchant_id = x.merchant_id AND p.mode = x.mode
	WHERE t.account_id = $1 AND t.status <> 'confirmed' AND (t.status <> 'live' OR t.id = ANY ($2)) AND NOT EXISTS (
		SELECT FROM transfer_payout y WHERE y.payout_id = x.payout_id AND y.standing AND y.transfer_id <> t.id)`

// paidByMissing confirms the newest transfer of the payout, and takes what it paid from missing: its amounts, and
// what the network takes up to its highest fee. It returns what the transfer paid: the order must name all of it.
func (a *accountRow) paidByMissing(
	ctx context.Context, tx pgx.Tx, o ThawOrder, payoutID string, missing money.Purse,
) ([]treasury.TransferOutput, error) {
	usedUp, err := a.usedUp(ctx, tx, o.Now)
	if err != nil {
		return nil, err
	}
	found, err := pg.Collect[LostPayment](ctx, tx, lostPayment+`
			AND x.payout_id = $3 ORDER BY t.nonce DESC LIMIT 1`, a.ID, usedUp, payoutID)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, ClaimError("no payment of " + payoutID + " is lost")
	}
	l := lostTransfer{accountRow: *a, payment: found[0]}
	if err := l.read(ctx, tx); err != nil {
		return nil, err
	}
	paid := l.transfer.Newest()
	for _, pays := range paid.Outputs {
		if !slices.Contains(o.Paid, pays.PayoutID) {
			return nil, ClaimError(l.transfer.ID + " pays " + pays.PayoutID + " too")
		}
		if missing[pays.Amount.Currency()].Cmp(pays.Amount) < 0 {
			return nil, ClaimError(pays.Amount.Named() + " of " + pays.PayoutID + " is more than what is missing")
		}
		missing[pays.Amount.Currency()] = missing[pays.Amount.Currency()].Sub(pays.Amount)
	}
	most := paid.MaxCost
	own := most.Currency()
	gas := money.NewCrypto(missing[own].Units(), own)
	if gas.Cmp(most) > 0 {
		gas = most
	}
	missing[own] = missing[own].Sub(gas)
	return paid.Outputs, l.confirm(ctx, tx, o, gas)
}

// lostTransfer is a transfer whose payment the chain does not show.
type lostTransfer struct {
	accountRow
	payment    LostPayment
	transfer   Transfer // with the newest version that pays, alone
	generation int
}

func (l *lostTransfer) read(ctx context.Context, tx pgx.Tx) error {
	l.transfer = Transfer{ID: l.payment.TransferID, AccountID: l.ID}
	err := tx.QueryRow(ctx, `SELECT status, generation FROM transfer WHERE id = $1`, l.transfer.ID).Scan(
		&l.transfer.Status, &l.generation)
	if err != nil {
		return err
	}
	newest, err := versions(ctx, tx, `
		WHERE t.id = $1 AND NOT v.cancels ORDER BY v.number DESC LIMIT 1`, l.transfer.ID)
	for _, v := range newest {
		l.transfer.Versions = append(l.transfer.Versions, v.TransferVersion)
	}
	return err
}

// confirm ends the transfer as paid, at a cost in the chain's own currency, and its payout as sent.
func (l *lostTransfer) confirm(ctx context.Context, tx pgx.Tx, o ThawOrder, cost money.Crypto) error {
	if l.transfer.Status != TransferLive {
		if err := l.revive(ctx, tx); err != nil {
			return err
		}
	}
	paid := l.transfer.Newest()
	e := ending{l.accountRow, l.transfer, treasury.TransferSnapshot{
		State: treasury.TransferStateConfirmed, TxHash: paid.TxHash, Height: o.Now.FinalHeight, Cost: cost}, o.Now, ""}
	generation, err := e.write(ctx, tx)
	if err != nil {
		return err
	}
	if err := e.book(ctx, tx, generation); err != nil {
		return err
	}
	if err := finishRecovered(ctx, tx, l.transfer.ID, paid, nil, o.By); err != nil {
		return err
	}
	_, err = e.endPayouts(ctx, tx)
	return err
}

// revive makes the transfer live again, and its payouts pending. Their merchants owe what was deducted since.
func (l *lostTransfer) revive(ctx context.Context, tx pgx.Tx) error {
	refs, err := payoutsOf(ctx, tx, l.transfer.ID)
	if err != nil {
		return err
	}
	var merchants []string
	for _, ref := range refs {
		merchants = append(merchants, ref.MerchantID)
	}
	if err := lockMerchants(ctx, tx, merchants...); err != nil {
		return err
	}
	for i, ref := range refs {
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return err
		}
		older, err := pg.Value[int](ctx, tx, `
			SELECT count(*) FROM payout_deduction WHERE payout_id = $1 AND merchant_id = $2 AND mode = $3
				AND created_at < (SELECT created_at FROM transfer WHERE id = $4)`,
			ref.ID, ref.MerchantID, ref.Mode, l.transfer.ID)
		if err != nil {
			return err
		}
		if err := p.revive(ctx, tx, older); err != nil {
			return err
		}
		if err := p.set(ctx, tx, `destination = $4`, l.transfer.Newest().Outputs[i].Destination); err != nil {
			return err
		}
	}
	booking := endings[l.transfer.Status].booking
	if err := reverse(ctx, tx, l.transfer.ID, booking, l.generation, entryReopened, l.generation); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		WITH standing AS (UPDATE transfer_payout SET standing = true WHERE transfer_id = $1),
			slot AS (UPDATE transfer_slot SET standing = true WHERE transfer_id = $1)`+liveAgain, l.transfer.ID)
	for _, ref := range refs {
		if err == nil {
			err = noteBalance(ctx, tx, ref.Owner)
		}
	}
	return err
}
