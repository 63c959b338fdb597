package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gorilla/mux"

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

func (s *Server) showInvitation(w http.ResponseWriter, r *http.Request) error {
	return s.renderInvitation(w, r, "")
}

// renderInvitation shows the page of a valid invitation. fault is the fault of the chosen password,
// "" for none.
func (s *Server) renderInvitation(w http.ResponseWriter, r *http.Request, fault string) error {
	member, merchant, err := s.People.Invitation(r.Context(), merchant.HashToken(mux.Vars(r)["token"]))
	if errors.Is(err, checkout.ErrNotFound) {
		return ErrInvitation
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if fault != "" {
		status = http.StatusUnprocessableEntity
	}
	s.Renderer.RenderSignedOut(w, r, status, "invitation", "Welcome", invitationPage{member.Email, merchant, fault})
	return nil
}

// acceptInvitation serves POST /invitation/{token}. It sets the first password and signs the person
// in.
func (s *Server) acceptInvitation(w http.ResponseWriter, r *http.Request) error {
	password := r.PostFormValue("password")
	if fault := passhash.Fault(password, r.PostFormValue("password_again")); fault != "" {
		return s.renderInvitation(w, r, fault)
	}

	member, err := Accept(r.Context(), s.People, mux.Vars(r)["token"], password, limit.RemoteIP(r))
	if errors.Is(err, checkout.ErrNotFound) {
		return s.renderInvitation(w, r, "")
	}
	if err != nil {
		return err
	}
	hash, err := s.People.MemberPassword(r.Context(), member.MerchantID, member.ID)
	if err != nil {
		return err
	}
	return s.startSession(w, r, member, hash, "/")
}
