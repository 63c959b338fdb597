package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// TreasuryAccount is an account from which payouts are sent. It belongs to a mode and to no
// merchant, so its queries name no merchant.
type TreasuryAccount struct {
	treasury.Account

	ID         string // tre_…
	Mode       checkout.Mode
	NextBlock  uint64     // the first block whose outflows were not compared with transfers
	SeenHeight uint64     // the last block whose balances were compared with the ledger: it was final; 0 before the first
	Live       int        // transfers whose end is not final
	FrozenAt   *time.Time // nil unless frozen: then nothing is signed
	FrozenWhy  string
	RetiredAt  *time.Time // nil unless a person took it out of use: then it is frozen
	// UnexplainedBlock is the first block whose outflows the transfers may lack. It is set while the
	// account is frozen, whatever froze it.
	UnexplainedBlock *uint64
	CreatedAt        time.Time
}

const selectTreasury = `
	SELECT a.id, a.mode, a.network, a.chain_id, a.address, a.next_block, a.seen_height, a.frozen_at,
		a.frozen_why, a.retired_at, a.unexplained_block, a.created_at,
		(SELECT count(*) FROM transfer t WHERE t.account_id = a.id AND t.status = 'live') AS live
	FROM treasury_account a `

// OpenTreasury returns the row of an account. The first call makes it. The chain's next number is accepted, what uses
// slots too, and the account's blocks begin after the chain's present one. But after a restore the row may be lost, and
// the account may have paid what waits. So nothing is accepted while another account of the chain is there, or a
// payment: the numbers begin with 0, and the blocks where another account was last compared. What the account did there
// freezes it, as anything does that no transfer explains. The other account may have paid what waits, too: the new one
// is frozen unless a person has retired the other one, see Thaw and RetireByHand.
func (s *Treasury) OpenTreasury(
	ctx context.Context, mode checkout.Mode, a treasury.Account, now treasury.AccountSnapshot,
) (TreasuryAccount, error) {
	got, err := s.TreasuryAccount(ctx, mode, a)
	if !errors.Is(err, checkout.ErrNotFound) {
		return got, err
	}
	err = pg.RunInTx(ctx, s.pool, "open treasury", func(tx pgx.Tx) error {
		return openTreasury(ctx, tx, mode, a, now)
	})
	if err != nil {
		return TreasuryAccount{}, err
	}
	return s.TreasuryAccount(ctx, mode, a)
}

func openTreasury(
	ctx context.Context, tx pgx.Tx, mode checkout.Mode, a treasury.Account, now treasury.AccountSnapshot,
) error {
	if err := lockChain(ctx, tx, mode, a.ChainID); err != nil {
		return err
	}
	// For the first account of a chain all payments may have to be read.
	if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '1min'`); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO treasury_account (id, mode, network, chain_id, address, next_nonce, next_block,
			seen_height, accepted_units, created_at, frozen_at, frozen_why, unexplained_block)
		SELECT $1, $2, $3, $4, $5, CASE WHEN used THEN 0 ELSE $6 END, block, 0,
			CASE WHEN used THEN '{}' ELSE $8::text[] END, at,
			CASE WHEN unknown <> '' THEN at END,
			CASE WHEN unknown <> '' THEN 'what waits may be paid by ' || unknown ELSE '' END,
			CASE WHEN unknown <> '' THEN block END
		FROM (SELECT least($7, max(next_block)) AS block, count(*) > 0
				OR EXISTS (SELECT FROM transaction WHERE mode = $2 AND chain_ref = $4) AS used,
				coalesce(string_agg(id, ', ' ORDER BY id) FILTER (WHERE retired_at IS NULL), '') AS unknown,
				date_trunc('milliseconds', clock_timestamp()) AS at
			FROM treasury_account WHERE mode = $2 AND chain_id = $4) chain
		ON CONFLICT ON CONSTRAINT treasury_account_address_key DO NOTHING`,
		checkout.NewID(checkout.PrefixTreasury), mode, a.Network, a.ChainID, a.Address, now.Next,
		now.Height+1, append(treasury.Slot{}, now.Using...))
	return err
}

// TreasuryAccount returns the row of an account. It returns checkout.ErrNotFound unless OpenTreasury has made it.
func (s *Treasury) TreasuryAccount(
	ctx context.Context, mode checkout.Mode, a treasury.Account,
) (TreasuryAccount, error) {
	got, err := pg.One[TreasuryAccount](ctx, s.pool, selectTreasury+`
		WHERE a.mode = $1 AND a.chain_id = $2 AND a.address = $3`, mode, a.ChainID, a.Address)
	return got, pg.Wrap("treasury account", err)
}

