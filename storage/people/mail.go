package people

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// mailLease is how long one sender has a mail before another may try it.
const mailLease = 2 * time.Minute

// mailPatience is how long a mail is tried. Later its news is old, or the service had no mail server.
const mailPatience = 24 * time.Hour

// MailOwners writes a mail to every owner of a merchant who can sign in, in the transaction that the mail is about.
func MailOwners(ctx context.Context, to pg.Executor, merchantID string, kind merchant.MailKind, detail string) error {
	return MailRoles(ctx, to, merchantID, []merchant.Role{merchant.RoleOwner}, kind, "", detail)
}

// MailRoles is MailOwners for the members with one of the roles. page is as in merchant.Mail.
func MailRoles(
	ctx context.Context, to pg.Executor, merchantID string, roles []merchant.Role, kind merchant.MailKind,
	page, detail string,
) error {
	_, err := to.Exec(ctx, `
		INSERT INTO mail (member_id, kind, detail, page, next_at)
		SELECT id, $3, $4, $5, clock_timestamp() FROM member
		WHERE merchant_id = $1 AND role = ANY ($2) AND removed_at IS NULL AND password_hash IS NOT NULL`,
		merchantID, roles, kind, detail, page)
	return pg.Wrap("mail to members", err)
}

// mailMember writes a mail to one person.
func mailMember(ctx context.Context, to pg.Executor, memberID string, kind merchant.MailKind, detail string) error {
	_, err := to.Exec(ctx, `
		INSERT INTO mail (member_id, kind, detail, next_at) VALUES ($1, $2, $3, clock_timestamp())`, memberID, kind, detail)
	return pg.Wrap("mail to member", err)
}

// noteChange writes by, about a change of a member's account, to the audit log and to the member.
func noteChange(ctx context.Context, tx pgx.Tx, memberID string, by merchant.AuditEntry) error {
	if err := mailMember(ctx, tx, memberID, merchant.MailAccountChanged, MailDetail(by)); err != nil {
		return err
	}
	return pg.Audit(ctx, tx, by)
}

// invitationDetail has no IP address: the invited person may be a stranger.
func invitationDetail(role merchant.Role, by merchant.AuditEntry) string {
	return "Role: " + string(role) + "\nInvited by: " + by.Actor
}

// MailDetail returns the text of an audit entry for a mail.
func MailDetail(by merchant.AuditEntry) string {
	detail := by.Detail + "\nBy: " + by.Actor
	if by.Address != "" {
		detail += "\nFrom the IP address: " + by.Address
	}
	return detail
}

// resetPause is how long a person waits between two mails with a code.
const resetPause = 2 * time.Minute

// AskForReset makes a mail with a code for every member with this address who has a password. A person may
// have an account at several merchants. None is made while another one waits. An unknown address costs the same
// write, so that the time of the answer does not tell which addresses are known.
func (s *Store) AskForReset(ctx context.Context, email string) error {
	_, err := s.pool.Exec(ctx, `
		WITH asked AS (
			INSERT INTO mail (member_id, kind, next_at)
			SELECT id, $2, clock_timestamp() FROM member m
			WHERE lower(email) = lower($1) AND removed_at IS NULL AND password_hash IS NOT NULL
				AND NOT EXISTS (SELECT FROM mail o WHERE o.member_id = m.id AND o.kind = $2
					AND (o.created_at > clock_timestamp() - $3::interval OR o.next_at IS NOT NULL))
			RETURNING 1
		)
		INSERT INTO mail (kind) SELECT $2 WHERE NOT EXISTS (SELECT FROM asked)`,
		email, merchant.MailPasswordReset, resetPause)
	return pg.Wrap("ask for a new password", err)
}

// DueMails takes up to limit mails that are due: those to people who sign in come before receipts, and older
// ones before newer ones. Nobody else gets them for some minutes. A
// mail that is taken and not reported with MailSent or MailFailed becomes due again.
func (s *Store) DueMails(ctx context.Context, limit int) ([]merchant.Mail, error) {
	mails, err := pg.Collect[merchant.Mail](ctx, s.pool, `
		WITH due AS (
			SELECT id, member_id FROM mail
			WHERE next_at <= clock_timestamp() AND created_at >= clock_timestamp() - $3::interval
			ORDER BY session_id IS NOT NULL, next_at LIMIT $1 FOR UPDATE SKIP LOCKED
		)
		UPDATE mail l SET attempts = attempts + 1, next_at = clock_timestamp() + $2::interval
		FROM due LEFT JOIN member m ON m.id = due.member_id LEFT JOIN merchant r ON r.id = m.merchant_id
		WHERE l.id = due.id
		RETURNING l.id, l.kind, l.detail, l.created_at, l.attempts, coalesce(m.id, '') AS member_id,
			coalesce(r.id, '') AS merchant_id, coalesce(r.name, '') AS merchant, coalesce(m.email, '') AS to,
			coalesce(l.session_id, '') AS session_id, l.page`, limit, mailLease, mailPatience)
	return mails, pg.Wrap("due mails", err)
}

