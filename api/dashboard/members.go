package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/api/passhash"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// membersPage lists the people who may sign in.
type membersPage struct {
	Members []checkout.Member
	Link    string // an invitation's link, shown once
	For     string // e-mail address of the invited person
	Fault   string
	Email   string // as typed
}

func (s *server) listMembers(v visit) (answer, error) { return s.membersPage(v, membersPage{}) }

// membersPage shows the members and the result of the last action.
func (s *server) membersPage(v visit, p membersPage) (answer, error) {
	var err error
	if p.Members, err = s.Store.Members(v.Context(), v.MerchantID()); err != nil {
		return answer{}, err
	}
	if p.Fault != "" {
		return refuse("members", "People", p)
	}
	return show("members", "People", p)
}

// inviteMember serves POST /{mode}/members.
func (s *server) inviteMember(v visit) (answer, error) {
	email, role := strings.TrimSpace(v.PostFormValue("email")), checkout.Role(v.PostFormValue("role"))
	if !checkout.ValidEmail(email) {
		return s.membersPage(v, membersPage{Fault: "That is not an e-mail address.", Email: email})
	}
	if !role.Valid() {
		return s.membersPage(v, membersPage{Fault: "Choose a role.", Email: email})
	}
	if page, err := s.unconfirmedOwner(v, role == checkout.RoleOwner,
		email+" will be invited as an owner."); page != nil ||
		err != nil {
		return orNone(page), err
	}
	m := checkout.Member{
		ID:         checkout.NewID(checkout.PrefixMember),
		MerchantID: v.MerchantID(),
		Email:      email,
		Role:       role,
	}
	token, hash := checkout.NewToken()
	got, err := s.made(v, m.ID, token, linkOfInvitation(v), func() error {
		return s.Store.InviteMember(
			v.Context(), m, hash, time.Now().Add(checkout.InvitationLifetime),
			v.auditBoth("member.invited", m.ID, email+" as "+string(role)),
		)
	})
	if errors.Is(err, checkout.ErrEmailInUse) {
		return s.membersPage(v, membersPage{Fault: "That address is in the list already.", Email: email})
	}
	return got, err
}

// linkOfInvitation returns a function from a member's id to the address of the page with the
// member's invitation link.
func linkOfInvitation(v visit) func(id string) string {
	return func(id string) string { return v.Path("/members/" + id + "/link") }
}

// unconfirmedOwner asks for the password before a person becomes an owner or stops being one,
// because an owner decides where the money goes. concerned says that the change is such a one. The
// answer is nil when it is not, or when the password was right.
func (s *server) unconfirmedOwner(v visit, concerned bool, what string) (*answer, error) {
	if !concerned {
		return nil, nil
	}
	return s.unconfirmed(v, confirmPage{
		Text: what + " Owners change payout addresses and people.", Button: "Confirm", Back: v.Path("/members"),
		Grave: true,
	})
}

// orNone returns *a, or an empty answer for nil.
func orNone(a *answer) answer {
	if a == nil {
		return answer{}
	}
	return *a
}

// renewInvitation serves POST /{mode}/members/{id}/invitation.
func (s *server) renewInvitation(v visit) (answer, error) {
	m, err := s.Store.Member(v.Context(), v.MerchantID(), v.ID())
	if err != nil {
		return answer{}, err
	}
	page, err := s.unconfirmedOwner(
		v, m.Role == checkout.RoleOwner, "Another link lets "+m.Email+" sign in as an owner.",
	)
	if page != nil || err != nil {
		return orNone(page), err
	}
	token, hash := checkout.NewToken()
	return s.made(v, m.ID, token, linkOfInvitation(v), func() error {
		return s.Store.RenewInvitation(
			v.Context(), v.MerchantID(), m.ID, hash, time.Now().Add(checkout.InvitationLifetime),
			v.auditBoth("member.invited", m.ID, m.Email+" as "+string(m.Role)+", again"),
		)
	})
}

var (
	roleChanged   = notice("role_changed", "The role was changed.")
	memberRemoved = notice("member_removed", "The person cannot sign in any more.")
)