// lockChain lets one transaction at a time open or thaw an account of the chain.
func lockChain(ctx context.Context, tx pgx.Tx, mode checkout.Mode, chainID string) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('chain ' || $1 || ' ' || $2, 0))`, mode, chainID)
	return err
}

// TreasuryAccounts returns every account of a mode, oldest first. Only operators may call it.
func (s *Treasury) TreasuryAccounts(ctx context.Context, mode checkout.Mode) ([]TreasuryAccount, error) {
	got, err := pg.Collect[TreasuryAccount](ctx, s.pool, selectTreasury+`WHERE a.mode = $1 ORDER BY a.id`, mode)
	return got, pg.Wrap("treasury accounts", err)
}

// Freeze stops all signatures of an account, in every process: a signature looks at the row under
// its lock. It returns checkout.ErrNotFound, and ErrFrozen with the first reason, which stays. A retired account is no
// longer one: the database may be a backup.
func (s *Treasury) Freeze(ctx context.Context, accountID, why string) error {
	was, err := inTreasury(ctx, s, "freeze", accountID, func(tx pgx.Tx, a accountRow) (accountRow, error) {
		err := a.freeze(ctx, tx, why)
		return a, err
	})
	if err == nil && was.FrozenAt != nil {
		err = fmt.Errorf("%w since %s: %s", ErrFrozen, was.FrozenAt.UTC().Format(time.RFC3339), was.FrozenWhy)
	}
	return err
}

// accountRow is the locked row of an account.
type accountRow struct {
	ID          string
	Mode        checkout.Mode
	Network     string
	ChainID     string
	Next        uint64 // the number of the next transfer
	NextBlock   uint64
	SeenHeight  uint64
	ShortHeight *uint64
	FrozenAt    *time.Time // nil unless frozen
	FrozenWhy   string
	CreatedAt   time.Time
	Now         time.Time
}

// inTreasury runs do in a transaction that has locked the account. Every transaction that changes an account or
// its transfers does so first. One of them may wait for a signer, so those that wait behind it take half of the
// connections at most.
func inTreasury[T any](
	ctx context.Context, s *Treasury, doing, accountID string, do func(tx pgx.Tx, a accountRow) (T, error),
) (none T, err error) {
	if err := s.accounts.Acquire(ctx, 1); err != nil {
		return none, pg.Wrap(doing, err)
	}
	defer s.accounts.Release(1)
	return pg.InTx(ctx, s.pool, doing, func(tx pgx.Tx) (none T, err error) {
		a, err := lockTreasury(ctx, tx, accountID)
		if err != nil {
			return none, err
		}
		return do(tx, a)
	})
}

// runInTreasury is inTreasury for a transaction without a result.
func runInTreasury(
	ctx context.Context, s *Treasury, doing, accountID string, do func(tx pgx.Tx, a accountRow) error,
) error {
	_, err := inTreasury(ctx, s, doing, accountID, func(tx pgx.Tx, a accountRow) (struct{}, error) {
		return struct{}{}, do(tx, a)
	})
	return err
}

func lockTreasury(ctx context.Context, tx pgx.Tx, accountID string) (accountRow, error) {
	return pg.One[accountRow](ctx, tx, `
		SELECT id, mode, network, chain_id, next_nonce AS next, next_block, seen_height, short_height,
			frozen_at, frozen_why, created_at, date_trunc('milliseconds', clock_timestamp()) AS now
		FROM treasury_account WHERE id = $1 FOR UPDATE`, accountID)
}

// lockTreasuryOf locks the account of a transfer. It returns checkout.ErrNotFound.
func lockTreasuryOf(ctx context.Context, tx pgx.Tx, transferID string) (accountRow, error) {
	accountID, err := pg.Value[string](ctx, tx, `SELECT account_id FROM transfer WHERE id = $1`, transferID)
	if err != nil {
		return accountRow{}, err
	}
	return lockTreasury(ctx, tx, accountID)
}

// freeze freezes the account. After every freeze a person must compare the chain with the transfers, from the
// account's next block on: they may lack outflows. So a retired account is retired no longer.
func (a *accountRow) freeze(ctx context.Context, tx pgx.Tx, why string) error {
	_, err := tx.Exec(ctx, `
		UPDATE treasury_account SET unexplained_block = least(unexplained_block, next_block), retired_at = NULL,
			frozen_at = coalesce(frozen_at, $2), frozen_why = CASE WHEN frozen_at IS NULL THEN $3 ELSE frozen_why END
		WHERE id = $1`, a.ID, a.Now, why)
	return err
}

// ErrNotCompared: the chain may have payments of an account that PostgreSQL lacks.
var ErrNotCompared = errors.New("the treasury account was not compared with its chain")

// ErrNotComparedLately is an ErrNotCompared that passes when a worker, or the command again, has read the rest
// of the chain.
var ErrNotComparedLately = fmt.Errorf("%w lately", ErrNotCompared)

// compareWithin is how old a comparison with the chain may be. A round makes one every 15 s. After a restore the
// time of the last one is that of the backup.
const compareWithin = time.Minute

// RecordComparison stores that the outflows up to the last final block are compared with the transfers, unless a
// transaction uses a slot that no transfer has.
func (s *Treasury) RecordComparison(ctx context.Context, accountID string, now treasury.AccountSnapshot) error {
	return runInTreasury(ctx, s, "record a comparison", accountID, func(tx pgx.Tx, a accountRow) error {
		if why, err := a.foreign(ctx, tx, now); err != nil || why != "" {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE treasury_account SET compared_at = clock_timestamp() WHERE id = $1`, accountID)
		return err
	})
}

