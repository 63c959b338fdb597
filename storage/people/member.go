package people

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

const memberColumns = `
	m.id, m.merchant_id, m.email, m.role, m.created_at, m.signed_in_at, m.invitation_expires_at,
	EXISTS (SELECT FROM second_factor f WHERE f.member_id = m.id AND f.confirmed_at IS NOT NULL) AS app,
	(SELECT count(*) FROM passkey p WHERE p.member_id = m.id) AS passkeys`

// InviteMember stores a member without a password, and a mail with the link for choosing one. Only who reads that
// mailbox sees the link, so accepting it proves the address. It returns merchant.ErrEmailInUse when the merchant
// already has a member with this address, merchant.ErrTooManyInvitations, and checkout.ErrNotFound for an unknown
// merchant. A member of another merchant may have the same address. An expired invitation is replaced.
func (s *Store) InviteMember(ctx context.Context, m merchant.Member, by merchant.AuditEntry) error {
	return s.invite(ctx, m, by, false, func(tx pgx.Tx) error {
		return mailMember(ctx, tx, m.ID, merchant.MailInvitation, invitationDetail(m.Role, by))
	})
}

// Invite is InviteMember for an operator, who knows the person and hands over the link. by is the operator's name in
// the audit log. It returns the token of the link. An invitation that is open is replaced too, and there may be any
// number.
func (s *Store) Invite(ctx context.Context, m merchant.Member, by string) (token string, err error) {
	token, hash := merchant.NewToken()
	err = s.invite(ctx, m, merchant.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: m.MerchantID, Actor: by,
		Action: "member.invited", Subject: m.ID, Detail: m.Email + " as " + string(m.Role),
	}, true, func(tx pgx.Tx) error { return keepInvitation(ctx, tx, m.ID, hash) })
	return token, err
}