// changeRole serves POST /{mode}/members/{id}/role.
func (s *server) changeRole(v visit) (answer, error) {
	role := checkout.Role(v.PostFormValue("role"))
	if !role.Valid() {
		return s.membersPage(v, membersPage{Fault: "Choose a role."})
	}
	m, err := s.Store.Member(v.Context(), v.MerchantID(), v.ID())
	if err != nil {
		return answer{}, err
	}
	if m.Role == role {
		return goTo(v.Path("/members"), nothingChanged)
	}
	page, err := s.unconfirmedOwner(v, m.Role == checkout.RoleOwner || role == checkout.RoleOwner,
		fmt.Sprintf("%s, now %s, becomes %s.", m.Email, m.Role, role))
	if page != nil || err != nil {
		return orNone(page), err
	}
	err = s.Store.SetRole(v.Context(), v.MerchantID(), m.ID, role,
		v.auditBoth("member.role_changed", m.ID, fmt.Sprintf("%s: %s → %s", m.Email, m.Role, role)))
	return s.memberChanged(v, err, roleChanged)
}

// removeMember serves POST /{mode}/members/{id}/remove.
func (s *server) removeMember(v visit) (answer, error) {
	m, err := s.Store.Member(v.Context(), v.MerchantID(), v.ID())
	if err != nil {
		return answer{}, err
	}
	page, err := s.unconfirmedOwner(
		v, m.Role == checkout.RoleOwner, m.Email+", an owner, will not be able to sign in any more.",
	)
	if page != nil || err != nil {
		return orNone(page), err
	}
	err = s.Store.RemoveMember(
		v.Context(), v.MerchantID(), m.ID,
		v.auditBoth("member.removed", m.ID, m.Email+", "+string(m.Role)),
	)
	return s.memberChanged(v, err, memberRemoved)
}

func (s *server) memberChanged(v visit, err error, notice string) (answer, error) {
	if errors.Is(err, checkout.ErrLastOwner) {
		return s.membersPage(v, membersPage{Fault: "Somebody must stay owner."})
	}
	if err != nil {
		return answer{}, err
	}
	return goTo(v.Path("/members"), notice)
}

// Accept accepts an invitation with a first password. It returns
// checkout.ErrNotFound when the invitation is unknown or has run out.
func Accept(
	ctx context.Context, accounts *storage.Accounts, token, password string,
) (checkout.Member, error) {
	return accept(ctx, accounts, token, password, "")
}

// accept is Accept with the person's IP address for the audit log.
func accept(
	ctx context.Context, accounts *storage.Accounts, token, password, address string,
) (checkout.Member, error) {
	hash, err := passhash.Hash(ctx, password)
	if err != nil {
		return checkout.Member{}, err
	}
	return accounts.AcceptInvitation(ctx, checkout.HashToken(token), hash, address)
}

// invitationPage asks an invited person for a password.
type invitationPage struct {
	Email    string
	Merchant string
	Fault    string
}

func invitationHash(r *http.Request) []byte { return checkout.HashToken(mux.Vars(r)["token"]) }

func (s *server) showInvitation(w http.ResponseWriter, r *http.Request) error {
	return s.renderInvitation(w, r, "")
}

// renderInvitation shows the page of a valid invitation. fault is the fault of the chosen password,
// "" for none.
func (s *server) renderInvitation(w http.ResponseWriter, r *http.Request, fault string) error {
	member, merchant, err := s.Store.Invitation(r.Context(), invitationHash(r))
	if errors.Is(err, checkout.ErrNotFound) {
		s.renderProblem(w, r, failure.NotFound, problemPage{problem: problem{
			"The invitation is not valid", "It was used, or it has run out. Ask an owner for another.",
		}})
		return nil
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if fault != "" {
		status = http.StatusUnprocessableEntity
	}
	s.renderOpen(w, r, status, "invitation", "Welcome", invitationPage{member.Email, merchant, fault})
	return nil
}

// acceptInvitation serves POST /invitation/{token}. It sets the first password and signs the person
// in.
func (s *server) acceptInvitation(w http.ResponseWriter, r *http.Request) error {
	if ok, err := s.mayGuess(r.Context(), limit.Address(r), "an invitation"); err != nil {
		return err
	} else if !ok {
		return errGuesses
	}
	password := r.PostFormValue("password")
	if fault := passhash.Fault(password, r.PostFormValue("password_again")); fault != "" {
		return s.renderInvitation(w, r, fault)
	}

	member, err := accept(r.Context(), &s.Store.Accounts, mux.Vars(r)["token"], password, limit.RemoteIP(r))
	if errors.Is(err, checkout.ErrNotFound) {
		return s.renderInvitation(w, r, "")
	}
	if err != nil {
		return err
	}
	hash, err := s.Store.MemberPassword(r.Context(), member.MerchantID, member.ID)
	if err != nil {
		return err
	}
	return s.startSession(w, r, member, hash, "/")
}
