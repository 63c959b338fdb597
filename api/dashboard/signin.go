package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"strings"

	"example.com/checkout/api/action"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// How often somebody may try to sign in: for one account from one address, and
// from one address at all. An account has no limit of its own, with which others
// could lock its owner out.
var (
	accountRate = storage.Rate{PerSecond: 1.0 / 30, Burst: 8}
	addressRate = storage.Rate{PerSecond: 1.0 / 5, Burst: 40}
)

// signInForm is what the page of signing in shows.
type signInForm struct {
	Email    string
	Merchant string // id, "" for the first that knew the address
	Next     string
	Failed   bool
}

func (s *server) showSignIn(w http.ResponseWriter, r *http.Request) {
	if _, err := s.visitor(r); err == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	s.renderOpen(w, r, http.StatusOK, "signin", "Sign in", signInForm{Next: r.URL.Query().Get("next"), Merchant: r.URL.Query().Get("merchant")})
}

// signIn serves POST /signin. Unknown accounts, wrong passwords and invitations
// that were not accepted get the same answer after the same work. A failure is
// not noted in the audit log: strangers would write into it, and the time that
// takes would tell them which accounts there are.
func (s *server) signIn(w http.ResponseWriter, r *http.Request) {
	form := signInForm{
		Email: strings.TrimSpace(r.PostFormValue("email")), Merchant: strings.TrimSpace(r.PostFormValue("merchant")),
		Next: r.PostFormValue("next"), Failed: true,
	}
	if ok, err := s.maySignIn(r, form.Email); err != nil {
		s.fail(w, r, err)
		return
	} else if !ok {
		s.problem(problems[http.StatusTooManyRequests]).ServeHTTP(w, r)
		return
	}
	member, hash, err := s.Store.MemberByEmail(r.Context(), form.Email, form.Merchant)
	if err != nil && !errors.Is(err, checkout.ErrNotFound) && !storage.Malformed(err) {
		s.fail(w, r, err)
		return
	}
	if !samePassword(r.Context(), r.PostFormValue("password"), hash) || err != nil {
		s.renderOpen(w, r, http.StatusUnprocessableEntity, "signin", "Sign in", form)
		return
	}
	s.startSession(w, r, member, safeNext(form.Next))
}

// maySignIn takes a token of each bucket.
func (s *server) maySignIn(r *http.Request, email string) (bool, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	address, err := s.Store.AllowAddress(r.Context(), "signin "+host, addressRate)
	if err != nil || !address.OK {
		return false, err
	}
	sum := sha256.Sum256([]byte(strings.ToLower(email) + " " + host))
	account, err := s.Store.AllowAddress(r.Context(), "signin "+hex.EncodeToString(sum[:16]), accountRate)
	return account.OK, err
}

// startSession gives the browser a new token; one that somebody else put there
// is worth nothing.
func (s *server) startSession(w http.ResponseWriter, r *http.Request, member checkout.Member, next string) {
	token, hash := newToken()
	note := action.Entry(r, member.MerchantID, member.Email, "member.signed_in", member.ID, "")
	if err := s.Store.SignIn(r.Context(), member.ID, hash, note); err != nil {
		s.fail(w, r, err)
		return
	}
	s.setCookie(w, memberCookie, token, 0)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// signOut serves POST /signout.
func (s *server) signOut(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(s.cookieName(memberCookie)); err == nil {
		hash := sha256.Sum256([]byte(cookie.Value))
		if err := s.Store.SignOut(r.Context(), hash[:]); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	s.setCookie(w, memberCookie, "", -1)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

// safeNext is where to go after signing in: a page of ours, and nothing else.
func safeNext(next string) string {
	if strings.HasPrefix(next, "/test/") || strings.HasPrefix(next, "/live/") || strings.HasPrefix(next, "/account") {
		return next
	}
	return "/"
}

// newToken returns 256 random bits for a cookie or a link, and their hash, which
// is all that is stored.
func newToken() (token string, hash []byte) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	token = base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}

// Cookies. A notice is the key of what is said once, on the next page.
const (
	memberCookie  = "member"
	noticeCookie  = "notice"
	noticeSeconds = 60
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
