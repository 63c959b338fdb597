package dashboard

import (
	"context"
	"fmt"
	"runtime"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"

	"example.com/checkout/api/limit"
)

// passwordParams are OWASP's for argon2id. A hash says which it was made with,
// so they can grow.
var passwordParams = &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

var hashers = max(1, runtime.GOMAXPROCS(0)/2)

// hashing bounds what passwords take of this process: half of the processors, and
// a second's work that waits.
var hashing = limit.NewGate(hashers, 16*hashers)

// Limits of a password. The longest is for the sake of the hashing only.
const (
	minPassword = 12
	maxPassword = 256
)

// passwordFault says what is wrong with a new password, "" for nothing.
func passwordFault(password, again string) string {
	switch n := utf8.RuneCountInString(password); {
	case n < minPassword:
		return fmt.Sprintf("The password must have at least %d characters.", minPassword)
	case n > maxPassword:
		return fmt.Sprintf("The password must have at most %d characters.", maxPassword)
	case password != again:
		return "The passwords are not the same."
	}
	return ""
}

func hashPassword(ctx context.Context, password string) (string, error) {
	leave, err := hashing.Enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	hash, err := argon2id.CreateHash(password, passwordParams)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return hash, nil
}

// nobodysHash is compared with when there is no account, which takes as long.
var nobodysHash = func() string {
	token, _ := newToken()
	hash, err := argon2id.CreateHash(token, passwordParams)
	if err != nil {
		panic(err) // the parameters are constants
	}
	return hash
}()

// samePassword compares a password with a hash, "" for that of nobody. It returns
// limit.ErrBusy.
func samePassword(ctx context.Context, password, hash string) (bool, error) {
	leave, err := hashing.Enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	known := hash != ""
	if !known {
		hash = nobodysHash
	}
	if utf8.RuneCountInString(password) > maxPassword {
		password, known = "", false
	}
	same, err := argon2id.ComparePasswordAndHash(password, hash)
	return same && err == nil && known, nil
}

// confirmed reports whether the visitor knows the own password, for what is
// dangerous.
func (s *server) confirmed(v visit) (bool, error) {
	hash, err := s.Store.MemberPassword(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return false, err
	}
	ok, err := s.mayGuess(v.Context(), limit.Address(v.Request), v.Member.Email)
	if err != nil || !ok {
		return false, err
	}
	return samePassword(v.Context(), v.PostFormValue("password"), hash)
}
