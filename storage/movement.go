package storage

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

// BookMovements books what moved our balance at the card network and is booked nowhere else: payouts to our bank, fees,
// and what the network moved for another reason, which becomes a finding. It returns the new findings. A repeat books
// nothing.
func (s *Books) BookMovements(ctx context.Context, mode checkout.Mode, all []books.Movement) ([]books.Finding, error) {
	entries := map[string]entry{}
	for _, m := range all {
		if e := movementEntry(mode, m); len(e.Postings) > 0 {
			entries[m.ID] = e
		}
	}
	if len(entries) == 0 {
		return nil, nil
	}
	return pg.InTx(ctx, s.pool, "book movements", func(tx pgx.Tx) (fresh []books.Finding, err error) {
		booked, err := pg.Values[string](ctx, tx, `
			SELECT subject FROM ledger_entry WHERE kind = $1 AND mode = $2 AND subject = ANY ($3)`,
			entryMovement, mode, slices.Collect(maps.Keys(entries)))
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			e, there := entries[m.ID]
			if !there || slices.Contains(booked, m.ID) {
				continue
			}
			if err := e.book(ctx, tx); err != nil {
				return nil, err
			}
			if m.Kind != books.MovementOther {
				continue
			}
			found, err := keepFinding(ctx, tx, true, movementFinding(mode, m))
			if err != nil {
				return nil, err
			}
			fresh = append(fresh, found...)
		}
		return fresh, nil
	})
}

// movementEntry returns the entry of a movement, without postings when all of it is booked with its charge, refund or
// dispute.
func movementEntry(mode checkout.Mode, m books.Movement) entry {
	moved, to := m.Amount, ledgerSuspense
	switch m.Kind {
	case books.MovementCharge:
		return entry{}
	case books.MovementCustomer:
		moved = 0 // only the fee is not booked with the refund or dispute
	case books.MovementBank:
		to = ledgerBank
	case books.MovementFee:
		to = ledgerAcquirer
	}
	if moved == 0 && m.Fee == 0 {
		return entry{}
	}
	asset := string(m.Currency)
	return entry{
		Mode: mode, Kind: entryMovement, Subject: m.ID, Generation: 1,
		Postings: []posting{
			{ledgerBalance, "", asset, big.NewInt(int64(moved - m.Fee))},
			{to, "", asset, big.NewInt(-int64(moved))},
			{ledgerAcquirer, "", asset, big.NewInt(int64(m.Fee))},
		},
	}
}

func movementFinding(mode checkout.Mode, m books.Movement) books.Finding {
	return books.Finding{
		Mode: mode, Kind: books.FindingMovementUnknown, Subject: m.ID,
		Detail: fmt.Sprintf("The card network moved %s %s for the reason %q. It is booked in suspense.",
			m.Amount, m.Currency, m.Category),
	}
}
