package pg

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrWrongMasterKey: the master key with this id is missing and needed, or it is not the key that sealed a value in the
// database. A process that gets this error at its start must stop, because it would sign with wrong secrets. A running
// process gets it when another process with a newer key has sealed a value since; Unavailable then reports true.
var ErrWrongMasterKey = errors.New("wrong master key")

// Keyring seals the digests of webhook secrets and other values. The first key seals; every key unseals.
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

// Seal encrypts plain and binds it to owner. A sealed value does not unseal in another owner's row.
func (k *Keyring) Seal(owner string, plain []byte) (keyID string, sealed []byte) {
	aead := k.aeads[k.current]
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the process instead
	return k.current, aead.Seal(nonce, nonce, plain, []byte(owner))
}

// Unseal is the inverse of Seal. It returns ErrWrongMasterKey.
func (k *Keyring) Unseal(keyID, owner string, sealed []byte) ([]byte, error) {
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

// Current returns the id of the key that seals.
func (k *Keyring) Current() string { return k.current }

// IDs returns the ids of the keys, in no order.
func (k *Keyring) IDs() []string { return slices.Collect(maps.Keys(k.aeads)) }

// Has reports whether the keyring holds the key with this id.
func (k *Keyring) Has(id string) bool { return k.aeads[id] != nil }
