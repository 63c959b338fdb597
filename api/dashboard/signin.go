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
	"example.com/checkout/api/passhash"
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

// signInForm is the form of the sign-in page.
type signInForm struct {
	Email    string
	Merchant string // id, "" for the merchant that had the e-mail address first
	Next     string
	Failed   bool
	// NoPasskey: a passkey was refused.
	NoPasskey bool
	// Other: the person is signed in and adds another merchant.
	Other bool

	Reset bool // the password was just changed
	Mail  bool // somebody who forgot the password may ask for a mail
}

func (s *server) showSignIn(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	form := signInForm{
		Next: query.Get("next"), Merchant: query.Get("merchant"), Mail: s.Mail, Reset: query.Has("reset"),
	}
	if v, err := s.visitor(r); err == nil {
		if !query.Has("other") {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return nil
		}
		form.Other, form.Email = true, v.Member.Email
	}
	s.renderOpen(w, r, http.StatusOK, "signin", "Sign in", form)
	return nil
}

// errGuesses refuses an attempt to sign in that comes too often.
var errGuesses = &limit.TooOftenError{Wait: time.Minute}

// signIn serves POST /signin. Unknown accounts, wrong passwords and open invitations get the same
// answer after the same work, which notes a failure where there is an account.
func (s *server) signIn(w http.ResponseWriter, r *http.Request) error {
	form := signInForm{
		Email: strings.TrimSpace(
			r.PostFormValue("email"),
		), Merchant: strings.TrimSpace(r.PostFormValue("merchant")),
		Next: r.PostFormValue("next"), Failed: true, Mail: s.Mail,
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

	same, err := passhash.Same(r.Context(), r.PostFormValue("password"), hash)
	if err != nil {
		return err
	}
	if !same || unknown {
		err := s.Store.NoteFailedSignIn(r.Context(), form.Email, form.Merchant, limit.RemoteIP(r))
		if err != nil && failure.KindOf(err) != failure.NotFound { // PostgreSQL takes no NUL in an address
			return err
		}
		s.renderOpen(w, r, http.StatusUnprocessableEntity, "signin", "Sign in", form)
		return nil // an unknown member is told the same as a wrong password
	}
	if member.SecondFactor {
		s.askForCode(w, r, member, hash, safeNext(form.Next))
		return nil
	}
	return s.startSession(w, r, member, hash, safeNext(form.Next))
}

// mayGuess takes a token from the address's bucket and one from the bucket of the account at that
// address.
func (s *server) mayGuess(ctx context.Context, address, email string) (bool, error) {
	got, err := s.Store.Allow(ctx,
		storage.Bucket{Owner: address, Kind: bucketSignIn, Rate: addressRate},
		storage.Bucket{Owner: ownerOf(email, address), Kind: bucketAccount, Rate: accountRate})
	return got.OK, err
}

// mayGuessHere takes a token from the account's bucket for all addresses. If the account was signed
// in before in this browser, it takes the token from the browser's own bucket. hash is the hash of
// the account's password, "" without an account.
func (s *server) mayGuessHere(r *http.Request, email, hash string) (bool, error) {
	got, err := s.Store.Allow(
		r.Context(), storage.Bucket{Owner: s.guesser(r, email, hash), Kind: bucketEverywhere, Rate: everywhereRate},
	)
	return got.OK, err
}

// guesser returns the name of the bucket of an account: the browser's own if the account was signed in before
// in this browser. hash is the hash of the account's password, "" without an account.
func (s *server) guesser(r *http.Request, account, hash string) string {
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

// knownBrowsers returns the values that a browser keeps, one for each account that signed in.
func (s *server) knownBrowsers(r *http.Request) []string {
	return s.valuesOf(r, knownCookie, maxKnown)
}

// addKnown makes a browser keep the value for the account with the password of hash, and those for the others.
func (s *server) addKnown(w http.ResponseWriter, r *http.Request, hash string) {
	values := []string{knownBrowser(hash)}
	for _, value := range s.knownBrowsers(r) {
		if value != values[0] && len(values) < maxKnown {
			values = append(values, value)
		}
	}
	s.setCookie(w, knownCookie, strings.Join(values, "."), knownSeconds)
}

// ownerOf returns the name of an account's bucket. It is a hash, so that no typed text is stored.
func ownerOf(email string, more ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{strings.ToLower(email)}, more...), " ")))
	return hex.EncodeToString(sum[:16])
}

// knownBrowser returns the value that a browser keeps after signing in with the password of hash.
// The value reveals nothing about the password and is useless without it.
func knownBrowser(hash string) string {
	mac := hmac.New(sha256.New, []byte(hash))
	mac.Write([]byte("a browser that has signed in"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// startSession signs member in; how is for the audit log. passwordHash is the hash of the member's password. The
// browser gets a new token, so that a token planted by another person is useless.
func (s *server) startSession(
	w http.ResponseWriter, r *http.Request, member checkout.Member, passwordHash, next string, how ...string,
) error {
	token, hash := checkout.NewToken()
	note := action.Entry(r, member.MerchantID, member.Email, "member.signed_in", member.ID, strings.Join(how, ", "))
	err := s.Store.SignIn(r.Context(), member.ID, passwordHash, hash, note)
	if failure.KindOf(err) == failure.NotFound { // the password was changed meanwhile
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
		return nil
	}
	if err != nil {
		return err
	}
	others, err := s.keepOthers(r, member)
	if err != nil {
		return err
	}
	s.setCookie(w, memberCookie, token, 0)
	s.setOthers(w, others)
	s.addKnown(w, r, passwordHash)
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: safeNext allows only pages of ours
	return nil
}

// signOut serves POST /signout. It signs the browser out of every merchant.
func (s *server) signOut(w http.ResponseWriter, r *http.Request) error {
	if err := s.forget(w, r); err != nil {
		return err
	}
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
	return nil
}

// safeNext returns the page to open after signing in. It allows only pages of this dashboard.
func safeNext(next string) string {
	if strings.HasPrefix(next, "/test/") || strings.HasPrefix(next, "/live/") ||
		strings.HasPrefix(next, "/account") {
		return next
	}
	return "/"
}

// Cookies. The notice cookie holds the key of a message for the next page. A browser is known
// for half a year, or until the password changes.
const (
	memberCookie  = "member"
	noticeCookie  = "notice"
	noticeSeconds = 60
	knownCookie   = "known"
	knownSeconds  = 180 * 24 * 60 * 60
	maxKnown      = 1 + maxOthers
)

// cookieName adds the prefix __Host- over https, so that browsers insist on https.
func (s *server) cookieName(name string) string {
	if s.secure {
		return "__Host-" + name
	}
	return name
}

// valuesOf returns the values, joined by points, of a cookie: most of them at most.
func (s *server) valuesOf(r *http.Request, name string, most int) []string {
	cookie, err := r.Cookie(s.cookieName(name))
	if err != nil || cookie.Value == "" {
		return nil
	}
	values := strings.Split(cookie.Value, ".")
	return values[:min(len(values), most)]
}

func (s *server) setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ // #nosec G124 -- Secure over https; only loopback uses plain http
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
}

// renderOpen renders a page for a visitor who is not signed in.
func (s *server) renderOpen(
	w http.ResponseWriter, r *http.Request, status int, page, title string, data any,
) {
	s.render(w, r, status, page, s.view(visit{Request: r, Mode: checkout.ModeTest}, title, data))
}
