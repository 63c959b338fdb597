package people

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// failurePause is how long a second failure of a member from the same address is not logged.
const failurePause = 10 * time.Minute

// LogFailedSignIn writes into the audit log of a member who has joined that somebody gave a wrong password, with the IP
// address. Otherwise a merchant could invite a stranger, and read where the stranger signs in. Of many failures of a
// member from one address it logs one in ten minutes, so that strangers cannot fill the log. "" for an unknown member
// costs the same statement. It does not wait for the disk, because the time of the answer would tell which members
// exist; a crash may lose the failures of a moment.
func (s *Store) LogFailedSignIn(ctx context.Context, memberID, address string) error {
	_, err := s.pool.Exec(ctx, `
		WITH hurry AS MATERIALIZED (SELECT `+pg.Unhurried+`),
		failed AS (
			SELECT m.id, m.merchant_id, m.email FROM member m, hurry
			WHERE m.id = $1 AND m.password_hash IS NOT NULL AND m.removed_at IS NULL
		)
		INSERT INTO audit_entry (id, merchant_id, actor, action, subject, detail, address)
		SELECT $2, a.merchant_id, a.email, 'member.sign_in_failed', a.id, 'a wrong password', $3 FROM failed a
		WHERE NOT EXISTS (SELECT FROM audit_entry e WHERE e.merchant_id = a.merchant_id AND e.id > $4
			AND e.action = 'member.sign_in_failed' AND e.subject = a.id AND e.address = $3)`,
		memberID, checkout.NewID(checkout.PrefixAuditEntry), address,
		checkout.FirstID(checkout.PrefixAuditEntry, time.Now().Add(-failurePause)))
	return pg.Wrap("log failed sign-in", err)
}
