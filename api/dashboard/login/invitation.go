package login

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorilla/mux"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/passhash"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// Accept accepts an invitation with a first password. address is the person's IP address for the audit log, "" for
// none. It returns checkout.ErrNotFound when the invitation is unknown or has run out.
func Accept(ctx context.Context, people *people.Store, token, password, address string) (merchant.Member, error) {
	m, _, err := people.Invitation(ctx, merchant.HashToken(token))
	if err != nil {
		return merchant.Member{}, err
	}
	hash, err := hashFor(ctx, people, m.Email, password)
	if err != nil {
		return merchant.Member{}, err
	}
	return people.AcceptInvitation(ctx, merchant.HashToken(token), hash, address)
}

// ErrInvitation refuses an invitation that was used or has run out.
var ErrInvitation = fmt.Errorf("the invitation is not valid: %w", checkout.ErrNotFound)

// invitationPage asks an invited person for a password.
type invitationPage struct {
	Email    string
	Merchant string
	Fault    string
}

func (s *Server) showInvitation(v page.Visit) (page.Answer, error) { return s.invitationPage(v, "") }

// invitationPage shows a valid invitation and the fault of the chosen password, "" for none.
func (s *Server) invitationPage(v page.Visit, fault string) (page.Answer, error) {
	member, merchant, err := s.People.Invitation(v.Context(), merchant.HashToken(mux.Vars(v.Request)["token"]))
	if errors.Is(err, checkout.ErrNotFound) {
		return page.Answer{}, ErrInvitation
	}
	if err != nil {
		return page.Answer{}, err
	}
	return page.ShowForm(fault, "invitation", "Welcome", invitationPage{member.Email, merchant, fault})
}

// acceptInvitation serves POST /invitation/{token}. It sets the first password and signs the person
// in.
func (s *Server) acceptInvitation(v page.Visit) (page.Answer, error) {
	password := v.PostFormValue("password")
	if fault := passhash.Fault(password, v.PostFormValue("password_again")); fault != "" {
		return s.invitationPage(v, fault)
	}

	member, err := Accept(v.Context(), s.People, mux.Vars(v.Request)["token"], password, limit.RemoteIP(v.Request))
	if errors.Is(err, checkout.ErrNotFound) {
		return s.invitationPage(v, "")
	}
	if err != nil {
		return page.Answer{}, err
	}
	hash, err := s.People.MemberPassword(v.Context(), member.MerchantID, member.ID)
	if err != nil {
		return page.Answer{}, err
	}
	return s.startSession(v.Request, member, hash, "/")
}
