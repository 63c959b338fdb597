package people

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// revealLifetime is how long a secret waits for the page that shows it.
const revealLifetime = 5 * time.Minute

// Reveal is a secret that one browser may see once. It is stored sealed. The sealed text is
// deleted when it was shown, after revealLifetime, and when the browser signs out.
type Reveal struct {
	Browser []byte // SHA-256 of the browser's token
	Form    string // token of the form that makes the secret
	checkout.Owner

	Subject string // id of the object that the secret belongs to
	Secret  string
}

// KeepReveal stores a secret before the object that it belongs to is created. So no object exists
// with a secret that its owner can never see. It returns first = false and the first subject when
// the same form was sent before: it stores nothing then, and the caller must not create anything.
func (s *Secrets) KeepReveal(ctx context.Context, r Reveal) (subject string, first bool, err error) {
	keyID, sealed := s.keys.Seal(r.Subject, []byte(r.Secret))
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := forgetReveals(ctx, tx); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			INSERT INTO reveal (session_hash, form, merchant_id, mode, subject, master_key_id,
				sealed) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (session_hash, form) DO NOTHING`, r.Browser, r.Form, r.MerchantID, r.Mode, r.Subject, keyID, sealed)
		if err != nil {
			return err
		}
		first = tag.RowsAffected() > 0
		return tx.QueryRow(ctx, `
			SELECT subject FROM reveal WHERE session_hash = $1 AND form = $2 AND merchant_id = $3 AND mode = $4`,
			r.Browser, r.Form, r.MerchantID, r.Mode).Scan(&subject)
	})
	return subject, first, pg.Wrap("keep secret", err)
}

// DropReveal undoes KeepReveal after the object could not be created.
func (s *Secrets) DropReveal(ctx context.Context, r Reveal) error {
	_, err := s.pool.Exec(ctx, `
		DELETE FROM reveal WHERE session_hash = $1 AND form = $2 AND merchant_id = $3 AND mode = $4 AND subject = $5`,
		r.Browser, r.Form, r.MerchantID, r.Mode, r.Subject)
	return pg.Wrap("drop secret", err)
}

// TakeReveal returns the newest secret of r.Subject for r.Browser and deletes it. It returns
// checkout.ErrNotFound when the secret was shown already or waited too long.
func (s *Secrets) TakeReveal(ctx context.Context, r Reveal) (secret string, err error) {
	return pg.InTx(ctx, s.pool, "take secret", func(tx pgx.Tx) (secret string, err error) {
		var (
			keyID  string
			sealed []byte
		)

		err = tx.QueryRow(ctx, `
			SELECT form, master_key_id, sealed FROM reveal
			WHERE session_hash = $1 AND merchant_id = $2 AND mode = $3 AND subject = $4
				AND sealed IS NOT NULL AND created_at > clock_timestamp() - $5::interval
			ORDER BY created_at DESC LIMIT 1 FOR UPDATE`,
			r.Browser, r.MerchantID, r.Mode, r.Subject, revealLifetime).Scan(&r.Form, &keyID, &sealed)
		if err != nil {
			return secret, pg.Found(err)
		}
		plain, err := s.keys.Unseal(keyID, r.Subject, sealed)
		if err != nil {
			return secret, err
		}
		secret = string(plain)
		_, err = tx.Exec(ctx, `
			UPDATE reveal SET master_key_id = NULL, sealed = NULL
			WHERE session_hash = $1 AND merchant_id = $2 AND mode = $3 AND subject = $4`,
			r.Browser, r.MerchantID, r.Mode, r.Subject)
		return secret, err
	})
}

// ForgetReveals deletes the secrets of all merchants that waited too long. Housekeeping calls it.
func (s *Secrets) ForgetReveals(ctx context.Context) error { return forgetReveals(ctx, s.pool) }

func forgetReveals(ctx context.Context, in pg.Executor) error {
	_, err := in.Exec(ctx, `
		UPDATE reveal SET master_key_id = NULL, sealed = NULL WHERE (session_hash, form) IN (
			SELECT session_hash, form FROM reveal
			WHERE sealed IS NOT NULL AND created_at < clock_timestamp() - $1::interval
			FOR UPDATE SKIP LOCKED)`, revealLifetime)
	return pg.Wrap("forget secrets", err)
}
