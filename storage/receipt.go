package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// mailReceipt writes a receipt to the customer, in the transaction that completes the session. It writes none
// when the merchant wants none. In test mode only the merchant's own people get one who have proved that they read
// the address: anybody with a test key could otherwise send mails to strangers. The language is the page's, "" when it
// is unknown.
func (p *payment) mailReceipt(ctx context.Context, tx pgx.Tx) error {
	if !p.Receipts || p.CustomerEmail == nil {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO mail (kind, session_id, detail, next_at)
		SELECT $5, t.session_id, coalesce(t.language, ''), clock_timestamp()
		FROM transaction t WHERE t.id = $1 AND t.merchant_id = $2 AND t.mode = $3
			AND (t.mode = 'live' OR EXISTS (SELECT FROM member m WHERE m.merchant_id = $2
				AND lower(m.email) = lower($4) AND m.removed_at IS NULL AND m.email_proven_at IS NOT NULL))`,
		p.ID, p.MerchantID, p.Mode, *p.CustomerEmail, checkout.MailReceipt)
	return pg.Wrap("mail receipt", err)
}
