// Package passhash hashes and compares passwords.
package passhash

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"

	"example.com/checkout/api/limit"
	"example.com/checkout/workflows/checkout"
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

// Hash returns the hash of a password with its parameters. Error: limit.ErrBusy.
func Hash(ctx context.Context, password string) (string, error) {
	var (
		hash  string
		fault error
	)
	if err := hashing.Do(ctx, func() { hash, fault = argon2id.CreateHash(password, params) }); err != nil {
		return "", err
	}
	if fault != nil {
		return "", fmt.Errorf("hash password: %w", fault)
	}
	return hash, nil
}

// nobodysHash is compared when there is no account, so that the answer takes as long as for an
// account.
var nobodysHash = func() string {
	token, _ := checkout.NewToken()
	hash, err := argon2id.CreateHash(token, params)
	if err != nil {
		panic(err) // the parameters are constants
	}
	return hash
}()

// Same compares a password with a hash. An empty hash means that there is no account; the
// result is false after the same work. Error: limit.ErrBusy.
func Same(ctx context.Context, password, hash string) (bool, error) {
	known := hash != ""
	if !known {
		hash = nobodysHash
	}
	if utf8.RuneCountInString(password) > longest {
		password, known = "", false
	}
	var (
		same  bool
		fault error
	)
	err := hashing.Do(ctx, func() { same, fault = argon2id.ComparePasswordAndHash(password, hash) })
	return same && fault == nil && known, err
}
