// Package passhash hashes and compares passwords.
package passhash

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"golang.org/x/crypto/argon2"

	"example.com/checkout/api/limit"
	"example.com/checkout/workflows/merchant"
)

// params are OWASP's parameters for argon2id. Each hash names its own parameters, so these
// can be raised later.
var params = &argon2id.Params{
	Memory:      19 << 10,
	Iterations:  2,
	Parallelism: 1,
	SaltLength:  16,
	KeyLength:   32,
}

// hashing bounds the processor time for passwords. About a second's work may wait.
var hashing = limit.NewGate(limit.HeavyProcessors, 8*limit.HeavyProcessors)

// Limits of a password in characters. longest only bounds the time of hashing.
const (
	shortest = 12
	longest  = 256
)

// Fault returns the fault of a new password, "" for none.
func Fault(password, again string) string {
	switch n := utf8.RuneCountInString(password); {
	case n < shortest:
		return fmt.Sprintf("The password must have at least %d characters.", shortest)
	case n > longest:
		return fmt.Sprintf("The password must have at most %d characters.", longest)
	case password != again:
		return "The passwords are not the same."
	}
	return ""
}

// Hash returns the hash of a password with its parameters. It has the salt of the hash like, when that has today's
// parameters: the hashes of one person share a salt, so that Same can compare a password with all of them at once. ""
// makes a new salt. Error: limit.ErrBusy.
func Hash(ctx context.Context, password, like string) (string, error) {
	used, salt, _, err := argon2id.DecodeHash(like)
	if err != nil || *used != *params {
		salt = make([]byte, params.SaltLength)
		_, _ = rand.Read(salt) // never fails: crypto/rand ends the process instead
	}
	var key []byte
	if err := hashing.Do(ctx, func() { key = keyOf(password, salt, params) }); err != nil {
		return "", err
	}
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, params.Memory, params.Iterations,
		params.Parallelism, encode(salt), encode(key)), nil
}

func keyOf(password string, salt []byte, p *argon2id.Params) []byte {
	return argon2.IDKey([]byte(password), salt, p.Iterations, p.Memory, p.Parallelism, p.KeyLength)
}

// Alike reports whether two hashes have the same parameters and salt.
func Alike(a, b string) bool {
	pa, sa, _, errA := argon2id.DecodeHash(a)
	pb, sb, _, errB := argon2id.DecodeHash(b)
	return errA == nil && errB == nil && *pa == *pb && bytes.Equal(sa, sb)
}

// nobodysHash is compared when there is no account, so that the answer takes as long as for an
// account.
var nobodysHash = newNobodysHash()

func newNobodysHash() string {
	token, _ := merchant.NewToken()
	hash, err := argon2id.CreateHash(token, params)
	if err != nil {
		panic(err) // the parameters are constants
	}
	return hash
}

// Weaken makes later hashes quick to compute and to guess, until restore is called. Only tests call it, while they hash
// nothing.
func Weaken() (restore func()) {
	strong, nobody := params, nobodysHash
	params = &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}
	nobodysHash = newNobodysHash()
	return func() { params, nobodysHash = strong, nobody }
}

// Which compares a password with several hashes, for the work of one: with the first, and with those that are Alike. It
// returns the position of the first that fits, -1 for none. No hash at all means that there is no account: the work is
// the same. Error: limit.ErrBusy.
func Which(ctx context.Context, password string, hashes ...string) (int, error) {
	first := nobodysHash
	if len(hashes) > 0 {
		first = hashes[0]
	}
	if utf8.RuneCountInString(password) > longest {
		password, hashes = "", nil
	}
	p, salt, _, err := argon2id.DecodeHash(first)
	if err != nil {
		return -1, fmt.Errorf("compare password: %w", err)
	}
	var key []byte
	if err := hashing.Do(ctx, func() { key = keyOf(password, salt, p) }); err != nil {
		return -1, err
	}
	return slices.IndexFunc(hashes, func(hash string) bool {
		_, _, want, err := argon2id.DecodeHash(hash)
		return err == nil && Alike(hash, first) && subtle.ConstantTimeCompare(key, want) == 1
	}), nil
}

// Same compares a password with one hash. Error: limit.ErrBusy.
func Same(ctx context.Context, password, hash string) (bool, error) {
	at, err := Which(ctx, password, hash)
	return at == 0, err
}
