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
)

// signTimeout is how long a signer may take. The account is locked meanwhile, and PostgreSQL ends a
// transaction that is idle for 10 s.
const signTimeout = 2 * time.Second

// SigningOrder asks for the transfer of a payout. Its facts about the chain were read before.
type SigningOrder struct {
	Payout    checkout.Payout // as it was when its transfer was priced, with the rate of the plan
	AccountID string
	Plan      checkout.TransferPlan
	Chain     checkout.AccountSnapshot
	Value     checkout.Amount // of the payout, in US cents
	Limits    checkout.PayoutLimits
	Delay     time.Duration // between the payment and the signature
	Patience  time.Duration // see HoldPayout
	Sign      Sign
}

// Sign is checkout.Chain.Sign. It runs under the lock of the account, for two seconds at most. Its error
// rolls everything back, and is returned as a checkout.HeldError of HoldSigner.
type Sign func(ctx context.Context, plan checkout.TransferPlan) (checkout.TransferVersion, error)

// Signed is what became of an order. Version is set when Step is stands or go.
type Signed struct {
	checkout.TransferOutcome

	Step    checkout.SigningStep
	Version checkout.TransferVersion // the newest one: send it
}

// SignTransfer decides about an order, and signs and stores the transfer, in one transaction under
// the lock of the account. A transfer that stands already is returned instead of a new one. So the
// slot, the signed bytes and the payout's amount exist together or not at all, and a repeat after
// any error is safe.
//
// A hold, a failure and a freezing are stored too. It returns checkout.ErrNotFound, and
// checkout.ErrConflict when the payout changed since it was priced.
func (s *Store) SignTransfer(ctx context.Context, o SigningOrder) (Signed, error) {
	return pg.InTx(ctx, s.pool, "sign transfer", func(tx pgx.Tx) (got Signed, err error) {
		a, err := lockTreasury(ctx, tx, o.AccountID)
		if err != nil {
			return got, err
		}
		// The merchant's limit counts transfers of all accounts.
		_, err = tx.Exec(ctx, `SELECT FROM merchant WHERE id = $1 FOR NO KEY UPDATE`, o.Payout.MerchantID)
		if err != nil {
			return got, err
		}
		p, err := lockPayout(ctx, tx, o.Payout.Ref)
		if err != nil {
			return got, err
		}
		return o.decide(ctx, tx, a, p)
	})
}

func (o SigningOrder) decide(ctx context.Context, tx pgx.Tx, a treasury, p lockedPayout) (Signed, error) {
	p.NotBefore = p.CreatedAt.Add(o.Delay) // a payout is made when its payment is completed
	facts, err := o.facts(ctx, tx, a, p)
	if err != nil {
		return Signed{}, err
	}

	step, why := facts.Decide()
	got := Signed{Step: step}
	switch step {
	case checkout.SigningStands:
		got.Version, err = standingVersion(ctx, tx, p.ID)
	case checkout.SigningEnded:
		got.Failure = p.Failure
	case checkout.SigningFreeze, checkout.SigningHold:
		if step == checkout.SigningFreeze {
			err = a.freeze(ctx, tx, a.foreign(o.Chain))
		}
		if err == nil {
			got.TransferOutcome, err = p.hold(ctx, tx, why, o.Patience)
		}
	case checkout.SigningGo:
		if p.Generation != o.Payout.Generation || p.Destination != o.Plan.Outputs[0].Destination ||
			p.Currency != o.Plan.Currency() {
			return Signed{}, fmt.Errorf("%w: the payout changed while its transfer was priced", checkout.ErrConflict)
		}
		got.Version, err = o.sign(ctx, tx, a, p)
	}
	return got, err
}

