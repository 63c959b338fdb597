package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// signTimeout is how long treasury.Chain.Sign may take. The account is locked meanwhile, and PostgreSQL ends a
// transaction that is idle for 10 s.
const signTimeout = 2 * time.Second

// SigningOrder asks for one transfer of payouts. Its facts about the chain were read before.
type SigningOrder struct {
	Payouts   []PricedPayout // in the order of their ids, as the outputs of the plan
	AccountID string
	Plan      treasury.TransferPlan
	Chain     treasury.AccountSnapshot
	Limits    treasury.PayoutLimits
	Delay     time.Duration // between the payment and the signature
	Patience  time.Duration // see HoldPayout
	Sign      SignVersion
}

// PricedPayout is a payout as it was when its transfer was priced, with the rate of the plan.
type PricedPayout struct {
	checkout.Payout

	Value money.Amount // in US cents
}

// SignVersion is treasury.Chain.Sign. It runs under the lock of the account, for signTimeout at most. Its error
// rolls everything back, and is returned as a checkout.HeldError of HoldSigner.
type SignVersion func(ctx context.Context, plan treasury.TransferPlan) (treasury.TransferVersion, error)

// SigningResult is what became of an order. Without a version nothing was signed, and the payouts whose step is go may
// be planned again without the others.
type SigningResult struct {
	Payouts []SigningOutcome // as in the order
	Version treasury.TransferVersion
}

// SigningOutcome is what became of one payout of an order.
type SigningOutcome struct {
	treasury.TransferOutcome

	Step treasury.SigningStep
}

// SignTransfer decides about an order, and signs and stores the transfer if every payout may go, in one transaction
// under the lock of the account. So the slot, the signed bytes and the payouts' amounts exist together or not at all,
// and a repeat after any error is safe.
//
// A hold, a failure and a freezing are stored too. It returns checkout.ErrNotFound, and
// checkout.ErrConflict when a payout changed since it was priced, and when another transfer has a unit of the slot.
func (s *Treasury) SignTransfer(ctx context.Context, o SigningOrder) (SigningResult, error) {
	got, err := inTreasury(ctx, s, "sign transfer", o.AccountID, func(tx pgx.Tx, a accountRow) (SigningResult, error) {
		// The merchant's limit counts transfers of all accounts.
		if err := lockMerchants(ctx, tx, merchantsOf(o.Payouts)...); err != nil {
			return SigningResult{}, err
		}
		return o.decideOrder(ctx, tx, a)
	})
	if pg.Violates(err, "transfer_slot_standing_key") {
		err = fmt.Errorf("%w: another transfer has a unit of %s", checkout.ErrConflict, o.Plan.Slot.Name())
	}
	return got, err
}

// transferPayout is a payout of a transfer that is being stored.
type transferPayout struct {
	lockedPayout // as it is now, under its lock

	priced PricedPayout // as it was when the transfer was priced
	pays   treasury.TransferOutput
}

func merchantsOf(payouts []PricedPayout) (ids []string) {
	for _, p := range payouts {
		ids = append(ids, p.MerchantID)
	}
	return ids
}

// pairOutputs returns the payouts of a transfer with their outputs, which are in the same order. None is locked yet.
func pairOutputs(payouts []PricedPayout, outputs []treasury.TransferOutput) []transferPayout {
	all := make([]transferPayout, len(payouts))
	for i := range all {
		all[i].priced, all[i].pays = payouts[i], outputs[i]
	}
	return all
}

func (o SigningOrder) decideOrder(ctx context.Context, tx pgx.Tx, a accountRow) (got SigningResult, err error) {
	facts, err := o.accountFacts(ctx, tx, a)
	if err != nil {
		return got, err
	}
	payouts, all := pairOutputs(o.Payouts, o.Plan.Outputs), true
	for i := range payouts {
		outcome, err := o.nextStep(ctx, tx, &a, &facts, &payouts[i])
		if err != nil {
			return got, err
		}
		all = all && outcome.Step == treasury.SigningGo
		got.Payouts = append(got.Payouts, outcome)
	}
	if all {
		got.Version, err = o.signTransfer(ctx, tx, a, payouts)
	}
	return got, err
}

