package login

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/passhash"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/merchant"
)

// signInForm is the form of the sign-in page.
type signInForm struct {
	Email    string
	Merchant string // id, "" for any whose password it is
	Next     string
	Failed   bool
	// NoPasskey: a passkey was refused.
	NoPasskey bool
	// Suspended: an operator has suspended the sign-in to the merchant.
	Suspended bool
	Back      string // page of a person who is signed in and adds another merchant, else ""

	Reset bool // the password was just changed
	Mail  bool // somebody who forgot the password may ask for a mail
}

func (s *Server) showSignIn(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	form := signInForm{Next: query.Get("next"), Merchant: query.Get("merchant"), Mail: s.Mail, Reset: query.Has("reset")}
	if v, err := s.Visitor(r); err == nil {
		if wanted := merchantOf(form.Next); wanted != "" && !v.SignedInTo(wanted) {
			form.Merchant = wanted
		} else if !query.Has("other") {
			http.Redirect(w, r, safeNext(form.Next), http.StatusSeeOther)
			return nil
		}
		form.Back, form.Email = v.Path("/account#merchants"), v.Member.Email
	}
	s.Renderer.RenderSignedOut(w, r, http.StatusOK, "signin", "Sign in", form)
	return nil
}

// signIn serves POST /signin. Unknown accounts, wrong passwords and open invitations get the same answer after the same
// work. The password is compared with that of every account of the address, so another merchant that knows the address
// cannot stand before the one that is meant.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
	form := signInForm{
		Email:    strings.TrimSpace(r.PostFormValue("email")),
		Merchant: strings.TrimSpace(r.PostFormValue("merchant")),
		Next:     r.PostFormValue("next"), Failed: true, Mail: s.Mail,
	}
	all, err := s.People.MembersByEmail(r.Context(), form.Email)
	if err != nil && failure.KindOf(err) != failure.NotFound { // PostgreSQL takes no NUL in an address
		return err
	}
	tried := s.orderCandidates(r, all, form.Merchant, merchantOf(form.Next))
	hashes := hashesOfPasswords(tried)
	if err := s.mayGuessPassword(r, form.Email, hashes...); err != nil {
		return err
	}

	password := r.PostFormValue("password")
	at, err := passhash.Which(r.Context(), password, hashes...)
	if err != nil {
		return err
	}
	if at < 0 {
		probably := "" // unknown
		if len(tried) > 0 {
			probably = tried[0].ID
		}
		if err := s.People.LogFailedSignIn(r.Context(), probably, limit.RemoteIP(r)); err != nil {
			return err
		}
		s.Renderer.RenderSignedOut(w, r, http.StatusUnprocessableEntity, "signin", "Sign in", form)
		return nil
	}
	m, err := s.shareSalt(r.Context(), tried[at], all[0].Hash, password)
	if err != nil {
		return err
	}
	if m.SecondFactor() {
		s.askForCode(w, r, m.Member, m.Hash, safeNext(form.Next))
		return nil
	}
	return s.startSession(w, r, m.Member, m.Hash, safeNext(form.Next))
}

// orderCandidates returns the accounts that a person may mean, the likeliest first: those of the merchant, if one is
// named, and first the one whose page is to be opened, then those that were signed in before in this browser.
func (s *Server) orderCandidates(
	r *http.Request, all []people.MemberWithPassword, merchantID, opens string,
) (known []people.MemberWithPassword) {
	var others []people.MemberWithPassword
	for _, m := range all {
		switch {
		case merchantID != "" && m.MerchantID != merchantID:
		case m.MerchantID == opens:
			known = append([]people.MemberWithPassword{m}, known...)
		case s.isKnown(r, m.Hash):
			known = append(known, m)
		default:
			others = append(others, m)
		}
	}
	return append(known, others...)
}

func hashesOfPasswords(members []people.MemberWithPassword) (hashes []string) {
	for _, m := range members {
		hashes = append(hashes, m.Hash)
	}
	return hashes
}

