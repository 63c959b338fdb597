package storage

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrWrongMasterKey: the master key with this id is missing and needed, or it is not the key that
// sealed a value in the database. A process that gets this error at its start must stop, because it would
// sign with wrong secrets. A running process gets it when another process with a newer key has
// sealed a value since; Unavailable then reports true.
var ErrWrongMasterKey = errors.New("wrong master key")

// Keyring seals the digests of webhook secrets and other values. The first key seals; every key
// unseals.
type Keyring struct {
	current string
	aeads   map[string]cipher.AEAD
}

// ParseKeyring reads "id:base64,id:base64,…"; each key has 32 bytes. Its errors never quote a key.
func ParseKeyring(text string) (*Keyring, error) {
	k := &Keyring{aeads: map[string]cipher.AEAD{}}
	for entry := range strings.SplitSeq(text, ",") {
		id, encoded, ok := strings.Cut(strings.TrimSpace(entry), ":")
		if !ok || id == "" {
			return nil, errors.New(`must be "id:key", or several separated by commas`)
		}

		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(raw) != 32 {
			return nil, fmt.Errorf("key %q must be 32 bytes in base64", id)
		}

		if k.aeads[id] != nil {
			return nil, fmt.Errorf("key %q appears twice", id)
		}

		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}

		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}

		k.aeads[id] = aead
		if k.current == "" {
			k.current = id
		}
	}
	return k, nil
}

// NewMasterKey returns a random key in the form that ParseKeyring reads.
func NewMasterKey(id string) string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return id + ":" + base64.StdEncoding.EncodeToString(b[:])
}

// seal encrypts plain and binds it to owner. A sealed value does not unseal in another owner's row.
func (k *Keyring) seal(owner string, plain []byte) (keyID string, sealed []byte) {
	aead := k.aeads[k.current]
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the process instead
	return k.current, aead.Seal(nonce, nonce, plain, []byte(owner))
}

// unseal is the inverse of seal. It returns ErrWrongMasterKey.
func (k *Keyring) unseal(keyID, owner string, sealed []byte) ([]byte, error) {
	aead := k.aeads[keyID]
	if aead == nil || len(sealed) < aead.NonceSize() {
		return nil, fmt.Errorf("%w: key %q", ErrWrongMasterKey, keyID)
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():],
		[]byte(owner))
	if err != nil {
		return nil, fmt.Errorf("%w: key %q", ErrWrongMasterKey, keyID)
	}
	return plain, nil
}

// keyCheck is the plain text of master_key.check_value.
const keyCheck = "checkout master key"

// checkKeys proves that the keyring holds every key that something here still needs. Only then it
// registers the current key: a refused process must not register a key that would make the right
// process fail. It checks again afterwards, because another process may register a key at the same
// time.
func (s *Store) checkKeys(ctx context.Context) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := s.proveKeys(ctx, tx); err != nil {
			return err
		}
		id, sealed := s.keys.seal("", []byte(keyCheck))
		if _, err := tx.Exec(ctx, `
			INSERT INTO master_key (id, check_value) VALUES ($1, $2)
			ON CONFLICT (id) DO UPDATE SET retired_at = NULL WHERE master_key.retired_at IS NOT NULL`,
			id, sealed); err != nil {
			return err
		}
		return s.proveKeys(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("check master key: %w", err)
	}
	return nil
}

// registeredKey is a row of master_key.
type registeredKey struct {
	ID         string
	CheckValue []byte
	Retired    bool
}

func (s *Store) proveKeys(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT id, check_value, retired_at IS NOT NULL FROM master_key ORDER BY id`)
	if err != nil {
		return err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[registeredKey])
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
func (s *Store) proveKey(ctx context.Context, tx pgx.Tx, key registeredKey) error {
	if s.keys.aeads[key.ID] == nil {
		if !key.Retired {
			return fmt.Errorf("%w: key %q is missing, and no reseal has retired it", ErrWrongMasterKey, key.ID)
		}
		used, err := keyUsed(ctx, tx, key.ID)
		if used {
			err = fmt.Errorf("%w: key %q is missing, and has sealed something since it was retired",
				ErrWrongMasterKey, key.ID)
		}
		return err
	}
	plain, err := s.keys.unseal(key.ID, "", key.CheckValue)
	if err != nil || subtle.ConstantTimeCompare(plain, []byte(keyCheck)) != 1 {
		return fmt.Errorf("%w: key %q is another key than the one that this database knows by this id",
			ErrWrongMasterKey, key.ID)
	}
	return nil
}