// facts reads what Decide needs. Every row that it adds up is written under the same locks.
func (o SigningOrder) facts(
	ctx context.Context, tx pgx.Tx, a treasury, p lockedPayout,
) (checkout.Signing, error) {
	facts := checkout.Signing{
		Standing: p.Standing, Pending: p.Status == checkout.PayoutPending && p.Failure == "",
		Frozen: a.Frozen, Foreign: a.foreign(o.Chain) != "",
		Value: o.Value, Limits: o.Limits, Early: p.Now.Before(p.NotBefore),
		Released: p.SizeReleased,
	}
	err := tx.QueryRow(ctx, `
		SELECT (SELECT coalesce(sum(value), 0) FROM transfer_payout
				WHERE standing AND merchant_id = $1 AND mode = $2 AND created_at > $4::timestamptz - interval '1 day')::bigint,
			(SELECT coalesce(sum(x.value), 0) FROM transfer t JOIN transfer_payout x ON x.transfer_id = t.id AND x.standing
				WHERE t.account_id = $3 AND t.created_at > $4::timestamptz - interval '1 day')::bigint`,
		p.MerchantID, p.Mode, a.ID, a.Now).Scan(&facts.MerchantDay, &facts.Day)
	if err != nil {
		return facts, err
	}
	if facts.AtRisk, err = p.atRisk(ctx, tx); err != nil {
		return facts, err
	}
	if facts.Settled, facts.Unsettled, err = p.unsettled(ctx, tx); err != nil {
		return facts, err
	}
	if facts.Live, err = a.live(ctx, tx, o.Chain.Height); err != nil {
		return facts, err
	}
	facts.Has, facts.Spends = o.Chain.Balances, checkout.PurseOf(o.Plan.Outputs[0].Amount, o.Plan.MaxCost)
	return facts, nil
}

// live returns what the transfers that are not final may still take from the account. Transfers
// whose end was proved above height count too: balances of that height may still hold what they
// took, even when their block is lower, because a reorganization may lie between.
func (a *treasury) live(ctx context.Context, tx pgx.Tx, height uint64) (checkout.Purse, error) {
	return a.mayTake(ctx, tx, `(status = 'live' OR proved > $2)`, height)
}

// mayTake returns what transfers may take from the account, or have taken. where selects them; $2 is its argument.
func (a *treasury) mayTake(ctx context.Context, tx pgx.Tx, where string, arg any) (checkout.Purse, error) {
	return purse(ctx, tx, `
		WITH live AS (SELECT id FROM transfer WHERE account_id = $1 AND `+where+`)
		SELECT x.amount || ' ' || x.currency FROM live JOIN transfer_payout x ON x.transfer_id = live.id
		UNION ALL
		SELECT max(v.max_cost) || ' ' || $3::text FROM live
			JOIN transfer_version v ON v.transfer_id = live.id GROUP BY live.id`,
		a.ID, arg, checkout.NetworkCurrency(a.Network))
}

// purse adds up rows of an amount with its currency.
func purse(ctx context.Context, tx pgx.Tx, query string, args ...any) (checkout.Purse, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[checkout.Crypto])
	return checkout.PurseOf(all...), err
}

