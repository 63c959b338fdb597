package people

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// passkeyHandleBytes is the length of a member's name towards passkeys. Source: WebAuthn, section 14.6.1.
const passkeyHandleBytes = 64

// challengeLifetime is how long a person may take to answer a challenge with a passkey.
const challengeLifetime = 5 * time.Minute

// PasskeyHandle returns the random name of a member towards passkeys, and makes it when there is none. It
// returns checkout.ErrNotFound.
func (s *Store) PasskeyHandle(ctx context.Context, merchantID, memberID string) ([]byte, error) {
	made := make([]byte, passkeyHandleBytes)
	_, _ = rand.Read(made) // never fails: crypto/rand ends the process instead
	return pg.InTx(ctx, s.pool, "passkey handle", func(tx pgx.Tx) (handle []byte, err error) {
		_, err = tx.Exec(ctx, `
			INSERT INTO passkey_handle (member_id, handle)
			SELECT id, $3 FROM member WHERE id = $1 AND merchant_id = $2 AND removed_at IS NULL
			ON CONFLICT (member_id) DO NOTHING`, memberID, merchantID, made)
		if err != nil {
			return nil, err
		}
		return pg.Value[[]byte](ctx, tx, `
			SELECT h.handle FROM passkey_handle h JOIN member m ON m.id = h.member_id
			WHERE m.id = $1 AND m.merchant_id = $2 AND m.removed_at IS NULL`, memberID, merchantID)
	})
}

// MemberByPasskeyHandle returns the member with a name towards passkeys, and the hash of the password. The name
// is random and known to the member's passkeys only, so it also determines the merchant. It returns
// checkout.ErrNotFound.
func (s *Store) MemberByPasskeyHandle(ctx context.Context, handle []byte) (MemberWithPassword, error) {
	m, err := pg.One[MemberWithPassword](ctx, s.pool, selectWithPassword+`
			AND m.id = (SELECT h.member_id FROM passkey_handle h WHERE h.handle = $1)`, handle)
	return m, pg.Wrap("member", err)
}

const selectKeys = `
	SELECT p.id, p.name, p.credential, p.created_at, p.used_at FROM passkey p JOIN member m ON m.id = p.member_id
	WHERE m.id = $1 AND m.merchant_id = $2 AND m.removed_at IS NULL ORDER BY p.id`

// Passkeys returns the passkeys of a member, oldest first.
func (s *Store) Passkeys(ctx context.Context, merchantID, memberID string) ([]merchant.Passkey, error) {
	all, err := pg.Collect[merchant.Passkey](ctx, s.pool, selectKeys, memberID, merchantID)
	return all, pg.Wrap("passkeys", err)
}

// NewPasskey is what AddPasskey stores.
type NewPasskey struct {
	merchant.Passkey
	MerchantID   string
	MemberID     string
	CredentialID []byte   // as the passkey calls itself
	Recovery     [][]byte // SHA-256 of recovery codes, for a first second factor
	Keep         []byte   // the browser that stays signed in after a first second factor
}