// nextStep locks a payout and decides about it. It writes what holds the payout back, and adds the value of a payout
// that may go to the facts about the next one.
func (o SigningOrder) nextStep(
	ctx context.Context, tx pgx.Tx, a *accountRow, facts *batchFacts, p *transferPayout,
) (got SigningOutcome, err error) {
	if p.lockedPayout, err = lockPayout(ctx, tx, p.priced.Ref); err != nil {
		return got, err
	}
	delay := o.Delay
	if p.DelayHours != nil {
		delay = time.Duration(*p.DelayHours) * time.Hour
	}
	p.NotBefore = p.CreatedAt.Add(delay) // a payout is made when its payment is completed
	if err := o.addPayoutFacts(ctx, tx, facts, *p); err != nil {
		return got, err
	}
	step, why := facts.Decide()
	if step == treasury.SigningGo && p.Deducted != p.priced.Deducted && len(o.Payouts) > 1 {
		step = treasury.SigningChanged // one payout must not delay those of the other merchants
	}
	got.Step = step
	switch step {
	case treasury.SigningEnded:
		got.Failure = p.Failure
	case treasury.SigningFreeze, treasury.SigningHold:
		if step == treasury.SigningFreeze {
			err = a.freeze(ctx, tx, facts.foreign)
		}
		if err == nil {
			got.TransferOutcome, err = p.hold(ctx, tx, why, o.Patience)
		}
	case treasury.SigningGo:
		if p.Generation != p.priced.Generation || p.Deducted != p.priced.Deducted ||
			p.Destination != p.pays.Destination || p.Currency != o.Plan.Currency() {
			return got, fmt.Errorf("%w: the payout changed while its transfer was priced", checkout.ErrConflict)
		}
		facts.add(*p)
	}
	return got, err
}

// batchFacts are the facts about one payout, with what the payouts before it in the transfer take.
type batchFacts struct {
	treasury.SigningFacts

	foreign string                  // names a slot that no transfer has
	batch   money.Amount            // value of the payouts before this one
	of      map[string]money.Amount // of each merchant's
	pays    money.Crypto            // their amounts
}

func (f *batchFacts) add(p transferPayout) {
	f.batch += p.priced.Value
	f.of[p.MerchantID] += p.priced.Value
	f.pays = f.pays.Add(p.pays.Amount)
}

// accountFacts reads what Decide needs about the account. Every row that it adds up is written under the same locks.
func (o SigningOrder) accountFacts(ctx context.Context, tx pgx.Tx, a accountRow) (facts batchFacts, err error) {
	facts.of = map[string]money.Amount{}
	facts.Frozen, facts.Limits, facts.Has = a.FrozenAt != nil, o.Limits, o.Chain.Balances
	if facts.foreign, err = a.foreign(ctx, tx, o.Chain); err != nil {
		return facts, err
	}
	facts.Foreign = facts.foreign != ""
	facts.Live, err = a.live(ctx, tx, o.Chain.Height)
	return facts, err
}

// addPayoutFacts reads what Decide needs about a payout.
func (o SigningOrder) addPayoutFacts(ctx context.Context, tx pgx.Tx, facts *batchFacts, p transferPayout) error {
	facts.Standing, facts.Pending = p.Standing, p.Status == checkout.PayoutPending && p.Failure == ""
	facts.Value, facts.Early, facts.Released = p.priced.Value, p.Now.Before(p.NotBefore), p.SizeReleased
	facts.Suspended = p.Suspended
	err := tx.QueryRow(ctx, `
		SELECT (SELECT coalesce(sum(value), 0) FROM transfer_payout
				WHERE standing AND merchant_id = $1 AND mode = $2 AND created_at > $4::timestamptz - interval '1 day')::bigint,
			(SELECT coalesce(sum(x.value), 0) FROM transfer t JOIN transfer_payout x ON x.transfer_id = t.id AND x.standing
				WHERE t.account_id = $3 AND t.created_at > $4::timestamptz - interval '1 day')::bigint`,
		p.MerchantID, p.Mode, o.AccountID, p.Now).Scan(&facts.MerchantDay, &facts.Day)
	if err != nil {
		return err
	}
	if facts.AtRisk, err = p.atRisk(ctx, tx); err != nil {
		return err
	}
	if facts.Settled, facts.Unsettled, err = p.unsettled(ctx, tx); err != nil {
		return err
	}
	facts.Day += facts.batch
	facts.MerchantDay += facts.of[p.MerchantID]
	facts.Unsettled += facts.of[p.MerchantID]
	facts.Spends = money.PurseOf(facts.pays.Add(p.pays.Amount), o.Plan.MaxCost)
	return nil
}