// sign signs the plan, with the account's next number unless it has a slot, and stores all of it.
func (o SigningOrder) sign(
	ctx context.Context, tx pgx.Tx, a treasury, p lockedPayout,
) (checkout.TransferVersion, error) {
	if o.Plan.Slot == nil {
		o.Plan.Slot = checkout.NumberSlot(a.Next)
	}
	v, err := o.Sign.within(ctx, o.Plan)
	if err != nil {
		return checkout.TransferVersion{}, err
	}

	id := checkout.NewID(checkout.PrefixTransfer)
	batch := &pgx.Batch{}
	queueTransfer(batch, id, a, p, v, o.Chain.Height, o.Value)
	batch.Queue(`
		UPDATE payout SET amount = $4, fee = $5, tx_hash = $6, exchange_rate = $7, hold = '', held_at = NULL,
			next_action_at = NULL
		WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
		p.ID, p.MerchantID, p.Mode, v.Outputs[0].Amount, v.Outputs[0].Fee, v.TxHash, o.Payout.ExchangeRate)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return checkout.TransferVersion{}, err
	}
	return v, bookSigned(ctx, tx, a, p, id, v.Outputs[0])
}

// within calls sign and compares what it returns with what was asked for.
func (sign Sign) within(ctx context.Context, plan checkout.TransferPlan) (checkout.TransferVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	v, err := sign(ctx, plan)
	if err != nil {
		return v, checkout.HeldError{Why: checkout.HoldSigner, Cause: err}
	}
	got := v.TransferPlan
	if !slices.Equal(got.Slot, plan.Slot) || !slices.EqualFunc(got.Outputs, plan.Outputs, checkout.TransferOutput.Is) ||
		!got.Fee.Is(plan.Fee) || !got.MaxCost.Is(plan.MaxCost) ||
		got.Cancels != plan.Cancels || !bytes.Equal(got.Terms, plan.Terms) || v.TxHash == "" || len(v.Raw) == 0 {
		return v, fmt.Errorf("the signed transfer is not the planned one of %s", plan.Slot.Name())
	}
	return v, nil
}

// queueTransfer stores a transfer that pays a payout, with its first version. From the height base on it may be mined.
func queueTransfer(
	b *pgx.Batch, id string, a treasury, p lockedPayout, v checkout.TransferVersion, base uint64, value checkout.Amount,
) {
	number, ordered := v.Slot.Number()
	if !ordered {
		number = a.Next
	}
	pays := v.Outputs[0]
	b.Queue(`
		INSERT INTO transfer (id, account_id, nonce, status, base, created_at) VALUES ($1, $2, $3, 'live', $4, $5)`,
		id, a.ID, number, base, a.Now)
	b.Queue(`
		INSERT INTO transfer_payout (transfer_id, payout_id, merchant_id, mode, currency, amount, fee, value, standing,
			created_at)
		VALUES (@transfer, @payout, @merchant, @mode, @currency, @amount, @fee, @value, true, @now)`,
		pgx.NamedArgs{
			"transfer": id, "payout": p.ID, "merchant": p.MerchantID, "mode": p.Mode, "currency": v.Currency(),
			"amount": pays.Amount, "fee": pays.Fee, "value": value, "now": a.Now,
		})
	b.Queue(`UPDATE treasury_account SET next_nonce = greatest(next_nonce, $2) WHERE id = $1`, a.ID, number+1)
	queueVersion(b, id, 1, v, a.Now)
}

func queueVersion(b *pgx.Batch, transferID string, number int, v checkout.TransferVersion, now time.Time) {
	terms := v.Terms
	if len(terms) == 0 {
		terms = json.RawMessage(`{}`)
	}
	pays := checkout.TransferOutput{Amount: v.MaxCost.Sub(v.MaxCost), Fee: v.MaxCost.Sub(v.MaxCost)} // cancels
	if len(v.Outputs) > 0 {
		pays = v.Outputs[0]
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

// bookSigned books what the transfer pays: we owe the merchant nothing more, its money became
// crypto, and that is on its way.
func bookSigned(
	ctx context.Context, tx pgx.Tx, a treasury, p lockedPayout, transferID string, pays checkout.TransferOutput,
) error {
	source, net := string(p.SourceCurrency), big.NewInt(int64(p.SourceAmount))
	return entry{
		Mode: p.Mode, Kind: entrySigned, Subject: transferID, Generation: 1, MerchantID: p.MerchantID,
		Postings: []posting{
			{accountPayable, p.MerchantID, source, net},
			{accountExchange, "", source, new(big.Int).Neg(net)},
			inCrypto(accountExchange, "", pays.Amount.Add(pays.Fee)),
			inCrypto(accountTransit, a.ID, pays.Amount.Neg()),
			inCrypto(accountNetworkFee, "", pays.Fee.Neg()),
		},
	}.book(ctx, tx)
}