// hashFor returns the hash of a new password for the accounts of an address. They share a salt, see passhash.Which.
func hashFor(ctx context.Context, people *people.Store, email, password string) (string, error) {
	all, err := people.MembersByEmail(ctx, email)
	if err != nil {
		return "", err
	}
	return passhash.Hash(ctx, password, append(hashesOfPasswords(all), "")[0])
}

// shareSalt gives a member whose hash is of a time when each account had its own salt the salt of the first account. A
// browser that was known by the former hash is so again after its next sign-in.
func (s *Server) shareSalt(
	ctx context.Context, m people.MemberWithPassword, first, password string,
) (people.MemberWithPassword, error) {
	if passhash.Alike(m.Hash, first) {
		return m, nil
	}
	hash, err := passhash.Hash(ctx, password, first)
	if err != nil || !passhash.Alike(hash, first) { // the first one has parameters of before
		return m, err
	}
	former := m.Hash
	m.Hash = hash
	return m, s.People.Rehash(ctx, m.MerchantID, m.ID, former, hash)
}

// codePage asks for a code after the password.
type codePage struct {
	Next, Fault string
	Who         merchant.Member
}

// showSignInCode serves GET /signin/code.
func (s *Server) showSignInCode(w http.ResponseWriter, r *http.Request, m merchant.Member, _ string) error {
	p := codePage{Next: r.URL.Query().Get("next"), Who: m}
	s.Renderer.RenderSignedOut(w, r, http.StatusOK, "signin_code", "Sign in", p)
	return nil
}

// signInWithCode serves POST /signin/code, the second step of signing in.
func (s *Server) signInWithCode(w http.ResponseWriter, r *http.Request, m merchant.Member, hash string) error {
	if err := s.mayTry(r, m.Email, hash); err != nil {
		return err
	}
	fault, err := s.factorFault(r, m, s.secondStep(r))
	if err != nil {
		return err
	}
	next := safeNext(r.PostFormValue("next"))
	if fault != "" {
		s.Renderer.RenderSignedOut(w, r, http.StatusUnprocessableEntity, "signin_code", "Sign in", codePage{next, fault, m})
		return nil
	}
	s.Renderer.SetCookie(w, halfCookie, "", -1)
	return s.startSession(w, r, m, hash, next)
}

// signInWithPasskey serves POST /signin/passkey: signing in without a password. The passkey identifies the person. It
// is two factors: the device, and the finger, the face or the PIN that it asks for.
func (s *Server) signInWithPasskey(w http.ResponseWriter, r *http.Request) error {
	c := s.ceremonyOf(r, toSignIn, passkeyCookie)
	s.Renderer.SetCookie(w, passkeyCookie, "", -1)
	refuse := func() {
		s.Renderer.RenderSignedOut(w, r, http.StatusUnprocessableEntity, "signin", "Sign in",
			signInForm{Next: r.PostFormValue("next"), Mail: s.Mail, NoPasskey: true})
	}
	answer, session, err := s.readAssertion(r, c)
	var m people.MemberWithPassword
	if err == nil {
		m, err = s.People.MemberByPasskeyHandle(r.Context(), answer.Response.UserHandle)
	}
	unknown := errors.Is(err, errPasskey) || failure.KindOf(err) == failure.NotFound
	if err != nil && !unknown {
		return err
	}
	if err := s.mayTry(r, "a passkey", m.Hash); err != nil {
		return err
	}
	if unknown {
		refuse()
		return nil
	}
	fault, err := s.refusedPasskey(r, m.Member, s.usePasskey(r, m.Member, answer, session))
	if err != nil {
		return err
	}
	if fault != "" {
		refuse()
		return nil
	}
	next := safeNext(r.PostFormValue("next"))
	return s.startSession(w, r, m.Member, m.Hash, next, "with a passkey, without the password")
}

// signOut serves POST /signout. It signs the browser out of every merchant.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	if err := s.signOutBrowser(w, r); err != nil {
		return err
	}
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
	return nil
}
