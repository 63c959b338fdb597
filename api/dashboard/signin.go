package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"example.com/checkout/api/action"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// How often somebody may try to sign in: for one account from one address, from
// one address at all, and for one account from everywhere. The last is slow, and
// locks nobody out: a browser in which the account was signed in before counts
// for itself.
var (
	accountRate    = storage.Rate{PerSecond: 1.0 / 30, Burst: 8}
	addressRate    = storage.Rate{PerSecond: 1.0 / 5, Burst: 40}
	everywhereRate = storage.Rate{PerSecond: 1.0 / 30, Burst: 60}
)

// Kinds of buckets of signing in, in the order in which storage.Store.Allow takes
// them.
const (
	bucketSignIn     = "signin"
	bucketAccount    = "signin_account"
	bucketEverywhere = "signin_everywhere"
)

// signInForm is what the page of signing in shows.
type signInForm struct {
	Email    string
	Merchant string // id, "" for the first that knew the address
	Next     string
	Failed   bool
}

func (s *server) showSignIn(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.visitor(r); err == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return nil
	}
	s.renderOpen(w, r, http.StatusOK, "signin", "Sign in", signInForm{Next: r.URL.Query().Get("next"), Merchant: r.URL.Query().Get("merchant")})
	return nil
}

// errGuesses refuses a try that comes too often.
var errGuesses = &limit.TooOftenError{Wait: time.Minute}

// signIn serves POST /signin. Unknown accounts, wrong passwords and invitations
// that were not accepted get the same answer after the same work. A failure is
// not noted in the audit log: strangers would write into it, and the time that
// takes would tell them which accounts there are.
func (s *server) signIn(w http.ResponseWriter, r *http.Request) error {
	form := signInForm{
		Email: strings.TrimSpace(r.PostFormValue("email")), Merchant: strings.TrimSpace(r.PostFormValue("merchant")),
		Next: r.PostFormValue("next"), Failed: true,
	}
	if ok, err := s.mayGuess(r.Context(), limit.Address(r), form.Email); err != nil {
		return err
	} else if !ok {
		return errGuesses
	}

	member, hash, err := s.Store.MemberByEmail(r.Context(), form.Email, form.Merchant)
	unknown := err != nil
	if unknown && failure.KindOf(err) != failure.NotFound {
		return err
	}
	if ok, err := s.mayGuessHere(r, form.Email, hash); err != nil {
		return err
	} else if !ok {
		return errGuesses
	}

	same, err := samePassword(r.Context(), r.PostFormValue("password"), hash)
	if err != nil {
		return err
	}
	if !same || unknown {
		s.renderOpen(w, r, http.StatusUnprocessableEntity, "signin", "Sign in", form)
		return nil
	}
	return s.startSession(w, r, member, hash, safeNext(form.Next))
}

// mayGuess takes a token of the address and one of the account from there.
func (s *server) mayGuess(ctx context.Context, address, email string) (bool, error) {
	got, err := s.Store.Allow(ctx,
		storage.Bucket{Owner: address, Kind: bucketSignIn, Rate: addressRate},
		storage.Bucket{Owner: ownerOf(email, address), Kind: bucketAccount, Rate: accountRate})
	return got.OK, err
}

// mayGuessHere takes a token of the account from everywhere, or from this browser
// when the account was signed in here before; hash is that of the account's
// password, "" when there is no account.
func (s *server) mayGuessHere(r *http.Request, email, hash string) (bool, error) {
	owner := ownerOf(email)
	if cookie, err := r.Cookie(s.cookieName(knownCookie)); err == nil && hash != "" && hmac.Equal([]byte(cookie.Value), []byte(knownBrowser(hash))) {
		owner = ownerOf(email, cookie.Value)
	}
	got, err := s.Store.Allow(r.Context(), storage.Bucket{Owner: owner, Kind: bucketEverywhere, Rate: everywhereRate})
	return got.OK, err
}

// ownerOf names the bucket of an account: nothing that was typed is stored.
func ownerOf(email string, more ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{strings.ToLower(email)}, more...), " ")))
	return hex.EncodeToString(sum[:16])
}

// knownBrowser is what a browser keeps that has signed in with the password of
// hash. It tells nothing of the password and is worth nothing without it.
func knownBrowser(hash string) string {
	mac := hmac.New(sha256.New, []byte(hash))
	mac.Write([]byte("a browser that has signed in"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// startSession signs member in, the hash of whose password is given. The browser
// gets a new token; one that somebody else put there is worth nothing.
func (s *server) startSession(w http.ResponseWriter, r *http.Request, member checkout.Member, passwordHash, next string) error {
	token, hash := checkout.NewToken()
	note := action.Entry(r, member.MerchantID, member.Email, "member.signed_in", member.ID, "")
	if err := s.Store.SignIn(r.Context(), member.ID, hash, note); err != nil {
		return err
	}
	s.setCookie(w, memberCookie, token, 0)
	s.setCookie(w, knownCookie, knownBrowser(passwordHash), knownSeconds)
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

// signOut serves POST /signout.
func (s *server) signOut(w http.ResponseWriter, r *http.Request) error {
	if cookie, err := r.Cookie(s.cookieName(memberCookie)); err == nil {
		if err := s.Store.SignOut(r.Context(), checkout.HashToken(cookie.Value)); err != nil {
			return err
		}
	}
	s.setCookie(w, memberCookie, "", -1)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
	return nil
}

// safeNext is where to go after signing in: a page of ours, and nothing else.
func safeNext(next string) string {
	if strings.HasPrefix(next, "/test/") || strings.HasPrefix(next, "/live/") || strings.HasPrefix(next, "/account") {
		return next
	}
	return "/"
}

// Cookies. A notice is the key of what is said once, on the next page. A browser
// is known for as long as the password stays, and for half a year.
const (
	memberCookie  = "member"
	noticeCookie  = "notice"
	noticeSeconds = 60
	knownCookie   = "known"
	knownSeconds  = 180 * 24 * 60 * 60
)

// cookieName has the prefix that makes browsers insist on https, where it is used.
func (s *server) cookieName(name string) string {
	if s.secure {
		return "__Host-" + name
	}
	return name
}

func (s *server) setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ // #nosec G124 -- Secure unless the dashboard is on plain http, which only loopback is
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
}

// renderOpen renders a page for somebody who is not signed in.
func (s *server) renderOpen(w http.ResponseWriter, r *http.Request, status int, page, title string, data any) {
	s.render(w, r, status, page, s.view(visit{Request: r, Mode: checkout.ModeTest}, title, data))
}