// AddPasskey gives a passkey to a member, who gets a mail. A first second factor brings the recovery codes and
// signs the member out of every browser but one; first is true then. It returns checkout.ErrNotFound for an unknown
// member, and checkout.ErrConflict when somebody has the passkey already.
func (s *Store) AddPasskey(ctx context.Context, p NewPasskey, by merchant.AuditEntry) (first bool, err error) {
	first, err = pg.InTx(ctx, s.pool, "add passkey", func(tx pgx.Tx) (first bool, err error) {
		// The same turn as in changeMember, so that no other factor comes or goes meanwhile.
		if _, err := tx.Exec(ctx, `SELECT FROM merchant WHERE id = $1 FOR NO KEY UPDATE`, p.MerchantID); err != nil {
			return false, err
		}
		if err := lockMember(ctx, tx, p.MemberID); err != nil {
			return false, err
		}
		m, err := readMember(ctx, tx, p.MerchantID, p.MemberID)
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO passkey (id, member_id, credential_id, name, credential) VALUES ($1, $2, $3, $4, $5)`,
			p.ID, m.ID, p.CredentialID, p.Name, p.Credential)
		if err != nil {
			return false, err
		}
		if first = !m.SecondFactor(); first {
			_, err = tx.Exec(ctx, `
				WITH old AS (DELETE FROM recovery_code WHERE member_id = $1 AND hash <> ALL ($2)),
				others AS (DELETE FROM member_session WHERE member_id = $1 AND hash <> $3)
				INSERT INTO recovery_code (member_id, hash) SELECT $1, unnest($2::bytea[])`, m.ID, p.Recovery, p.Keep)
			if err != nil {
				return false, err
			}
		}
		return first, noteChange(ctx, tx, m.ID, by)
	})
	if pg.Violates(err, "passkey_credential_id_key") {
		err = checkout.ErrConflict
	}
	return first, err
}

// RenamePasskey gives a passkey of a member another name. It returns checkout.ErrNotFound.
func (s *Store) RenamePasskey(
	ctx context.Context, merchantID, memberID, id, name string, by merchant.AuditEntry,
) error {
	return pg.RunInTx(ctx, s.pool, "rename passkey", func(tx pgx.Tx) error {
		err := pg.Changed(tx.Exec(ctx, `
			UPDATE passkey p SET name = $4 FROM member m
			WHERE p.id = $3 AND m.id = p.member_id AND m.id = $1 AND m.merchant_id = $2`, memberID, merchantID, id, name))
		if err != nil {
			return err
		}
		return pg.Audit(ctx, tx, by)
	})
}

// RemovePasskey removes a passkey of a member, who gets a mail. With the last second factor the recovery codes go
// too. It returns checkout.ErrNotFound.
func (s *Store) RemovePasskey(ctx context.Context, merchantID, memberID, id string, by merchant.AuditEntry) error {
	return s.changeMember(ctx, by, toMember, `
		WITH codes AS (
			DELETE FROM recovery_code r USING member m
			WHERE r.member_id = m.id AND m.id = $1 AND m.merchant_id = $2
				AND EXISTS (SELECT FROM passkey p WHERE p.member_id = m.id AND p.id = $3)
				AND NOT EXISTS (SELECT FROM passkey p WHERE p.member_id = m.id AND p.id <> $3)
				AND NOT EXISTS (SELECT FROM second_factor f WHERE f.member_id = m.id AND f.confirmed_at IS NOT NULL))
		DELETE FROM passkey p USING member m
		WHERE p.member_id = m.id AND m.id = $1 AND m.merchant_id = $2 AND p.id = $3`, memberID, merchantID, id)
}

// UsePasskey locks the passkeys of a member and calls use with them. use returns the passkey that was used, with
// its new Credential, or an error, which UsePasskey returns too. So two answers of one passkey take turns, and the
// second one sees the count of the first.
func (s *Store) UsePasskey(
	ctx context.Context, merchantID, memberID string, use func([]merchant.Passkey) (merchant.Passkey, error),
) error {
	return pg.RunInTx(ctx, s.pool, "use passkey", func(tx pgx.Tx) error {
		all, err := pg.Collect[merchant.Passkey](ctx, tx, selectKeys+` FOR NO KEY UPDATE OF p`, memberID, merchantID)
		if err != nil {
			return err
		}
		used, err := use(all)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE passkey SET credential = $3, used_at = clock_timestamp() WHERE id = $1 AND member_id = $2`,
			used.ID, memberID, used.Credential)
		return err
	})
}

// Challenge is what a passkey has to sign.
type Challenge struct {
	Text    string // as the passkey gets it
	Browser []byte // SHA-256 of the cookie of the browser that may answer
	Purpose string
	Session []byte // what the answer must agree with
}

func (c Challenge) hash() []byte {
	sum := sha256.Sum256([]byte(c.Text))
	return sum[:]
}

// KeepChallenge stores a challenge for challengeLifetime. It deletes the ones that have run out.
func (s *Store) KeepChallenge(ctx context.Context, c Challenge) error {
	_, err := s.pool.Exec(ctx, `
		WITH old AS (DELETE FROM passkey_challenge WHERE hash IN (
			SELECT hash FROM passkey_challenge WHERE expires_at <= clock_timestamp() LIMIT 100 FOR UPDATE SKIP LOCKED))
		INSERT INTO passkey_challenge (hash, browser, purpose, session, expires_at)
		VALUES ($1, $2, $3, $4, clock_timestamp() + $5::interval)`,
		c.hash(), c.Browser, c.Purpose, c.Session, challengeLifetime)
	return pg.Wrap("keep challenge", err)
}

// TakeChallenge returns the Session of a challenge with the Text, Browser and Purpose of c, and deletes it: a
// challenge is good once. It returns checkout.ErrNotFound.
func (s *Store) TakeChallenge(ctx context.Context, c Challenge) (session []byte, err error) {
	err = s.pool.QueryRow(ctx, `
		DELETE FROM passkey_challenge WHERE hash = $1 AND browser = $2 AND purpose = $3
			AND expires_at > clock_timestamp() RETURNING session`, c.hash(), c.Browser, c.Purpose).Scan(&session)
	return session, pg.Wrap("take challenge", pg.Found(err))
}
