package people

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// How long a browser stays signed in. Source: api/decisions/dashboard.md, "browsers".
const (
	memberIdle     = 2 * time.Hour
	memberLifetime = 24 * time.Hour
)

// stillSignedIn is true for the token s of the member m while it is valid; $2 is memberIdle, and $3 memberLifetime.
const stillSignedIn = `m.removed_at IS NULL
	AND s.seen_at > clock_timestamp() - $2::interval AND s.created_at > clock_timestamp() - $3::interval`

// signInSuspended is true for a merchant r whose people may not use the dashboard.
const signInSuspended = `'sign_in' = ANY (r.suspended)`

// SignIn stores a signed-in browser; hash is the SHA-256 of its token. The entries by go to the
// audit log in the same transaction. m is the member as it was read to decide what a sign-in needs, and passwordHash
// the hash that the given password was compared with. It returns checkout.ErrNotFound when the member has another
// password or a first second factor by now, or was removed: that ended every browser, so none may follow without it. It
// returns checkout.ErrMerchantSuspended while the merchant's sign-in is suspended.
func (s *Store) SignIn(
	ctx context.Context, m merchant.Member, passwordHash string, hash []byte, by ...merchant.AuditEntry,
) error {
	return pg.RunInTx(ctx, s.pool, "sign in", func(tx pgx.Tx) error {
		// The lock lets a suspension wait for this browser, and sign it out.
		suspended, err := pg.Value[bool](ctx, tx, `
			SELECT `+signInSuspended+` FROM merchant r WHERE r.id = $1 FOR SHARE`, m.MerchantID)
		if err != nil {
			return err
		}
		if suspended {
			return checkout.ErrMerchantSuspended
		}
		err = pg.Changed(tx.Exec(ctx, `
			WITH now AS (
				UPDATE member SET signed_in_at = clock_timestamp()
				WHERE id = $1 AND password_hash = $5 AND removed_at IS NULL RETURNING id
			), old AS (
				DELETE FROM member_session WHERE member_id = $1
					AND (seen_at < now() - $3::interval OR created_at < now() - $4::interval)
			)
			INSERT INTO member_session (hash, member_id) SELECT $2, id FROM now`,
			m.ID, hash, memberIdle, memberLifetime, passwordHash))
		if err != nil {
			return err
		}
		if !m.SecondFactor() {
			// The statement above has locked the member, see lockMember. So this one sees a factor that came meanwhile.
			now, err := readMember(ctx, tx, m.MerchantID, m.ID)
			if err != nil {
				return err
			}
			if now.SecondFactor() {
				return checkout.ErrNotFound
			}
		}
		return pg.Audit(ctx, tx, by...)
	})
}

// lockMember lets a sign-in and a first second factor take turns. What ends the other browsers comes in a later
// statement, so that it sees those that signed in meanwhile.
func lockMember(ctx context.Context, tx pgx.Tx, memberID string) error {
	_, err := tx.Exec(ctx, `SELECT FROM member WHERE id = $1 FOR NO KEY UPDATE`, memberID)
	return err
}

// SignedInMember is a member who is signed in, the merchant's name and the SHA-256 of the browser's token.
type SignedInMember struct {
	merchant.Member

	Merchant  string
	Suspended merchant.Suspended // of the merchant
	Hash      []byte
}

// SignedIn returns the members of the tokens of one browser in any order; hashes are the SHA-256 of the tokens. Tokens
// that are not valid, or whose merchant's sign-in is suspended, are left out. It counts as use of the token of a
// merchant, "" for none. Callers ask on each request, so a removal or a new role takes effect with the next request.
func (s *Store) SignedIn(ctx context.Context, merchantID string, hashes ...[]byte) ([]SignedInMember, error) {
	members, err := pg.Collect[SignedInMember](ctx, s.pool, `
		WITH seen AS ( -- a write a minute is enough to know who is idle
			UPDATE member_session s SET seen_at = clock_timestamp() FROM member m
			WHERE s.hash = ANY ($1) AND m.id = s.member_id AND m.merchant_id = $4
				AND s.seen_at < clock_timestamp() - interval '1 minute' AND s.seen_at > clock_timestamp() - $2::interval
		)
		SELECT `+memberColumns+`, r.name AS merchant, r.suspended, s.hash
		FROM member_session s JOIN member m ON m.id = s.member_id JOIN merchant r ON r.id = m.merchant_id
		WHERE s.hash = ANY ($1) AND NOT `+signInSuspended+` AND `+stillSignedIn,
		hashes, memberIdle, memberLifetime, merchantID)
	return members, pg.Wrap("signed in", err)
}

// SignOut deletes tokens of a signed-in browser. A repeat changes nothing.
func (s *Store) SignOut(ctx context.Context, hashes ...[]byte) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM member_session WHERE hash = ANY ($1)`, hashes)
	return pg.Wrap("sign out", err)
}

// SignOutAll deletes every signed-in browser of a merchant's members, in the transaction of what ends their sign-in.
func SignOutAll(ctx context.Context, tx pgx.Tx, merchantID string) error {
	_, err := tx.Exec(ctx, `
		DELETE FROM member_session s USING member m WHERE m.id = s.member_id AND m.merchant_id = $1`, merchantID)
	return err
}

// SignOutEverywhere deletes every signed-in browser of a member, and writes by to the audit log.
func (s *Store) SignOutEverywhere(ctx context.Context, memberID string, by merchant.AuditEntry) error {
	return pg.RunInTx(ctx, s.pool, "sign out", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM member_session WHERE member_id = $1`, memberID); err != nil {
			return err
		}
		return pg.Audit(ctx, tx, by)
	})
}
