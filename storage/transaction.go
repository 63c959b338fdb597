package storage

import (
	"context"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// decided is true for a transaction t that merchants see.
const decided = `t.status IN ('succeeded', 'failed')`

// TransactionFilter selects decided transactions. An empty field selects all.
type TransactionFilter struct {
	Status    checkout.TransactionStatus
	SessionID string
}

// Transactions lists decided transactions, newest first.
func (s *SessionReader) Transactions(
	ctx context.Context, owner checkout.Owner, f TransactionFilter, p pg.Page,
) ([]checkout.Transaction, error) {
	q := pg.NewList(owner, "t")
	q.Where(decided)
	q.Equal("t.status", string(f.Status))
	q.Equal("t.session_id", f.SessionID)
	q.Page(checkout.PrefixTransaction, "t", p)
	got, err := pg.Collect[checkout.Transaction](ctx, s.pool,
		`SELECT `+transactionColumns+transactionJoin+` `+q.SQL, q.Args...)
	return got, pg.Wrap("transactions", err)
}

// Transaction returns a decided transaction. It returns checkout.ErrNotFound.
func (s *SessionReader) Transaction(ctx context.Context, ref checkout.Ref) (checkout.Transaction, error) {
	got, err := pg.One[checkout.Transaction](ctx, s.pool, `
		SELECT `+transactionColumns+transactionJoin+`
		WHERE t.id = $1 AND t.merchant_id = $2 AND t.mode = $3 AND `+decided, ref.ID, ref.MerchantID, ref.Mode)
	return got, pg.Wrap("transaction", err)
}
