package dashboard

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/mail"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// invitationLifetime is how long the link of an invitation is good for.
const invitationLifetime = 72 * time.Hour

// membersPage is who may sign in.
type membersPage struct {
	Members []checkout.Member
	Link    string // of an invitation, shown once
	For     string // whom the link is for
	Fault   string
	Email   string // that was typed
}

func (s *server) listMembers(v visit) (answer, error) { return s.membersPage(v, membersPage{}) }

// membersPage shows the members with what just happened.
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

// inviteMember serves POST /{mode}/members. Only its answer shows the link.
func (s *server) inviteMember(v visit) (answer, error) {
	email, role := strings.TrimSpace(v.PostFormValue("email")), checkout.Role(v.PostFormValue("role"))
	if !ValidEmail(email) {
		return s.membersPage(v, membersPage{Fault: "That is not an e-mail address.", Email: email})
	}
	if !role.Valid() {
		return s.membersPage(v, membersPage{Fault: "Choose a role.", Email: email})
	}
	m := checkout.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: v.MerchantID(), Email: email, Role: role}
	token, hash := newToken()
	err := s.Store.InviteMember(v.Context(), m, hash, time.Now().Add(invitationLifetime), v.auditBoth("member.invited", m.ID, email+" as "+string(role)))
	if errors.Is(err, checkout.ErrEmailInUse) {
		return s.membersPage(v, membersPage{Fault: "That address cannot be invited: somebody signs in with it already.", Email: email})
	}
	if err != nil {
		return answer{}, err
	}
	return s.membersPage(v, membersPage{Link: InvitationURL(s.URL, token), For: email})
}

// ValidEmail reports whether text is a bare e-mail address.
func ValidEmail(text string) bool {
	const maxEmail = 254
	a, err := mail.ParseAddress(text)
	return err == nil && a.Name == "" && a.Address == text && len(text) <= maxEmail && !strings.ContainsAny(text, "\"<> \t")
}

// renewInvitation serves POST /{mode}/members/{id}/invitation.
func (s *server) renewInvitation(v visit) (answer, error) {
	token, hash := newToken()
	err := s.Store.RenewInvitation(v.Context(), v.MerchantID(), v.ID(), hash, time.Now().Add(invitationLifetime), v.auditBoth("member.invited", v.ID(), "again"))
	if err != nil {
		return answer{}, err
	}
	return s.membersPage(v, membersPage{Link: InvitationURL(s.URL, token)})
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
	err := s.Store.SetRole(v.Context(), v.MerchantID(), v.ID(), role, v.auditBoth("member.role_changed", v.ID(), "to "+string(role)))
	return s.memberChanged(v, err, roleChanged)
}

// removeMember serves POST /{mode}/members/{id}/remove.
func (s *server) removeMember(v visit) (answer, error) {
	err := s.Store.RemoveMember(v.Context(), v.MerchantID(), v.ID(), v.auditBoth("member.removed", v.ID(), ""))
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

// Invite makes an invitation for m and returns the token of its link; by is who
// invites. It is for operators: in the dashboard only owners invite. It returns
// checkout.ErrEmailInUse, and checkout.ErrNotFound for an unknown merchant.
func Invite(ctx context.Context, accounts *storage.Accounts, m checkout.Member, by string) (token string, err error) {
	token, hash := newToken()
	return token, accounts.InviteMember(ctx, m, hash, time.Now().Add(invitationLifetime), checkout.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: m.MerchantID, Actor: by,
		Action: "member.invited", Subject: m.ID, Detail: m.Email + " as " + string(m.Role),
	})
}

// Accept accepts an invitation with a first password. It returns
// checkout.ErrNotFound when the invitation is unknown or has run out.
func Accept(ctx context.Context, accounts *storage.Accounts, token, password string) (checkout.Member, error) {
	hash, err := hashPassword(ctx, password)
	if err != nil {
		return checkout.Member{}, err
	}
	sum := sha256.Sum256([]byte(token))
	return accounts.AcceptInvitation(ctx, sum[:], hash)
}

// InvitationURL is the link of an invitation; base is the dashboard's address.
func InvitationURL(base, token string) string { return base + "/invitation/" + token }

// invitationPage is where somebody who was invited chooses a password.
type invitationPage struct {
	Email    string
	Merchant string
	Fault    string
}

func invitationHash(r *http.Request) []byte {
	sum := sha256.Sum256([]byte(mux.Vars(r)["token"]))
	return sum[:]
}

func (s *server) showInvitation(w http.ResponseWriter, r *http.Request) { s.renderInvitation(w, r, "") }

// renderInvitation shows the page of an invitation that is good; fault is what
// is wrong with the password that was chosen.
func (s *server) renderInvitation(w http.ResponseWriter, r *http.Request, fault string) {
	member, merchant, err := s.Store.Invitation(r.Context(), invitationHash(r))
	if errors.Is(err, checkout.ErrNotFound) {
		s.problem(problem{http.StatusNotFound, "The invitation is not valid", "It was used, or it has run out. Ask an owner for another."}).ServeHTTP(w, r)
		return
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	status := http.StatusOK
	if fault != "" {
		status = http.StatusUnprocessableEntity
	}
	s.renderOpen(w, r, status, "invitation", "Welcome", invitationPage{member.Email, merchant, fault})
}

// acceptInvitation serves POST /invitation/{token}: the first password, which
// signs in.
func (s *server) acceptInvitation(w http.ResponseWriter, r *http.Request) {
	if ok, err := s.mayGuess(r.Context(), limit.Address(r), "an invitation"); err != nil || !ok {
		s.refuseSignIn(w, r, err)
		return
	}
	password := r.PostFormValue("password")
	if fault := passwordFault(password, r.PostFormValue("password_again")); fault != "" {
		s.renderInvitation(w, r, fault)
		return
	}
	member, err := Accept(r.Context(), &s.Store.Accounts, mux.Vars(r)["token"], password)
	if errors.Is(err, checkout.ErrNotFound) {
		s.renderInvitation(w, r, "")
		return
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.startSession(w, r, member, "/")
}