// live returns what the transfers that are not final may still take from the account. Transfers
// whose end was proved above height count too: balances of that height may still hold what they
// took, even when their block is lower, because a reorganization may lie between.
func (a *accountRow) live(ctx context.Context, tx pgx.Tx, height uint64) (money.Purse, error) {
	return a.mayTake(ctx, tx, `(status = 'live' OR proved > $2)`, height)
}

// mayTake returns what transfers may take from the account, or have taken. where selects them; $2 is its argument.
func (a *accountRow) mayTake(ctx context.Context, tx pgx.Tx, where string, arg any) (money.Purse, error) {
	return purse(ctx, tx, `
		WITH live AS (SELECT id FROM transfer WHERE account_id = $1 AND `+where+`)
		SELECT x.amount || ' ' || x.currency FROM live JOIN transfer_payout x ON x.transfer_id = live.id
		UNION ALL
		SELECT max(v.max_cost) || ' ' || $3::text FROM live
			JOIN transfer_version v ON v.transfer_id = live.id GROUP BY live.id`, a.ID, arg, money.NetworkCurrency(a.Network))
}

// purse adds up rows of an amount with its currency.
func purse(ctx context.Context, tx pgx.Tx, query string, args ...any) (money.Purse, error) {
	all, err := pg.Values[money.Crypto](ctx, tx, query, args...)
	return money.PurseOf(all...), err
}