// invite stores a member, and calls send, which makes the link. It replaces an invitation to the same address that has
// expired, or any that is open.
func (s *Store) invite(
	ctx context.Context, m merchant.Member, by merchant.AuditEntry, open bool, send func(pgx.Tx) error,
) error {
	_, unknown := merchant.NewToken()
	err := pg.RunInTx(ctx, s.pool, "invite member", func(tx pgx.Tx) error {
		// Changes of one merchant's members take turns, see changeMember.
		if _, err := tx.Exec(ctx, `SELECT FROM merchant WHERE id = $1 FOR NO KEY UPDATE`, m.MerchantID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			UPDATE member SET removed_at = clock_timestamp(), invitation_hash = NULL, invitation_expires_at = NULL
			WHERE merchant_id = $1 AND lower(email) = lower($2) AND removed_at IS NULL
				AND password_hash IS NULL AND (invitation_expires_at <= clock_timestamp() OR $3)`, m.MerchantID, m.Email, open)
		if err != nil {
			return err
		}
		if !open {
			if err := mayInvite(ctx, tx, m.MerchantID); err != nil {
				return err
			}
		}

		_, err = tx.Exec(ctx, `
			INSERT INTO member (id, merchant_id, email, role, invitation_hash, invitation_expires_at)
			VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6::interval)`,
			m.ID, m.MerchantID, m.Email, m.Role, unknown, merchant.InvitationLifetime)
		if err != nil {
			return err
		}
		if err := send(tx); err != nil {
			return err
		}
		if m.Role == merchant.RoleOwner {
			if err := MailOwners(ctx, tx, m.MerchantID, merchant.MailOwnersChanged, "Invited: "+MailDetail(by)); err != nil {
				return err
			}
		}
		return pg.Audit(ctx, tx, by)
	})
	switch {
	case pg.Violates(err, "member_merchant_email_key"):
		return merchant.ErrEmailInUse
	case pg.Violates(err, "member_merchant_id_fkey"):
		return checkout.ErrNotFound
	}
	return err
}

// mayInvite returns merchant.ErrTooManyInvitations when a merchant may invite no more people. Expired invitations count
// too: they are in the list until somebody removes them.
func mayInvite(ctx context.Context, tx pgx.Tx, merchantID string) error {
	open, err := pg.Value[int](ctx, tx, `
		SELECT count(*) FROM member WHERE merchant_id = $1 AND removed_at IS NULL AND password_hash IS NULL`, merchantID)
	if err == nil && open >= merchant.MaxOpenInvitations {
		err = merchant.ErrTooManyInvitations
	}
	return err
}

// RenewInvitation mails a new link to a member who has no password yet; the former link ends. Every owner gets a mail
// when the member is an owner. It changes nothing while a mail to the member waits, because that one gets a new link.
// It returns checkout.ErrNotFound.
func (s *Store) RenewInvitation(ctx context.Context, m merchant.Member, by merchant.AuditEntry) error {
	_, unknown := merchant.NewToken()
	err := s.changeMember(ctx, by, toOwners, `
		WITH renewed AS (UPDATE member SET invitation_hash = $3, invitation_expires_at = clock_timestamp() + $4::interval
			WHERE id = $1 AND merchant_id = $2 AND removed_at IS NULL AND password_hash IS NULL
				AND NOT EXISTS (SELECT FROM mail o WHERE o.member_id = $1 AND o.kind = $5 AND o.next_at IS NOT NULL)
			RETURNING id)
		INSERT INTO mail (member_id, kind, detail, next_at) SELECT id, $5, $6, clock_timestamp() FROM renewed`,
		m.ID, m.MerchantID, unknown, merchant.InvitationLifetime, merchant.MailInvitation, invitationDetail(m.Role, by))
	if !errors.Is(err, checkout.ErrNotFound) {
		return err
	}
	waits, waitsErr := pg.Value[bool](ctx, s.pool, `
		SELECT EXISTS (SELECT FROM mail o JOIN member m ON m.id = o.member_id
			WHERE m.id = $1 AND m.merchant_id = $2 AND m.removed_at IS NULL AND m.password_hash IS NULL
				AND o.kind = $3 AND o.next_at IS NOT NULL)`, m.ID, m.MerchantID, merchant.MailInvitation)
	switch {
	case waitsErr != nil:
		return pg.Wrap("waiting invitation", waitsErr)
	case waits:
		return nil
	}
	return err
}

// KeepInvitation stores the SHA-256 of the token of a link that is about to be mailed; the former link ends. It returns
// checkout.ErrNotFound when the member has joined or was removed.
func (s *Store) KeepInvitation(ctx context.Context, memberID string, hash []byte) error {
	return pg.Wrap("keep invitation", keepInvitation(ctx, s.pool, memberID, hash))
}

func keepInvitation(ctx context.Context, to pg.Executor, memberID string, hash []byte) error {
	return pg.Changed(to.Exec(ctx, `
		UPDATE member SET invitation_hash = $2, invitation_expires_at = clock_timestamp() + $3::interval
		WHERE id = $1 AND removed_at IS NULL AND password_hash IS NULL`, memberID, hash, merchant.InvitationLifetime))
}

// Invitation returns the member of an invitation that has not expired, and the merchant's name. It
// returns checkout.ErrNotFound.
func (s *Store) Invitation(ctx context.Context, hash []byte) (merchant.Member, string, error) {
	type row struct {
		merchant.Member
		Merchant string
	}
	m, err := pg.One[row](ctx, s.pool, `
		SELECT `+memberColumns+`, r.name AS merchant FROM member m JOIN merchant r ON r.id = m.merchant_id
		WHERE m.invitation_hash = $1 AND m.invitation_expires_at > clock_timestamp() AND m.removed_at IS NULL`, hash)
	return m.Member, m.Merchant, pg.Wrap("invitation", err)
}

// AcceptInvitation sets the first password and uses up the invitation, which proves the address. The audit log gets the
// member and the IP address. It returns checkout.ErrNotFound when the invitation is unknown or expired.
func (s *Store) AcceptInvitation(
	ctx context.Context, hash []byte, passwordHash, address string,
) (merchant.Member, error) {
	return pg.InTx(ctx, s.pool, "accept invitation", func(tx pgx.Tx) (merchant.Member, error) {
		m, err := pg.One[merchant.Member](ctx, tx, `
			UPDATE member m SET password_hash = $2, joined_at = clock_timestamp(),
				invitation_hash = NULL, invitation_expires_at = NULL
			WHERE m.invitation_hash = $1 AND m.invitation_expires_at > clock_timestamp() AND m.removed_at IS NULL
			RETURNING `+memberColumns, hash, passwordHash)
		if err != nil {
			return m, err
		}
		return m, pg.Audit(ctx, tx, merchant.AuditEntry{
			ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: m.MerchantID, Actor: m.Email,
			Action: "member.joined", Subject: m.ID, Detail: "as " + string(m.Role),
			Address: address,
		})
	})
}

// Member returns one member. It returns checkout.ErrNotFound.
func (s *Store) Member(ctx context.Context, merchantID, memberID string) (merchant.Member, error) {
	m, err := readMember(ctx, s.pool, merchantID, memberID)
	return m, pg.Wrap("member", err)
}

func readMember(ctx context.Context, from pg.Querier, merchantID, memberID string) (merchant.Member, error) {
	return pg.One[merchant.Member](ctx, from, `
		SELECT `+memberColumns+` FROM member m
		WHERE m.id = $1 AND m.merchant_id = $2 AND m.removed_at IS NULL`, memberID, merchantID)
}

// Members returns the members of a merchant, oldest first.
func (s *Store) Members(ctx context.Context, merchantID string) ([]merchant.Member, error) {
	members, err := pg.Collect[merchant.Member](ctx, s.pool, `
		SELECT `+memberColumns+` FROM member m
		WHERE m.merchant_id = $1 AND m.removed_at IS NULL ORDER BY m.id`, merchantID)
	return members, pg.Wrap("members", err)
}

// MemberWithPassword is a member who can sign in.
type MemberWithPassword struct {
	merchant.Member

	Hash string // of the password
}

const selectWithPassword = `
	SELECT ` + memberColumns + `, m.password_hash AS hash FROM member m
	WHERE m.removed_at IS NULL AND m.password_hash IS NOT NULL`

// MembersByEmail returns the members with an address who can sign in: one for each merchant that knows it. Those who
// proved that they read the address come first, and then those who joined first.
func (s *Store) MembersByEmail(ctx context.Context, email string) ([]MemberWithPassword, error) {
	members, err := pg.Collect[MemberWithPassword](ctx, s.pool, selectWithPassword+`
			AND lower(m.email) = lower($1)
		ORDER BY m.joined_at, m.id`, email)
	return members, pg.Wrap("members by address", err)
}

// MemberPassword returns the hash of a member's password. Dangerous actions ask for the password
// again. It returns checkout.ErrNotFound.
func (s *Store) MemberPassword(ctx context.Context, merchantID, memberID string) (string, error) {
	m, err := pg.One[MemberWithPassword](ctx, s.pool, selectWithPassword+`
			AND m.id = $1 AND m.merchant_id = $2`, memberID, merchantID)
	return m.Hash, pg.Wrap("member", err)
}

// Rehash replaces the hash of a member's password by another one of the same password. It changes nothing when the
// password was changed meanwhile.
func (s *Store) Rehash(ctx context.Context, merchantID, memberID, from, to string) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE member SET password_hash = $4 WHERE id = $1 AND merchant_id = $2 AND password_hash = $3`,
		memberID, merchantID, from, to)
	return pg.Wrap("rehash password", err)
}

// SetPassword replaces a member's password and signs the member out of every browser. The member gets a
// mail. It returns checkout.ErrNotFound.
func (s *Store) SetPassword(
	ctx context.Context, merchantID, memberID, passwordHash string, by merchant.AuditEntry,
) error {
	return s.changeMember(ctx, by, toMember, `
		WITH gone AS (DELETE FROM member_session WHERE member_id = $1),
			code AS (DELETE FROM password_reset WHERE member_id = $1)
		UPDATE member SET password_hash = $3
		WHERE id = $1 AND merchant_id = $2 AND removed_at IS NULL AND password_hash IS NOT NULL`,
		memberID, merchantID, passwordHash)
}

// SetRole changes the role of a member. It returns checkout.ErrNotFound, and merchant.ErrLastOwner
// when the merchant would have no owner left. Every owner gets a mail when an owner is made or unmade.
func (s *Store) SetRole(
	ctx context.Context, merchantID, memberID string, role merchant.Role, by merchant.AuditEntry,
) error {
	return s.changeMember(ctx, by, toOwners, `
		UPDATE member SET role = $3 WHERE id = $1 AND merchant_id = $2 AND removed_at IS NULL`, memberID, merchantID, role)
}

// RemoveMember removes a member's access at once, and everything with which the member proves who it is. It
// returns the errors of SetRole.
func (s *Store) RemoveMember(ctx context.Context, merchantID, memberID string, by merchant.AuditEntry) error {
	return s.changeMember(ctx, by, toOwners, `
		WITH who AS (SELECT id FROM member WHERE id = $1 AND merchant_id = $2),
			gone AS (DELETE FROM member_session USING who WHERE member_id = who.id),
			factor AS (DELETE FROM second_factor USING who WHERE member_id = who.id),
			handle AS (DELETE FROM passkey_handle USING who WHERE member_id = who.id),
			passkeys AS (DELETE FROM passkey USING who WHERE member_id = who.id),
			recovery AS (DELETE FROM recovery_code USING who WHERE member_id = who.id),
			reset AS (DELETE FROM password_reset USING who WHERE member_id = who.id)
		UPDATE member SET removed_at = clock_timestamp(), invitation_hash = NULL, invitation_expires_at = NULL
		WHERE id = $1 AND merchant_id = $2 AND removed_at IS NULL`, memberID, merchantID)
}

// mailTo chooses who gets a mail about the change of a member.
type mailTo int

const (
	toMember mailTo = iota
	toOwners        // when the member was an owner, or is one now
)

// changeMember runs statement on one member and writes by to the audit log and to the mails. args[0] must
// be the id of the member, and args[1] the id of the merchant. Changes of one merchant's members take
// turns; otherwise two changes could together remove the last owner.
func (s *Store) changeMember(
	ctx context.Context, by merchant.AuditEntry, tell mailTo, statement string, args ...any,
) error {
	return pg.RunInTx(ctx, s.pool, "change member", func(tx pgx.Tx) error {
		merchantID := args[1]
		// Not FOR UPDATE: a sign-in holds the member's row and inserts an audit entry, which takes
		// a key-share lock on the merchant. The two would deadlock.
		if _, err := tx.Exec(ctx, `
			SELECT FROM merchant WHERE id = $1 FOR NO KEY UPDATE`, merchantID); err != nil {
			return err
		}

		before, err := readStanding(ctx, tx, args[0], merchantID)
		if err != nil {
			return err
		}
		if tell == toOwners && before.Role == merchant.RoleOwner { // before the change, so that this owner gets it too
			if err := MailOwners(ctx, tx, by.MerchantID, merchant.MailOwnersChanged, MailDetail(by)); err != nil {
				return err
			}
		}
		if err := pg.Changed(tx.Exec(ctx, statement, args...)); err != nil {
			return err
		}
		now, err := readStanding(ctx, tx, args[0], merchantID)
		switch {
		case err != nil:
		case now.Owners == 0 && before.Owners > 0:
			return merchant.ErrLastOwner
		case tell == toMember:
			return noteChange(ctx, tx, by.Subject, by)
		case before.Role != merchant.RoleOwner && now.Role == merchant.RoleOwner:
			err = MailOwners(ctx, tx, by.MerchantID, merchant.MailOwnersChanged, MailDetail(by))
		}
		if err != nil {
			return err
		}
		return pg.Audit(ctx, tx, by)
	})
}

// standing is what a change of a member may take from its merchant.
type standing struct {
	Owners int           // who can sign in
	Role   merchant.Role // of the member, "" for an unknown one
}

func readStanding(ctx context.Context, tx pgx.Tx, memberID, merchantID any) (standing, error) {
	return pg.One[standing](ctx, tx, `
		SELECT count(*) FILTER (WHERE role = 'owner' AND removed_at IS NULL AND password_hash IS NOT NULL) AS owners,
			coalesce(max(role) FILTER (WHERE id = $1), '') AS role
		FROM member WHERE merchant_id = $2`, memberID, merchantID)
}
