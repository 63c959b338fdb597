package people

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// CodeCheck looks for the time step of a typed code, among the steps after the step after. It returns
// false when the code belongs to none of them.
type CodeCheck func(secret []byte, after int64) (step int64, ok bool)

// sealedFactor is the owner to which the secret of a member's second factor is bound, see Keyring.Seal.
func sealedFactor(memberID string) string { return "second factor " + memberID }

// StartSecondFactor stores a new secret for a member. It is no second factor until ConfirmSecondFactor. It
// returns checkout.ErrNotFound when the member is unknown or has a second factor already.
func (s *Secrets) StartSecondFactor(ctx context.Context, merchantID, memberID string, secret []byte) error {
	keyID, sealed := s.keys.Seal(sealedFactor(memberID), secret)
	err := pg.Changed(s.pool.Exec(ctx, `
		INSERT INTO second_factor (member_id, master_key_id, sealed)
		SELECT id, $3, $4 FROM member WHERE id = $1 AND merchant_id = $2 AND removed_at IS NULL
		ON CONFLICT (member_id) DO UPDATE SET master_key_id = excluded.master_key_id, sealed = excluded.sealed,
			created_at = clock_timestamp() WHERE second_factor.confirmed_at IS NULL`, memberID, merchantID, keyID, sealed))
	return pg.Wrap("start second factor", err)
}

// StartedSecondFactor returns the secret that StartSecondFactor stored and that is not confirmed. It
// returns checkout.ErrNotFound.
func (s *Secrets) StartedSecondFactor(ctx context.Context, merchantID, memberID string) (secret []byte, err error) {
	return pg.InTx(ctx, s.pool, "second factor", func(tx pgx.Tx) (secret []byte, err error) {
		secret, _, err = s.secondFactor(ctx, tx, merchantID, memberID, false)
		return secret, err
	})
}

// secondFactor reads and locks the second factor of a member.
func (s *Secrets) secondFactor(
	ctx context.Context, tx pgx.Tx, merchantID, memberID string, confirmed bool,
) (secret []byte, lastStep int64, err error) {
	var keyID string
	var sealed []byte
	err = tx.QueryRow(ctx, `
		SELECT f.master_key_id, f.sealed, f.last_step FROM second_factor f JOIN member m ON m.id = f.member_id
		WHERE m.id = $1 AND m.merchant_id = $2 AND m.removed_at IS NULL AND (f.confirmed_at IS NOT NULL) = $3
		FOR UPDATE OF f`, memberID, merchantID, confirmed).Scan(&keyID, &sealed, &lastStep)
	if err != nil {
		return nil, 0, pg.Found(err)
	}
	secret, err = s.keys.Unseal(keyID, sealedFactor(memberID), sealed)
	return secret, lastStep, err
}

// ConfirmSecondFactor makes the started secret the member's second factor when check accepts the typed code.
// recovery are the SHA-256 of the codes that replace the app. The member is signed out of every other
// browser than keep. It returns checkout.ErrNotFound when nothing was started or the code is wrong.
func (s *Secrets) ConfirmSecondFactor(
	ctx context.Context, merchantID, memberID string, check CodeCheck, recovery [][]byte, keep []byte,
	by merchant.AuditEntry,
) error {
	return pg.RunInTx(ctx, s.pool, "confirm second factor", func(tx pgx.Tx) error {
		if err := lockMember(ctx, tx, memberID); err != nil {
			return err
		}
		secret, last, err := s.secondFactor(ctx, tx, merchantID, memberID, false)
		if err != nil {
			return err
		}
		step, ok := check(secret, last)
		if !ok {
			return checkout.ErrNotFound
		}
		_, err = tx.Exec(ctx, `
			WITH old AS (DELETE FROM recovery_code WHERE member_id = $1 AND hash <> ALL ($3)),
			codes AS (INSERT INTO recovery_code (member_id, hash) SELECT $1, unnest($3::bytea[])),
			others AS (DELETE FROM member_session WHERE member_id = $1 AND hash <> $4)
			UPDATE second_factor SET confirmed_at = clock_timestamp(), last_step = $2 WHERE member_id = $1`,
			memberID, step, recovery, keep)
		if err != nil {
			return err
		}
		return noteChange(ctx, tx, memberID, by)
	})
}