// signTransfer signs the plan, with the account's next number unless it has a slot, and stores all of it.
func (o SigningOrder) signTransfer(
	ctx context.Context, tx pgx.Tx, a accountRow, payouts []transferPayout,
) (treasury.TransferVersion, error) {
	if o.Plan.Slot == nil {
		o.Plan.Slot = treasury.NumberSlot(a.Next)
	} else if a.NextBlock <= o.Chain.FinalHeight {
		// Only numbers tell at once that the chain knows more than we do, as after the restore of an old backup.
		return treasury.TransferVersion{}, checkout.HeldError{Why: checkout.HoldChain, Cause: ErrNotCompared}
	}
	v, err := o.Sign.signPlan(ctx, o.Plan)
	if err != nil {
		return treasury.TransferVersion{}, err
	}
	id := checkout.NewID(checkout.PrefixTransfer)
	batch := &pgx.Batch{}
	queueTransfer(batch, id, a, payouts, v, o.Chain.Height)
	for _, p := range payouts {
		batch.Queue(`
			UPDATE payout SET amount = $4, fee = $5, tx_hash = $6, exchange_rate = $7, hold = '', held_at = NULL,
				next_action_at = NULL
			WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
			p.ID, p.MerchantID, p.Mode, p.pays.Amount, p.pays.Fee, v.TxHash, p.priced.ExchangeRate)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return treasury.TransferVersion{}, err
	}
	return v, bookSigned(ctx, tx, a, payouts, id)
}

// signPlan calls sign and compares what it returns with what was asked for.
func (sign SignVersion) signPlan(ctx context.Context, plan treasury.TransferPlan) (treasury.TransferVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	v, err := sign(ctx, plan)
	if err != nil {
		return v, checkout.HeldError{Why: checkout.HoldSigner, Cause: err}
	}
	got := v.TransferPlan
	if !slices.Equal(got.Slot, plan.Slot) || !slices.EqualFunc(got.Outputs, plan.Outputs, treasury.TransferOutput.Is) ||
		!got.Fee.Is(plan.Fee) || !got.MaxCost.Is(plan.MaxCost) ||
		got.Cancels != plan.Cancels || !bytes.Equal(got.Terms, plan.Terms) || v.TxHash == "" || len(v.Raw) == 0 {
		return v, fmt.Errorf("the signed transfer is not the planned one of %s", plan.Slot.Name())
	}
	return v, nil
}

// queueTransfer stores a transfer that pays payouts, with its first version. From the height base on it may be mined.
func queueTransfer(
	b *pgx.Batch, id string, a accountRow, payouts []transferPayout, v treasury.TransferVersion, base uint64,
) {
	number, ordered := v.Slot.Number()
	if !ordered {
		number = a.Next
	}
	b.Queue(`
		INSERT INTO transfer (id, account_id, nonce, status, base, created_at) VALUES ($1, $2, $3, 'live', $4, $5)`,
		id, a.ID, number, base, a.Now)
	if !ordered {
		b.Queue(`
			INSERT INTO transfer_slot (transfer_id, account_id, unit, position)
			SELECT $1, $2, unit, position FROM unnest($3::text[]) WITH ORDINALITY AS x (unit, position)`, id, a.ID, v.Slot)
	}
	for _, p := range payouts {
		b.Queue(`
			INSERT INTO transfer_payout (transfer_id, payout_id, merchant_id, mode, currency, destination, amount, fee, value,
				standing, created_at)
			VALUES (@transfer, @payout, @merchant, @mode, @currency, @destination, @amount, @fee, @value, true, @now)`,
			pgx.NamedArgs{
				"transfer": id, "payout": p.ID, "merchant": p.MerchantID, "mode": p.Mode, "currency": v.Currency(),
				"destination": p.pays.Destination, "amount": p.pays.Amount, "fee": p.pays.Fee, "value": p.priced.Value,
				"now": a.Now,
			})
	}
	b.Queue(`UPDATE treasury_account SET next_nonce = greatest(next_nonce, $2) WHERE id = $1`, a.ID, number+1)
	queueVersion(b, id, 1, v, a.Now)
}

func queueVersion(b *pgx.Batch, transferID string, number int, v treasury.TransferVersion, now time.Time) {
	terms := v.Terms
	if len(terms) == 0 {
		terms = json.RawMessage(`{}`)
	}
	nothing := v.MaxCost.Sub(v.MaxCost)
	pays := treasury.TransferOutput{Amount: nothing, Fee: nothing} // of a version that cancels
	for i, o := range v.Outputs {
		if pays.Destination = o.Destination; i == 0 {
			pays = o
			continue
		}
		pays.Amount, pays.Fee = pays.Amount.Add(o.Amount), pays.Fee.Add(o.Fee)
	}
	b.Queue(`
		INSERT INTO transfer_version (tx_hash, transfer_id, number, currency, destination, amount, fee, max_cost, terms,
			raw, created_at, cancels)
		VALUES (@hash, @transfer, @number, @currency, @destination, @amount, @fee, @most, @terms, @raw, @now, @cancels)`,
		pgx.NamedArgs{
			"hash": v.TxHash, "transfer": transferID, "number": number, "currency": pays.Amount.Currency(),
			"destination": pays.Destination, "amount": pays.Amount, "fee": pays.Fee, "most": v.MaxCost, "terms": terms,
			"raw": v.Raw, "now": now, "cancels": v.Cancels,
		})
}

// bookSigned books what the transfer pays: we owe the merchants nothing more, their money became
// crypto, and that is on its way. The entry of each payout has its place in the transfer as generation.
func bookSigned(ctx context.Context, tx pgx.Tx, a accountRow, payouts []transferPayout, transferID string) error {
	for i, p := range payouts {
		source, net := string(p.SourceCurrency), big.NewInt(int64(p.priced.Net()))
		err := entry{
			Mode: p.Mode, Kind: entrySigned, Subject: transferID, Generation: i + 1, MerchantID: p.MerchantID,
			Postings: []posting{
				{ledgerPayable, p.MerchantID, source, net},
				{ledgerExchange, "", source, new(big.Int).Neg(net)},
				inCrypto(ledgerExchange, "", p.pays.Amount.Add(p.pays.Fee)),
				inCrypto(ledgerTransit, a.ID, p.pays.Amount.Neg()),
				inCrypto(ledgerNetworkFee, "", p.pays.Fee.Neg()),
			},
		}.book(ctx, tx)
		if err != nil {
			return err
		}
	}
	return nil
}
