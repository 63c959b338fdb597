package login

import (
	"errors"
	"net/http"
	"strings"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/passhash"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// showForgot serves GET /password/forgot.
func (s *Server) showForgot(w http.ResponseWriter, r *http.Request) error {
	if !s.Mail {
		return checkout.ErrNotFound
	}
	s.Renderer.RenderSignedOut(w, r, http.StatusOK, "forgot", "Forgot your password?", nil)
	return nil
}

// askForReset serves POST /password/forgot. The answer is the same for every address, after the same work.
// It waits for no mail server.
func (s *Server) askForReset(w http.ResponseWriter, r *http.Request) error {
	if !s.Mail {
		return checkout.ErrNotFound
	}
	email := strings.TrimSpace(r.PostFormValue("email"))
	all, err := s.People.MembersByEmail(r.Context(), email)
	if err != nil && failure.KindOf(err) != failure.NotFound { // PostgreSQL takes no NUL in an address
		return err
	}
	if err := s.mayTry(r, email, hashesOfPasswords(all)...); err != nil {
		return err
	}
	if checkout.ValidEmail(email) {
		if err := s.People.AskForReset(r.Context(), email); err != nil {
			return err
		}
	}
	http.Redirect(w, r, "/password/reset?asked=1", http.StatusSeeOther)
	return nil
}

// resetPage asks for the code of the mail and for a new password. The mail's link has the code after #,
// which browsers do not send.
type resetPage struct {
	Asked bool // the mail was just asked for
	Code  string
	Fault string
}

// showReset serves GET /password/reset.
func (s *Server) showReset(w http.ResponseWriter, r *http.Request) error {
	if !s.Mail {
		return checkout.ErrNotFound
	}
	s.renderReset(w, r, resetPage{Asked: r.URL.Query().Has("asked")})
	return nil
}

func (s *Server) renderReset(w http.ResponseWriter, r *http.Request, p resetPage) {
	status := http.StatusOK
	if p.Fault != "" {
		status = http.StatusUnprocessableEntity
	}
	s.Renderer.RenderSignedOut(w, r, status, "reset", "Choose a new password", p)
}

// resetPassword serves POST /password/reset. The person signs in afterwards, with the second factor too. The browser is
// a known one from now on, so guesses from elsewhere cannot keep it from signing in.
func (s *Server) resetPassword(w http.ResponseWriter, r *http.Request) error {
	if !s.Mail {
		return checkout.ErrNotFound
	}
	code, password := strings.TrimSpace(r.PostFormValue("code")), r.PostFormValue("password")
	if fault := passhash.Fault(password, r.PostFormValue("password_again")); fault != "" {
		s.renderReset(w, r, resetPage{Code: code, Fault: fault})
		return nil
	}
	hash, err := s.reset(r, merchant.HashToken(code), password)
	if errors.Is(err, checkout.ErrNotFound) {
		s.renderReset(w, r, resetPage{Fault: "This code is not valid: it was used or has expired. Request another e-mail."})
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.signOutBrowser(w, r); err != nil {
		return err
	}
	s.addKnown(w, r, hash)
	http.Redirect(w, r, "/signin?reset=1", http.StatusSeeOther)
	return nil
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
