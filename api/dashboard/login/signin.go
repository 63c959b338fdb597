package login

import (
	"errors"
	"net/http"
	"strings"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/passhash"
	"example.com/checkout/workflows/checkout"
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

func (s *Server) showSignIn(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	form := signInForm{
		Next: query.Get("next"), Merchant: query.Get("merchant"), Mail: s.Mail, Reset: query.Has("reset"),
	}
	if v, err := s.Visitor(r); err == nil {
		if !query.Has("other") {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return nil
		}
		form.Other, form.Email = true, v.Member.Email
	}
	s.Face.Open(w, r, http.StatusOK, "signin", "Sign in", form)
	return nil
}

// signIn serves POST /signin. Unknown accounts, wrong passwords and open invitations get the same
// answer after the same work, which notes a failure where there is an account.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
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
		s.Face.Open(w, r, http.StatusUnprocessableEntity, "signin", "Sign in", form)
		return nil // an unknown member is told the same as a wrong password
	}
	if member.SecondFactor {
		s.askForCode(w, r, member, hash, safeNext(form.Next))
		return nil
	}
	return s.startSession(w, r, member, hash, safeNext(form.Next))
}

// codePage asks for a code after the password.
type codePage struct {
	Next, Fault string
	Who         checkout.Member
}

// showSignInCode serves GET /signin/code.
func (s *Server) showSignInCode(w http.ResponseWriter, r *http.Request) error {
	m, _, err := s.half(r)
	if failure.KindOf(err) == failure.NotFound {
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
		return nil
	}
	if err == nil {
		s.Face.Open(w, r, http.StatusOK, "signin_code", "Sign in", codePage{Next: r.URL.Query().Get("next"), Who: m})
	}
	return err
}

// signInWithCode serves POST /signin/code, the second step of signing in.
func (s *Server) signInWithCode(w http.ResponseWriter, r *http.Request) error {
	m, hash, err := s.half(r)
	if failure.KindOf(err) == failure.NotFound {
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
		return nil
	}
	if err != nil {
		return err
	}
	if ok, err := s.mayGuess(r.Context(), limit.Address(r), m.Email); err != nil {
		return err
	} else if !ok {
		return errGuesses
	}
	fault, err := s.factorFault(r, m, s.secondStep(r))
	if err != nil {
		return err
	}
	next := safeNext(r.PostFormValue("next"))
	if fault != "" {
		s.Face.Open(w, r, http.StatusUnprocessableEntity, "signin_code", "Sign in", codePage{next, fault, m})
		return nil
	}
	s.Face.SetCookie(w, halfCookie, "", -1)
	return s.startSession(w, r, m, hash, next)
}

// signInWithPasskey serves POST /signin/passkey: signing in without a password. The passkey says who signs in. It is
// two factors: the device, and the finger, the face or the PIN that it asks for.
func (s *Server) signInWithPasskey(w http.ResponseWriter, r *http.Request) error {
	if ok, err := s.mayGuess(r.Context(), limit.Address(r), "a passkey"); err != nil {
		return err
	} else if !ok {
		return errGuesses
	}
	c := s.ceremonyOf(r, toSignIn, passkeyCookie)
	s.Face.SetCookie(w, passkeyCookie, "", -1)
	refuse := func() {
		s.Face.Open(w, r, http.StatusUnprocessableEntity, "signin", "Sign in",
			signInForm{Next: r.PostFormValue("next"), Mail: s.Mail, NoPasskey: true})
	}
	answer, session, err := s.answered(r, c)
	if errors.Is(err, errPasskey) {
		refuse()
		return nil
	}
	if err != nil {
		return err
	}
	m, hash, err := s.Store.MemberByPasskeyHandle(r.Context(), answer.Response.UserHandle)
	if failure.KindOf(err) == failure.NotFound {
		refuse()
		return nil
	}
	if err != nil {
		return err
	}
	fault, err := s.refusedPasskey(r, m, s.usePasskey(r, m, answer, session))
	if err != nil {
		return err
	}
	if fault != "" {
		refuse()
		return nil
	}
	return s.startSession(w, r, m, hash, safeNext(r.PostFormValue("next")), "with a passkey, without the password")
}

// signOut serves POST /signout. It signs the browser out of every merchant.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	if err := s.forget(w, r); err != nil {
		return err
	}
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
	return nil
}
