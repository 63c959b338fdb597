package people

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// failurePause is how long a second failure of an account from the same address is not noted.
const failurePause = 10 * time.Minute

// NoteFailedSignIn notes in the audit log of a member who has joined that someone gave a wrong password, with the IP
// address. Otherwise a merchant could invite a stranger, and read where the stranger signs in. Of many failures of an
// account from one address it notes one in ten minutes, so that strangers cannot fill the log. "" for an unknown member
// costs the same statement. It does not wait for the disk, because the time of the answer would tell which accounts
// exist; a crash may lose the failures of a moment.
func (s *Store) NoteFailedSignIn(ctx context.Context, memberID, address string) error {
	_, err := s.pool.Exec(ctx, `
		WITH hurry AS MATERIALIZED (SELECT `+pg.Unhurried+`),
		account AS (
			SELECT m.id, m.merchant_id, m.email FROM member m, hurry
			WHERE m.id = $1 AND m.password_hash IS NOT NULL AND m.removed_at IS NULL
		)
		INSERT INTO audit_entry (id, merchant_id, actor, action, subject, detail, address)
		SELECT $2, a.merchant_id, a.email, 'member.sign_in_failed', a.id, 'a wrong password', $3 FROM account a
		WHERE NOT EXISTS (SELECT FROM audit_entry e WHERE e.merchant_id = a.merchant_id AND e.id > $4
			AND e.action = 'member.sign_in_failed' AND e.subject = a.id AND e.address = $3)`,
		memberID, checkout.NewID(checkout.PrefixAuditEntry), address,
		checkout.FirstID(checkout.PrefixAuditEntry, time.Now().Add(-failurePause)))
	return pg.Wrap("note failed sign-in", err)
}