// GiveUpMails ends the mails that were tried for too long. It returns their ids.
func (s *Store) GiveUpMails(ctx context.Context) ([]int64, error) {
	ids, err := pg.Values[int64](ctx, s.pool, `
		UPDATE mail SET next_at = NULL WHERE id IN (
			SELECT id FROM mail WHERE next_at <= clock_timestamp() AND created_at < clock_timestamp() - $1::interval
			FOR UPDATE SKIP LOCKED)
		RETURNING id`, mailPatience)
	return ids, pg.Wrap("give up mails", err)
}

// MailSent notes that the mail server has a mail. It is not sent again.
func (s *Store) MailSent(ctx context.Context, id int64) error {
	_, err := s.pool.Exec(ctx, `UPDATE mail SET next_at = NULL, sent_at = clock_timestamp() WHERE id = $1`, id)
	return pg.Wrap("mail sent", err)
}

// MailHeldBack lets a mail, of which there are too many, be tried after a delay. It counts as no attempt.
func (s *Store) MailHeldBack(ctx context.Context, id int64, delay time.Duration) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE mail SET next_at = clock_timestamp() + $2::interval, attempts = attempts - 1 WHERE id = $1`, id, delay)
	return pg.Wrap("hold back mail", err)
}

// MailFailed lets a mail be tried again after a delay; never with 0.
func (s *Store) MailFailed(ctx context.Context, id int64, delay time.Duration) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE mail SET next_at = CASE WHEN $2 > interval '0' THEN clock_timestamp() + $2::interval END
		WHERE id = $1`, id, delay)
	return pg.Wrap("mail failed", err)
}

// KeepReset stores the SHA-256 of the code in a mail. The codes of earlier mails stay good: a stranger, who
// may ask for a mail to any address, could otherwise end them one after another. It returns
// checkout.ErrNotFound when the member cannot sign in.
func (s *Store) KeepReset(ctx context.Context, memberID string, hash []byte) error {
	err := pg.Changed(s.pool.Exec(ctx, `
		WITH old AS (DELETE FROM password_reset WHERE member_id = $1 AND expires_at <= clock_timestamp())
		INSERT INTO password_reset (hash, member_id, expires_at)
		SELECT $2, id, clock_timestamp() + $3::interval FROM member
		WHERE id = $1 AND removed_at IS NULL AND password_hash IS NOT NULL`, memberID, hash, merchant.PasswordResetLifetime))
	return pg.Wrap("keep code", err)
}

// ResetEmail returns the e-mail address of the member of a code. It returns checkout.ErrNotFound when the code is
// unknown, was used or has run out.
func (s *Store) ResetEmail(ctx context.Context, hash []byte) (email string, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT m.email FROM password_reset r JOIN member m ON m.id = r.member_id
		WHERE r.hash = $1 AND r.expires_at > clock_timestamp() AND m.removed_at IS NULL`, hash).Scan(&email)
	return email, pg.Wrap("member of a code", pg.Found(err))
}

// ResetPassword gives the member of a code a new password, ends all codes of the member and signs the member
// out of every browser. address is the IP address of the request. It returns checkout.ErrNotFound when the code is
// unknown, was used or has run out.
func (s *Store) ResetPassword(ctx context.Context, hash []byte, passwordHash, address string) error {
	return pg.RunInTx(ctx, s.pool, "reset password", func(tx pgx.Tx) error {
		m, err := pg.One[merchant.Member](ctx, tx, `
			WITH used AS (
				SELECT member_id FROM password_reset WHERE hash = $1 AND expires_at > clock_timestamp() FOR UPDATE
			), codes AS (
				DELETE FROM password_reset r USING used WHERE r.member_id = used.member_id
			), gone AS (
				DELETE FROM member_session s USING used WHERE s.member_id = used.member_id
			)
			UPDATE member m SET password_hash = $2
			FROM used
			WHERE m.id = used.member_id AND m.removed_at IS NULL AND m.password_hash IS NOT NULL
			RETURNING `+memberColumns, hash, passwordHash)
		if err != nil {
			return err
		}
		by := merchant.AuditEntry{
			ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: m.MerchantID, Actor: m.Email,
			Action: "member.password_reset", Subject: m.ID, Detail: "Your password was changed with a code from a mail.",
			Address: address,
		}
		return noteChange(ctx, tx, m.ID, by)
	})
}
