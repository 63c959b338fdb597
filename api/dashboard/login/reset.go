package login

import (
	"errors"
	"net/http"
	"strings"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/passhash"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// showForgot serves GET /password/forgot.
func (s *Server) showForgot(page.Visit) (page.Answer, error) {
	return page.Show("forgot", "Forgot your password?", nil)
}

// askForReset serves POST /password/forgot. The answer is the same for every address, after the same work.
// It waits for no mail server.
func (s *Server) askForReset(v page.Visit) (page.Answer, error) {
	email := strings.TrimSpace(v.PostFormValue("email"))
	all, err := s.People.MembersByEmail(v.Context(), email)
	if err != nil && failure.KindOf(err) != failure.NotFound { // PostgreSQL takes no NUL in an address
		return page.Answer{}, err
	}
	err = s.mayTry(v.Request, email, hashesOfPasswords(all)...)
	if err == nil && checkout.ValidEmail(email) {
		err = s.People.AskForReset(v.Context(), email)
	}
	return page.GoToAfter(err, "/password/reset?asked=1", "")
}

// resetPage asks for the code of the mail and for a new password. The mail's link has the code after #,
// which browsers do not send.
type resetPage struct {
	Asked bool // the mail was just asked for
	Code  string
	Fault string
}

// showReset serves GET /password/reset.
func (s *Server) showReset(v page.Visit) (page.Answer, error) {
	return resetPage{Asked: v.URL.Query().Has("asked")}.show()
}

func (p resetPage) show() (page.Answer, error) {
	return page.ShowForm(p.Fault, "reset", "Choose a new password", p)
}

// resetPassword serves POST /password/reset. The person signs in afterwards, with the second factor too. The browser is
// a known one from now on, so guesses from elsewhere cannot keep it from signing in.
func (s *Server) resetPassword(v page.Visit) (page.Answer, error) {
	code, password := strings.TrimSpace(v.PostFormValue("code")), v.PostFormValue("password")
	if fault := passhash.Fault(password, v.PostFormValue("password_again")); fault != "" {
		return resetPage{Code: code, Fault: fault}.show()
	}
	hash, err := s.reset(v.Request, merchant.HashToken(code), password)
	if errors.Is(err, checkout.ErrNotFound) {
		return resetPage{Fault: "This code is not valid: it was used or has expired. Request another e-mail."}.show()
	}
	if err != nil {
		return page.Answer{}, err
	}
	gone, err := s.signOutBrowser(v.Request)
	return page.GoToAfter(err, "/signin?reset=1", "", append(gone, s.knownCookieOf(v.Request, hash))...)
}

// reset gives the member of a code a new password, and returns its hash.
func (s *Server) reset(r *http.Request, code []byte, password string) (hash string, err error) {
	email, err := s.People.ResetEmail(r.Context(), code)
	if err != nil {
		return "", err
	}
	if hash, err = hashFor(r.Context(), s.People, email, password); err != nil {
		return "", err
	}
	return hash, s.People.ResetPassword(r.Context(), code, hash, limit.RemoteIP(r))
}
