package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/treasury"
)

// NotFinalError names the part of the chain that is not final yet, so that the account cannot be compared with the
// ledger. It passes as the chain grows.
type NotFinalError struct {
	What  string        // such as "the ledger knows block 45, which"
	Final uint64        // the last final block
	Left  time.Duration // an estimate; 0 when it is not known
}

func (e NotFinalError) Error() string {
	return fmt.Sprintf("%s is not final yet; the last final block is %d", e.What, e.Final)
}

// ErrBehind: the ledger knows blocks that the chain does not have, or no longer calls final. The nodes lag, or lost
// blocks, or the chain took them back.
var ErrBehind = errors.New("the chain is behind the ledger")

// CheckThaw returns a NotFinalError while a thaw must wait: a transaction that no transfer explains is not
// final, or a block that the ledger knows. An order that is refused in any case is refused at once, with
// ErrOtherAccount or ErrNotFrozen. CheckThaw returns ErrBehind when the chain went back. The account must have
// been read before now: a round may compare it with a later block meanwhile.
func (s *Treasury) CheckThaw(
	ctx context.Context, account TreasuryAccount, retire bool, now treasury.AccountSnapshot,
) error {
	return runInTreasury(ctx, s, "thaw", account.ID, func(tx pgx.Tx, a accountRow) error {
		if account.SeenHeight > now.FinalHeight {
			return fmt.Errorf("%w: block %d was final when the balances were compared, and the last final block is %d",
				ErrBehind, account.SeenHeight, now.FinalHeight)
		}
		err := a.requireKnown(ctx, tx, now)
		if err == nil {
			err = a.requireFinal(ctx, tx, now)
		}
		if errors.As(err, new(NotFinalError)) {
			err = cmp.Or(a.mayThaw(ctx, tx, retire), err)
		}
		return err
	})
}

// requireKnown returns a NotFinalError while a transaction that no transfer explains is not final.
func (a *accountRow) requireKnown(ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot) error {
	units, err := a.unknown(ctx, tx, now)
	if err != nil || len(units) == 0 {
		return err
	}
	return NotFinalError{"a transaction that no transfer explains uses " + units.Name() + ", and", now.FinalHeight, 0}
}

// requireFinal returns a NotFinalError or ErrBehind when the ledger has something of the account that is later than the
// final block.
func (a *accountRow) requireFinal(ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot) error {
	newest, err := a.newestBlock(ctx, tx, now)
	switch {
	case err != nil || newest <= now.FinalHeight:
		return err
	case newest > now.Height:
		return fmt.Errorf("%w: the ledger knows block %d, and the last block is %d", ErrBehind, newest, now.Height)
	}
	what := fmt.Sprintf("the ledger knows block %d, which", newest)
	return NotFinalError{what, now.FinalHeight, a.untilFinal(newest, now)}
}

// newestBlock returns the last block of which the ledger knows something, or a final one of now.
func (a *accountRow) newestBlock(ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot) (uint64, error) {
	newest, err := pg.Value[uint64](ctx, tx, `
		SELECT coalesce(max(height), 0) FROM transfer WHERE account_id = $1 AND proved > $2 AND height > $2`,
		a.ID, now.FinalHeight)
	return max(newest, a.SeenHeight, max(a.NextBlock, 1)-1), err
}

// untilFinal estimates how long it takes until the block is final at which the account was opened. The blocks
// since then show how fast the chain is. It returns 0 when nothing shows it.
func (a *accountRow) untilFinal(block uint64, now treasury.AccountSnapshot) time.Duration {
	if a.SeenHeight > 0 || now.Height <= block {
		return 0
	}
	perBlock := a.Now.Sub(a.CreatedAt).Seconds() / float64(now.Height-block)
	return time.Duration(perBlock * float64(block-now.FinalHeight) * float64(time.Second))
}