// ErrOtherAccount: another account of the chain may have paid what waits.
var ErrOtherAccount = errors.New("another account of the chain may have paid what waits")

// knownChain is how an account stands that may have paid a payout.
type knownChain struct {
	ID        string
	Last      bool // it was opened after the other accounts of its chain, so it is the one in use
	Frozen    bool
	FrozenWhy string
	Compared  bool // lately; an account that is not in use any more: retired
	Younger   bool // than the payout
}

// requireCompared returns ErrFrozen or ErrNotCompared while the chain of a payout may have paid it without a
// transfer that says so, as after the restore of an old backup. The account that was compared last is in use. Each
// other one of the chain must be retired.
func requireCompared(ctx context.Context, from pg.Querier, payout checkout.Ref) error {
	accounts, err := pg.Collect[knownChain](ctx, from, `
		SELECT a.id, a.last, a.frozen_at IS NOT NULL AS frozen, a.frozen_why, a.created_at > p.created_at AS younger,
			CASE WHEN a.last THEN coalesce(a.compared_at > clock_timestamp() - $4::interval, false)
				ELSE a.retired_at IS NOT NULL END AS compared
		FROM payout p LEFT JOIN transaction t ON t.id = p.transaction_id JOIN (
			SELECT *, id = first_value(id) OVER (PARTITION BY mode, chain_id
				ORDER BY coalesce(compared_at, created_at) DESC, id DESC) AS last FROM treasury_account) a
			ON a.mode = p.mode AND `+payoutChain+` = a.chain_id
		WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3 ORDER BY a.id`,
		payout.ID, payout.MerchantID, payout.Mode, compareWithin)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(accounts, func(a knownChain) bool { return !a.Younger }) {
		return fmt.Errorf("%w: none was followed when %s was made", ErrNotCompared, payout.ID)
	}
	for _, a := range accounts {
		switch {
		case a.Last && a.Frozen:
			return fmt.Errorf("%w: %s: %s", ErrFrozen, a.ID, a.FrozenWhy)
		case !a.Last && !a.Frozen:
			return fmt.Errorf("%w: %s is no longer in use and is not frozen", ErrNotCompared, a.ID)
		case a.Last && !a.Compared:
			return fmt.Errorf("%w: %s", ErrNotComparedLately, a.ID)
		case !a.Compared:
			return fmt.Errorf("%w: %s is no longer in use and is not retired", ErrNotCompared, a.ID)
		}
	}
	return nil
}

// requireOthersRetired returns ErrOtherAccount unless every other account of the chain is retired. None of them can be
// opened or thawed until the transaction ends.
func (a *accountRow) requireOthersRetired(ctx context.Context, tx pgx.Tx) error {
	if err := lockChain(ctx, tx, a.Mode, a.ChainID); err != nil {
		return err
	}
	others, err := pg.Values[string](ctx, tx, `
		SELECT o.id FROM treasury_account o JOIN treasury_account a USING (mode, chain_id)
		WHERE a.id = $1 AND o.id <> a.id AND o.retired_at IS NULL ORDER BY o.id`, a.ID)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%w: %s", ErrOtherAccount, strings.Join(others, ", "))
	}
	return err
}

// unknown returns the units that transactions use which are not final, and that no transfer has.
func (a *accountRow) unknown(
	ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot,
) (numbers treasury.Slot, err error) {
	var others treasury.Slot
	for _, unit := range now.Using {
		if n, ordered := (treasury.Slot{unit}).Number(); !ordered {
			others = append(others, unit)
		} else if n >= a.Next {
			numbers = append(numbers, unit)
		}
	}
	if len(others) == 0 {
		return numbers, nil
	}
	return pg.Values[string](ctx, tx, `
		SELECT unit FROM unnest($2::text[]) unit JOIN treasury_account a ON a.id = $1
		WHERE unit <> ALL (a.accepted_units) AND NOT EXISTS (
			SELECT FROM transfer_slot s WHERE s.account_id = a.id AND s.unit = unit.unit AND s.standing)`, a.ID, others)
}

// CheckForeign freezes the account when a transaction uses a slot that no transfer has. It returns the
// reason, "" when there is none.
func (s *Treasury) CheckForeign(
	ctx context.Context, accountID string, now treasury.AccountSnapshot,
) (why string, err error) {
	return inTreasury(ctx, s, "check slots", accountID, func(tx pgx.Tx, a accountRow) (why string, err error) {
		why, err = a.foreign(ctx, tx, now)
		if why == "" {
			return why, err
		}
		return why, a.freeze(ctx, tx, why)
	})
}

// foreign names a slot in a sentence that a transaction uses, and no transfer has: "" when there is none.
func (a *accountRow) foreign(ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot) (why string, err error) {
	units, err := a.unknown(ctx, tx, now)
	if now.Next > a.Next {
		units = treasury.NumberSlot(now.Next - 1)
	}
	if len(units) == 0 {
		return "", err
	}
	return "a transaction uses " + units.Name() + ", and no transfer has it", nil
}
