package login

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"example.com/checkout/api/dashboard/page"
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

func (s *Server) showSignIn(nobody page.Visit) (page.Answer, error) {
	query := nobody.URL.Query()
	form := signInForm{Next: query.Get("next"), Merchant: query.Get("merchant"), Mail: s.Mail, Reset: query.Has("reset")}
	if v, err := s.Visitor(nobody.Request); err == nil {
		if wanted := merchantOf(form.Next); wanted != "" && !v.SignedInTo(wanted) {
			form.Merchant = wanted
		} else if !query.Has("other") {
			return page.GoTo(safeNext(form.Next), "")
		}
		form.Back, form.Email = v.Path("/account#merchants"), v.Member.Email
	}
	return page.Show("signin", "Sign in", form)
}

// signIn serves POST /signin. Unknown accounts, wrong passwords and open invitations get the same answer after the same
// work. The password is compared with that of every account of the address, so another merchant that knows the address
// cannot stand before the one that is meant.
func (s *Server) signIn(v page.Visit) (page.Answer, error) {
	form := signInForm{
		Email:    strings.TrimSpace(v.PostFormValue("email")),
		Merchant: strings.TrimSpace(v.PostFormValue("merchant")),
		Next:     v.PostFormValue("next"), Failed: true, Mail: s.Mail,
	}
	all, err := s.People.MembersByEmail(v.Context(), form.Email)
	if err != nil && failure.KindOf(err) != failure.NotFound { // PostgreSQL takes no NUL in an address
		return page.Answer{}, err
	}
	tried := s.orderCandidates(v.Request, all, form.Merchant, merchantOf(form.Next))
	hashes := hashesOfPasswords(tried)
	if err := s.mayGuessPassword(v.Request, form.Email, hashes...); err != nil {
		return page.Answer{}, err
	}

	password := v.PostFormValue("password")
	at, err := passhash.Which(v.Context(), password, hashes...)
	if err != nil {
		return page.Answer{}, err
	}
	if at < 0 {
		probably := "" // unknown
		if len(tried) > 0 {
			probably = tried[0].ID
		}
		if err := s.People.LogFailedSignIn(v.Context(), probably, limit.RemoteIP(v.Request)); err != nil {
			return page.Answer{}, err
		}
		return page.Refuse("signin", "Sign in", form)
	}
	m, err := s.shareSalt(v.Context(), tried[at], all[0].Hash, password)
	if err != nil {
		return page.Answer{}, err
	}
	if m.SecondFactor() {
		return s.askForCode(m.Member, m.Hash, safeNext(form.Next))
	}
	return s.startSession(v.Request, m.Member, m.Hash, safeNext(form.Next))
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
func (s *Server) showSignInCode(v page.Visit, m merchant.Member, _ string) (page.Answer, error) {
	return page.Show("signin_code", "Sign in", codePage{Next: v.URL.Query().Get("next"), Who: m})
}

// signInWithCode serves POST /signin/code, the second step of signing in.
func (s *Server) signInWithCode(v page.Visit, m merchant.Member, hash string) (page.Answer, error) {
	if err := s.mayTry(v.Request, m.Email, hash); err != nil {
		return page.Answer{}, err
	}
	fault, err := s.factorFault(v.Request, m, s.secondStep(v.Request))
	if err != nil {
		return page.Answer{}, err
	}
	next := safeNext(v.PostFormValue("next"))
	if fault != "" {
		return page.Refuse("signin_code", "Sign in", codePage{next, fault, m})
	}
	got, err := s.startSession(v.Request, m, hash, next)
	got.Cookies = append(got.Cookies, s.Renderer.NewCookie(halfCookie, "", -1))
	return got, err
}

// signInWithPasskey serves POST /signin/passkey: signing in without a password. The passkey identifies the person. It
// is two factors: the device, and the finger, the face or the PIN that it asks for.
func (s *Server) signInWithPasskey(v page.Visit) (got page.Answer, err error) {
	answer, session, err := s.readAssertion(v.Request, s.ceremonyOf(v.Request, toSignIn, passkeyCookie))
	var m people.MemberWithPassword
	if err == nil {
		m, err = s.People.MemberByPasskeyHandle(v.Context(), answer.Response.UserHandle)
	}
	refused := errors.Is(err, errPasskey) || failure.KindOf(err) == failure.NotFound
	if err != nil && !refused {
		return got, err
	}
	if err := s.mayTry(v.Request, "a passkey", m.Hash); err != nil {
		return got, err
	}
	if !refused {
		fault, err := s.refusedPasskey(v.Request, m.Member, s.usePasskey(v.Request, m.Member, answer, session))
		if err != nil {
			return got, err
		}
		refused = fault != ""
	}
	next := v.PostFormValue("next")
	if refused {
		got, err = page.Refuse("signin", "Sign in", signInForm{Next: next, Mail: s.Mail, NoPasskey: true})
	} else {
		got, err = s.startSession(v.Request, m.Member, m.Hash, safeNext(next), "with a passkey, without the password")
	}
	got.Cookies = append(got.Cookies, s.Renderer.NewCookie(passkeyCookie, "", -1))
	return got, err
}

// signOut serves POST /signout. It signs the browser out of every merchant.
func (s *Server) signOut(v page.Visit) (page.Answer, error) {
	gone, err := s.signOutBrowser(v.Request)
	return page.GoToAfter(err, "/signin", "", gone...)
}
