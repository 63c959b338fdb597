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
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrWrongMasterKey: the key with this id is missing or is not the one that
// sealed what is in the database. A process that meets it at its start must not
// start: it would sign wrongly. One that runs has met what another process, which
// has a newer key, sealed meanwhile: it is Unavailable to this one.
var ErrWrongMasterKey = errors.New("wrong master key")

// Keyring seals webhook secrets' digests. The first key seals; all unseal.
type Keyring struct {
	current string
	aeads   map[string]cipher.AEAD
}

// ParseKeyring reads "id:base64,id:base64,…"; each key has 32 bytes. The errors
// never quote a key.
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
			return nil, fmt.Errorf("key %q is there twice", id)
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

// ids names the keys.
func (k *Keyring) ids() []string { return slices.Collect(maps.Keys(k.aeads)) }

// seal encrypts plain, bound to owner: moved to another row it does not unseal.
func (k *Keyring) seal(owner string, plain []byte) (keyID string, sealed []byte) {
	aead := k.aeads[k.current]
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the process instead
	return k.current, aead.Seal(nonce, nonce, plain, []byte(owner))
}

// unseal is the inverse of seal; it returns ErrWrongMasterKey.
func (k *Keyring) unseal(keyID, owner string, sealed []byte) ([]byte, error) {
	aead := k.aeads[keyID]
	if aead == nil || len(sealed) < aead.NonceSize() {
		return nil, fmt.Errorf("%w: key %q", ErrWrongMasterKey, keyID)
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(owner))
	if err != nil {
		return nil, fmt.Errorf("%w: key %q", ErrWrongMasterKey, keyID)
	}
	return plain, nil
}

// keyCheck is what master_key.check_value holds, sealed.
const keyCheck = "checkout master key"

// checkKeys proves every key that sealed something here, and only then registers
// the current one: a process that is refused must leave nothing behind that
// would refuse the right one. It proves once more, in case another process
// registered another key in the same moment.
func (s *Store) checkKeys(ctx context.Context) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := s.proveKeys(ctx, tx); err != nil {
			return err
		}
		id, sealed := s.keys.seal("", []byte(keyCheck))
		if _, err := tx.Exec(ctx, `INSERT INTO master_key (id, check_value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, sealed); err != nil {
			return err
		}
		return s.proveKeys(ctx, tx)
	})
	if isUndefinedTable(err) {
		return errors.New("the database has no schema yet: run checkout migrate first")
	}
	if err != nil {
		return fmt.Errorf("check master key: %w", err)
	}
	return nil
}

func (s *Store) proveKeys(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT id, check_value FROM master_key`)
	if err != nil {
		return err
	}
	var (
		id    string
		value []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &value}, func() error {
		plain, err := s.keys.unseal(id, "", value)
		if err == nil && subtle.ConstantTimeCompare(plain, []byte(keyCheck)) != 1 {
			err = ErrWrongMasterKey
		}
		return err
	})
	return err
}
