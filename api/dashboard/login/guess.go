package login

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/merchant"
)

// Rates of attempts to sign in: for one account from one address, for one address, and for one account from all
// addresses. The last rate is slow, but it locks no member out: a browser in which the account was signed in before has
// its own bucket and needs none of these. A password that is chosen with the code of a mail makes a browser such a one.
var (
	accountRate    = storage.Rate{PerSecond: 1.0 / 30, Burst: 8}
	addressRate    = storage.Rate{PerSecond: 1.0 / 5, Burst: 40}
	everywhereRate = storage.Rate{PerSecond: 1.0 / 30, Burst: 60}
)

// Kinds of buckets for signing in, in the order that storage.Requests.Allow demands.
const (
	bucketSignIn     = "signin"
	bucketAccount    = "signin_account"
	bucketEverywhere = "signin_everywhere"
	bucketKnown      = "signin_known"
)

// bucketCode bounds the guesses of one account's codes, from all addresses. An attacker who guesses codes
// knows the password already.
const bucketCode = "second_factor"

// errGuesses refuses an attempt to sign in that comes too often. A form in which somebody is signed in says tooMany.
var errGuesses = &limit.TooOftenError{Wait: time.Minute}

const tooMany = "Too many attempts. Wait a minute, then try again."

// mayTry takes a token for something that is done for an account, and that anybody may try. It returns errGuesses when
// there is none. A browser in which the account was signed in before has its own bucket, so a stranger behind the same
// address cannot empty it. hashes are those of the account's passwords.
func (s *Server) mayTry(r *http.Request, account string, hashes ...string) error {
	if own := s.ownBucket(r, account, hashes); own != "" {
		return s.allow(r, storage.Bucket{Owner: own, Kind: bucketKnown, Rate: accountRate})
	}
	address := limit.Address(r)
	return s.allow(r, storage.Bucket{Owner: address, Kind: bucketSignIn, Rate: addressRate},
		storage.Bucket{Owner: ownerOf(account, address), Kind: bucketAccount, Rate: accountRate})
}

// mayGuessPassword is mayTry for a password, which can be guessed from many addresses.
func (s *Server) mayGuessPassword(r *http.Request, email string, hashes ...string) error {
	err := s.mayTry(r, email, hashes...)
	if err != nil || s.ownBucket(r, email, hashes) != "" {
		return err
	}
	return s.allow(r, storage.Bucket{Owner: ownerOf(email), Kind: bucketEverywhere, Rate: everywhereRate})
}

// mayGuessCode takes a token from the bucket of a member's codes, see bucketCode. browser is that of a member who is
// signed in, which has its own bucket too; nil for none.
func (s *Server) mayGuessCode(r *http.Request, m merchant.Member, browser []byte) error {
	owner := ownerOf(m.ID, hex.EncodeToString(browser))
	if browser == nil {
		hash, err := s.People.MemberPassword(r.Context(), m.MerchantID, m.ID)
		if err != nil {
			return err
		}
		owner = cmp.Or(s.ownBucket(r, m.ID, []string{hash}), ownerOf(m.ID))
	}
	return s.allow(r, storage.Bucket{Owner: owner, Kind: bucketCode, Rate: accountRate})
}

func (s *Server) allow(r *http.Request, buckets ...storage.Bucket) error {
	got, err := s.Requests.Allow(r.Context(), buckets...)
	if err == nil && !got.OK {
		return errGuesses
	}
	return err
}

// ownBucket returns the name of the browser's own bucket of an account, "" unless the account was signed in before in
// this browser.
func (s *Server) ownBucket(r *http.Request, account string, hashes []string) string {
	for _, hash := range hashes {
		if s.isKnown(r, hash) {
			return ownerOf(account, knownBrowser(hash))
		}
	}
	return ""
}

// ownerOf returns the name of an account's bucket. It is a hash, so that no typed text is stored.
func ownerOf(email string, more ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{strings.ToLower(email)}, more...), " ")))
	return hex.EncodeToString(sum[:16])
}
