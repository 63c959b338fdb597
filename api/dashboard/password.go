package dashboard

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
)

// passwordParams are OWASP's for argon2id. A hash says which it was made with,
// so they can grow.
var passwordParams = &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// hashing bounds the memory of hashing: whoever waits longer than the request
// may is refused.
var hashing = make(chan struct{}, 4)

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
	select {
	case hashing <- struct{}{}:
		defer func() { <-hashing }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
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

// samePassword compares a password with a hash, "" for that of nobody.
func samePassword(ctx context.Context, password, hash string) bool {
	select {
	case hashing <- struct{}{}:
		defer func() { <-hashing }()
	case <-ctx.Done():
		return false
	}
	known := hash != ""
	if !known {
		hash = nobodysHash
	}
	if utf8.RuneCountInString(password) > maxPassword {
		password, known = "", false
	}
	same, err := argon2id.ComparePasswordAndHash(password, hash)
	return same && err == nil && known
}

// confirmed reports whether the visitor knows the own password, for what is
// dangerous.
func (s *server) confirmed(v visit) (bool, error) {
	hash, err := s.Store.MemberPassword(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return false, err
	}
	ok, err := s.maySignIn(v.Request, v.Member.Email)
	return ok && samePassword(v.Context(), v.PostFormValue("password"), hash), err
}
