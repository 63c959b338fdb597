package storage

import (
	"context"
	"crypto/subtle"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
)

// keyCheck is the plain text of master_key.check_value.
const keyCheck = "checkout master key"

// checkKeys proves that the keyring holds every key that something here still needs. Only then it registers the current
// key: a refused process must not register a key that would make the right process fail. It checks again afterwards,
// because another process may register a key at the same time.
func (s *Installation) checkKeys(ctx context.Context) error {
	return pg.RunInTx(ctx, s.pool, "check master key", func(tx pgx.Tx) error {
		if err := s.proveKeys(ctx, tx); err != nil {
			return err
		}
		id, sealed := s.keys.Seal("", []byte(keyCheck))
		if _, err := tx.Exec(ctx, `
			INSERT INTO master_key (id, check_value) VALUES ($1, $2)
			ON CONFLICT (id) DO UPDATE SET retired_at = NULL WHERE master_key.retired_at IS NOT NULL`, id, sealed); err != nil {
			return err
		}
		return s.proveKeys(ctx, tx)
	})
}

// registeredKey is a row of master_key.
type registeredKey struct {
	ID         string
	CheckValue []byte
	Retired    bool
}

func (s *Installation) proveKeys(ctx context.Context, tx pgx.Tx) error {
	keys, err := pg.Collect[registeredKey](ctx, tx,
		`SELECT id, check_value, retired_at IS NOT NULL AS retired FROM master_key ORDER BY id`)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := s.proveKey(ctx, tx, key); err != nil {
			return err
		}
	}
	return nil
}

// proveKey returns ErrWrongMasterKey unless the keyring holds the key, or the key is retired and has sealed
// nothing since.
func (s *Installation) proveKey(ctx context.Context, tx pgx.Tx, key registeredKey) error {
	if !s.keys.Has(key.ID) {
		if !key.Retired {
			return fmt.Errorf("%w: key %q is missing, and no reseal has retired it", pg.ErrWrongMasterKey, key.ID)
		}
		used, err := keyUsed(ctx, tx, key.ID)
		if used {
			err = fmt.Errorf("%w: key %q is missing, and has sealed something since it was retired",
				pg.ErrWrongMasterKey, key.ID)
		}
		return err
	}
	plain, err := s.keys.Unseal(key.ID, "", key.CheckValue)
	if err != nil || subtle.ConstantTimeCompare(plain, []byte(keyCheck)) != 1 {
		return fmt.Errorf("%w: key %q is another key than the one that this database knows by this id",
			pg.ErrWrongMasterKey, key.ID)
	}
	return nil
}
