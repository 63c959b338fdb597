package dashboard

import (
	"net/http"

	"example.com/checkout/api/passhash"
	"example.com/checkout/workflows/checkout"
)

// showRoot serves GET /. It leads to live mode when the merchant has live sessions, or is set up for them
// and has no test sessions either; else to test mode.
func (s *server) showRoot(v visit) (answer, error) {
	works, err := s.Store.WorksLive(v.Context(), v.MerchantID())
	if err != nil {
		return answer{}, err
	}
	if works {
		return goTo("/live/", "")
	}
	return goTo("/test/", "")
}

type accountPage struct {
	Fault         string
	RecoveryCodes int // that are left
	Passkeys      []checkout.Passkey
	Others        []signedInElse
}

func (s *server) showAccount(v visit) (answer, error) { return s.accountPage(v, "") }

// accountPage shows the account and the fault of the last action, "" for none.
func (s *server) accountPage(v visit, fault string) (answer, error) {
	left, err := s.Store.RecoveryCodes(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return answer{}, err
	}
	keys, err := s.Store.Passkeys(v.Context(), v.MerchantID(), v.Member.ID)
	if err != nil {
		return answer{}, err
	}
	others, err := s.others(v.Context(), s.otherTokens(v.Request), v.Member)
	if err != nil {
		return answer{}, err
	}
	p := accountPage{fault, left, keys, others}
	if fault != "" {
		return refuse("account", "Your account", p)
	}
	return show("account", "Your account", p)
}

var passwordChanged = notice(
	"password_changed", "Your password was changed, and every other browser is signed out.",
)

// changePassword serves POST /account/password. It signs out every browser and signs this one in
// again.
func (s *server) changePassword(v visit) (answer, error) {
	fault := passhash.Fault(v.PostFormValue("new_password"), v.PostFormValue("new_password_again"))
	if fault == "" {
		var err error
		if fault, err = s.confirmed(v); err != nil {
			return answer{}, err
		}
	}

	if fault != "" {
		return s.accountPage(v, fault)
	}

	hash, err := passhash.Hash(v.Context(), v.PostFormValue("new_password"))
	if err != nil {
		return answer{}, err
	}
	if err := s.Store.SetPassword(v.Context(), v.MerchantID(), v.Member.ID, hash,
		v.auditBoth("member.password_changed", v.Member.ID, "the password was changed")); err != nil {
		return answer{}, err
	}

	token, sum := checkout.NewToken()
	if err := s.Store.SignIn(v.Context(), v.Member.ID, hash, sum); err != nil {
		return answer{}, err
	}
	got, err := goTo("/account", passwordChanged)
	got.token = &token
	return got, err
}

// signOutEverywhere serves POST /account/signout. It signs this browser out of the person's other merchants too.
func (s *server) signOutEverywhere(v visit) (answer, error) {
	if err := s.Store.SignOutEverywhere(v.Context(), v.Member.ID,
		v.auditBoth("member.signed_out", v.Member.ID, "every browser")); err != nil {
		return answer{}, err
	}
	if err := s.Store.SignOut(v.Context(), hashesOf(s.otherTokens(v.Request))...); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusSeeOther, location: "/signin", others: &[]string{}}, nil
}
