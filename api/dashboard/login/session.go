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
	r *http.Request, member merchant.Member, passwordHash, next string, how ...string,
) (page.Answer, error) {
	token, hash := merchant.NewToken()
	note := page.Entry(r, member, "member.signed_in", strings.Join(how, ", "))
	err := s.People.SignIn(r.Context(), member, passwordHash, hash, note)
	if failure.KindOf(err) == failure.NotFound { // the password or the second factor was changed meanwhile
		return page.GoTo("/signin", "")
	}
	if errors.Is(err, checkout.ErrMerchantSuspended) {
		return page.Refuse("signin", "Sign in", signInForm{
			Email: member.Email, Next: next, Suspended: true, Mail: s.Mail,
		})
	}
	if err != nil {
		return page.Answer{}, err
	}
	others, err := s.signOutOthers(r, member)
	if err != nil {
		return page.Answer{}, err
	}
	if next == "/" {
		next = page.Home(member.MerchantID)
	}
	cookies := s.cookiesOf(append([]string{token}, others...)...)
	return page.GoTo(next, "", append(cookies, s.knownCookieOf(r, passwordHash))...)
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
