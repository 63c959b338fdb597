package storage

import "example.com/checkout/workflows/merchant"

// mailReceipt writes a receipt to the customer, with the decision that completes the session. It writes none when the
// merchant wants none. In test mode only the merchant's own people get one, who have joined and so read the address:
// anybody with a test key could otherwise send mails to strangers. The language is the page's, "" when it is unknown.
func (p *payment) mailReceipt(with *decision) {
	if !p.Receipts || p.CustomerEmail == nil {
		return
	}
	with.sql += `, receipt AS (
			INSERT INTO mail (kind, session_id, detail, next_at)
			SELECT @mail, @session, coalesce(t.language, ''), clock_timestamp()
			FROM decided CROSS JOIN transaction t WHERE t.id = @subject
				AND (t.mode = 'live' OR EXISTS (SELECT FROM member m WHERE m.merchant_id = @merchant
					AND lower(m.email) = lower(@email) AND m.removed_at IS NULL AND m.password_hash IS NOT NULL))
		)`
	with.args["mail"], with.args["email"] = merchant.MailReceipt, *p.CustomerEmail
}
