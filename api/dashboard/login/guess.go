package login

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// Rates of attempts to sign in: for one account from one address, for one address, and for one
// account from all addresses. The last rate is slow, but it does not lock members out: a browser
// in which the account was signed in before has its own bucket.
var (
	accountRate    = storage.Rate{PerSecond: 1.0 / 30, Burst: 8}
	addressRate    = storage.Rate{PerSecond: 1.0 / 5, Burst: 40}
	everywhereRate = storage.Rate{PerSecond: 1.0 / 30, Burst: 60}
)

// Kinds of buckets for signing in, in the order that storage.Store.Allow demands.
const (
	bucketSignIn     = "signin"
	bucketAccount    = "signin_account"
	bucketEverywhere = "signin_everywhere"
)

// bucketCode bounds the guesses of one account's codes, from all addresses. An attacker who guesses codes
// knows the password already. A browser in which the account was signed in before has a separate bucket, so
// the attacker cannot lock the member out.
const bucketCode = "second_factor"

// errGuesses refuses an attempt to sign in that comes too often.
var errGuesses = &limit.TooOftenError{Wait: time.Minute}

// mayGuess takes a token from the address's bucket and one from the bucket of the account at that
// address.
func (s *Server) mayGuess(ctx context.Context, address, email string) (bool, error) {
	got, err := s.Store.Allow(ctx,
		storage.Bucket{Owner: address, Kind: bucketSignIn, Rate: addressRate},
		storage.Bucket{Owner: ownerOf(email, address), Kind: bucketAccount, Rate: accountRate})
	return got.OK, err
}

// mayGuessHere takes a token from the account's bucket for all addresses. If the account was signed
// in before in this browser, it takes the token from the browser's own bucket. hash is the hash of
// the account's password, "" without an account.
func (s *Server) mayGuessHere(r *http.Request, email, hash string) (bool, error) {
	got, err := s.Store.Allow(
		r.Context(), storage.Bucket{Owner: s.guesser(r, email, hash), Kind: bucketEverywhere, Rate: everywhereRate},
	)
	return got.OK, err
}

// mayGuessCode takes a token from the bucket of a member's codes, see bucketCode.
func (s *Server) mayGuessCode(r *http.Request, m checkout.Member) (bool, error) {
	hash, err := s.Store.MemberPassword(r.Context(), m.MerchantID, m.ID)
	if err != nil {
		return false, err
	}
	got, err := s.Store.Allow(r.Context(),
		storage.Bucket{Owner: s.guesser(r, m.ID, hash), Kind: bucketCode, Rate: accountRate})
	return got.OK, err
}

// guesser returns the name of the bucket of an account: the browser's own if the account was signed in before
// in this browser. hash is the hash of the account's password, "" without an account.
func (s *Server) guesser(r *http.Request, account, hash string) string {
	if hash == "" {
		return ownerOf(account)
	}
	known := knownBrowser(hash)
	for _, value := range s.knownBrowsers(r) {
		if hmac.Equal([]byte(value), []byte(known)) {
			return ownerOf(account, known)
		}
	}
	return ownerOf(account)
}

// ownerOf returns the name of an account's bucket. It is a hash, so that no typed text is stored.
func ownerOf(email string, more ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{strings.ToLower(email)}, more...), " ")))
	return hex.EncodeToString(sum[:16])
}