// UseCode reports whether check accepts the typed code of a member's second factor. An accepted code is used up, with
// the codes of earlier time steps.
func (s *Secrets) UseCode(ctx context.Context, merchantID, memberID string, check CodeCheck) (bool, error) {
	return pg.InTx(ctx, s.pool, "use code", func(tx pgx.Tx) (bool, error) {
		secret, last, err := s.secondFactor(ctx, tx, merchantID, memberID, true)
		if err != nil {
			return false, err
		}
		step, ok := check(secret, last)
		if !ok {
			return false, nil
		}
		_, err = tx.Exec(ctx, `UPDATE second_factor SET last_step = $2 WHERE member_id = $1`, memberID, step)
		return true, err
	})
}

// UseRecoveryCode reports whether a member has the recovery code with this SHA-256, and deletes it. by goes
// to the audit log then.
func (s *Store) UseRecoveryCode(
	ctx context.Context, merchantID, memberID string, hash []byte, by merchant.AuditEntry,
) (bool, error) {
	return pg.InTx(ctx, s.pool, "use recovery code", func(tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, `
			DELETE FROM recovery_code r USING member m
			WHERE r.member_id = $1 AND r.hash = $3 AND m.id = r.member_id AND m.merchant_id = $2 AND m.removed_at IS NULL`,
			memberID, merchantID, hash)
		if err != nil || tag.RowsAffected() == 0 {
			return false, err
		}
		return true, noteChange(ctx, tx, memberID, by)
	})
}

// RecoveryCodes counts the recovery codes that a member has left.
func (s *Store) RecoveryCodes(ctx context.Context, merchantID, memberID string) (n int, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT count(*) FROM recovery_code r JOIN member m ON m.id = r.member_id
		WHERE m.id = $1 AND m.merchant_id = $2`, memberID, merchantID).Scan(&n)
	return n, pg.Wrap("recovery codes", err)
}

// RemoveSecondFactor removes the codes of a member's app. The recovery codes go too, unless the member has a
// passkey. It returns checkout.ErrNotFound when there are no codes of an app.
func (s *Store) RemoveSecondFactor(ctx context.Context, merchantID, memberID string, by merchant.AuditEntry) error {
	return s.changeMember(ctx, by, toMember, `
		WITH codes AS (DELETE FROM recovery_code r USING member m
			WHERE r.member_id = m.id AND m.id = $1 AND m.merchant_id = $2
				AND NOT EXISTS (SELECT FROM passkey p WHERE p.member_id = m.id))
		DELETE FROM second_factor f USING member m
		WHERE f.member_id = m.id AND m.id = $1 AND m.merchant_id = $2 AND f.confirmed_at IS NOT NULL`, memberID, merchantID)
}

// ResetFactors removes every second factor of a member and the recovery codes, and signs the member out of every
// browser. The member gets a mail. It returns checkout.ErrNotFound when there is none.
func (s *Store) ResetFactors(ctx context.Context, merchantID, memberID string, by merchant.AuditEntry) error {
	return s.changeMember(ctx, by, toMember, `
		WITH who AS (SELECT id FROM member WHERE id = $1 AND merchant_id = $2 AND removed_at IS NULL),
			app AS (DELETE FROM second_factor USING who WHERE member_id = who.id RETURNING 1),
			keys AS (DELETE FROM passkey USING who WHERE member_id = who.id RETURNING 1),
			codes AS (DELETE FROM recovery_code USING who WHERE member_id = who.id),
			gone AS (DELETE FROM member_session USING who WHERE member_id = who.id)
		SELECT 1 FROM app UNION ALL SELECT 1 FROM keys`, memberID, merchantID)
}
