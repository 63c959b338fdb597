package login

import (
	"slices"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/passhash"
	"example.com/checkout/workflows/merchant"
)

type accountPage struct {
	Fault         string
	RecoveryCodes int // that are left
	Passkeys      []merchant.Passkey
}

func (s *Server) showAccount(v page.Visit) (page.Answer, error) { return s.accountPage(v, "") }

// accountPage shows the account and the fault of the last action, "" for none.
func (s *Server) accountPage(v page.Visit, fault string) (page.Answer, error) {
	left, err := s.People.RecoveryCodes(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return page.Answer{}, err
	}
	keys, err := s.People.Passkeys(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return page.Answer{}, err
	}
	p := accountPage{fault, left, keys}
	return page.ShowForm(fault, "account", "Your account", p)
}

var passwordChanged = page.Notice("password_changed", "Your password was changed. Every other browser was signed out.")

// changePassword serves POST …/account/password. It signs out every browser and signs this one in
// again.
func (s *Server) changePassword(v page.Visit) (page.Answer, error) {
	fault := passhash.Fault(v.PostFormValue("new_password"), v.PostFormValue("new_password_again"))
	if fault == "" {
		var err error
		if fault, err = s.CheckProof(v); err != nil {
			return page.Answer{}, err
		}
	}

	if fault != "" {
		return s.accountPage(v, fault)
	}

	hash, err := hashFor(v.Context(), s.People, v.Member.Email, v.PostFormValue("new_password"))
	if err != nil {
		return page.Answer{}, err
	}
	if err := s.People.SetPassword(v.Context(), v.MerchantID(), v.Member.ID, hash,
		v.AuditBoth("member.password_changed", v.Member.ID, "the password was changed")); err != nil {
		return page.Answer{}, err
	}

	token, sum := merchant.NewToken()
	if err := s.People.SignIn(v.Context(), v.Member, hash, sum); err != nil {
		return page.Answer{}, err
	}
	tokens := s.tokens(v.Request)
	tokens[slices.Index(tokens, s.tokenOf(v))] = token
	cookies := append(s.cookiesOf(tokens...), s.knownCookieOf(v.Request, hash))
	return page.GoTo(v.Path("/account"), passwordChanged, cookies...)
}

// signOutEverywhere serves POST …/account/signout. It signs this browser out of the person's other merchants too.
func (s *Server) signOutEverywhere(v page.Visit) (page.Answer, error) {
	if err := s.People.SignOutEverywhere(v.Context(), v.Member.ID,
		v.AuditBoth("member.signed_out", v.Member.ID, "every browser")); err != nil {
		return page.Answer{}, err
	}
	return s.signOut(v)
}
