package login

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// startSession signs member in; how is for the audit log. passwordHash is the hash of the member's password. The
// browser gets a new token, so that a token planted by another person is useless.
func (s *Server) startSession(
	w http.ResponseWriter, r *http.Request, member merchant.Member, passwordHash, next string, how ...string,
) error {
	token, hash := merchant.NewToken()
	note := page.Entry(r, member, "member.signed_in", strings.Join(how, ", "))
	err := s.People.SignIn(r.Context(), member, passwordHash, hash, note)
	if failure.KindOf(err) == failure.NotFound { // the password or the second factor was changed meanwhile
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
		return nil
	}
	if errors.Is(err, checkout.ErrMerchantSuspended) {
		s.Renderer.RenderSignedOut(w, r, http.StatusForbidden, "signin", "Sign in",
			signInForm{Suspended: true, Mail: s.Mail})
		return nil
	}
	if err != nil {
		return err
	}
	others, err := s.signOutOthers(r, member)
	if err != nil {
		return err
	}
	for _, cookie := range s.cookiesOf(append([]string{token}, others...)...) {
		http.SetCookie(w, cookie)
	}
	s.addKnown(w, r, passwordHash)
	if next == "/" {
		next = page.Home(member.MerchantID)
	}
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: safeNext allows only pages of ours
	return nil
}

// ownPages match the addresses of the pages of a merchant, and the old addresses, which name no merchant.
var ownPages = regexp.MustCompile(`^/(?:m/(mer_[0-9a-z]+)/|test/|live/|account)`)

// safeNext returns the page to open after signing in. It allows only pages of this dashboard.
func safeNext(next string) string {
	if ownPages.MatchString(next) && page.IsLocal(next) {
		return next
	}
	return "/"
}

// merchantOf returns the merchant that an address names, "" for none.
func merchantOf(next string) string {
	if parts := ownPages.FindStringSubmatch(next); parts != nil {
		return parts[1]
	}
	return ""
}
