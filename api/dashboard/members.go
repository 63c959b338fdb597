package dashboard

import (
	"errors"
	"fmt"
	"strings"

	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// membersPage lists the people who may sign in.
type membersPage struct {
	Members []merchant.Member
	Mail    bool // mails are sent; without them an operator invites people
	Fault   string
	Email   string // as typed
}

func (s *server) listMembers(v page.Visit) (page.Answer, error) {
	return s.membersPage(v, membersPage{})
}

// membersPage shows the members and the result of the last action.
func (s *server) membersPage(v page.Visit, p membersPage) (page.Answer, error) {
	var err error
	p.Mail = s.Mail
	if p.Members, err = s.Store.People.Members(v.Context(), v.MerchantID()); err != nil {
		return page.Answer{}, err
	}
	return page.ShowForm(p.Fault, "members", "People", p)
}

var invitationSent = page.Notice("invitation_sent", "The invitation is on its way. Its link is valid for 3 days.")

// inviteMember serves POST …/members. The link goes to the mailbox only: an owner who saw it could accept it and
// so claim the address of a stranger.
func (s *server) inviteMember(v page.Visit) (page.Answer, error) {
	if !s.Mail {
		return page.Answer{}, checkout.ErrNotFound
	}
	email, role := strings.TrimSpace(v.PostFormValue("email")), merchant.Role(v.PostFormValue("role"))
	if !checkout.ValidEmail(email) {
		return s.membersPage(v, membersPage{Fault: "This is not an e-mail address.", Email: email})
	}
	if !role.Valid() {
		return s.membersPage(v, membersPage{Fault: "Choose a role.", Email: email})
	}
	unconfirmed, err := s.confirmRole(
		v, role.May(merchant.RoleDeveloper), email+" will be invited as "+roleWords[role]+".")
	if unconfirmed != nil || err != nil {
		return page.OrNone(unconfirmed), err
	}
	m := merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: v.MerchantID(), Email: email, Role: role}
	got, err := inviteOnce(s, v, m.ID, func() error {
		return s.Store.People.InviteMember(v.Context(), m, v.AuditBoth("member.invited", m.ID, email+" as "+string(role)))
	})
	if errors.Is(err, merchant.ErrEmailInUse) {
		return s.membersPage(v, membersPage{Fault: "This address is already in the list.", Email: email})
	}
	if errors.Is(err, merchant.ErrTooManyInvitations) {
		return s.membersPage(v, membersPage{Email: email, Fault: fmt.Sprintf(
			"%d people have not accepted their invitation. Remove one of them first.", merchant.MaxOpenInvitations)})
	}
	return got, err
}

// inviteOnce invites a member once, even when the browser sends the form twice. There is no secret to show.
func inviteOnce(s *server, v page.Visit, memberID string, invite func() error) (page.Answer, error) {
	list := func(string) string { return v.Path("/members") }
	got, err := page.CreateAndReveal(s.Store.Secrets, v, memberID, "", list, invite)
	got.Notice = invitationSent
	return got, err
}

// roleWords say what a person is.
var roleWords = map[merchant.Role]string{
	merchant.RoleOwner: "an owner", merchant.RoleDeveloper: "a developer", merchant.RoleViewer: "a viewer",
}

// confirmRole asks for the password before a person becomes an owner or a developer, or an owner stops being one:
// what such people do alone needs a proof too, and a new one proves it with a password that a thief of the cookie has
// chosen. concerned is true for such a change. The answer is nil for any other change, or when the password was
// right.
func (s *server) confirmRole(v page.Visit, concerned bool, what string) (*page.Answer, error) {
	if !concerned {
		return nil, nil
	}
	return s.login.RequireProof(v, login.ConfirmPage{
		Text:   what + " Owners change payout addresses and people, and developers make live keys.",
		Button: "Confirm", Back: v.Path("/members"),
		Grave: true,
	})
}

// renewInvitation serves POST …/members/{id}/invitation.
func (s *server) renewInvitation(v page.Visit, m merchant.Member) (page.Answer, error) {
	if !s.Mail {
		return page.Answer{}, checkout.ErrNotFound
	}
	unconfirmed, err := s.confirmRole(v, m.Role.May(merchant.RoleDeveloper),
		"Another link lets "+m.Email+" sign in as "+roleWords[m.Role]+".")
	if unconfirmed != nil || err != nil {
		return page.OrNone(unconfirmed), err
	}
	return inviteOnce(s, v, m.ID, func() error {
		return s.Store.People.RenewInvitation(v.Context(), m,
			v.AuditBoth("member.invited", m.ID, m.Email+" as "+string(m.Role)+", again"))
	})
}

var (
	roleChanged   = page.Notice("role_changed", "The role was changed.")
	memberRemoved = page.Notice("member_removed", "The person can no longer sign in.")
)

// changeRole serves POST …/members/{id}/role.
func (s *server) changeRole(v page.Visit, m merchant.Member) (page.Answer, error) {
	role := merchant.Role(v.PostFormValue("role"))
	if !role.Valid() {
		return s.membersPage(v, membersPage{Fault: "Choose a role."})
	}
	if m.Role == role {
		return page.GoTo(v.Path("/members"), page.NothingChanged)
	}
	unconfirmed, err := s.confirmRole(v, m.Role == merchant.RoleOwner || role.May(merchant.RoleDeveloper),
		fmt.Sprintf("%s, now %s, becomes %s.", m.Email, m.Role, role))
	if unconfirmed != nil || err != nil {
		return page.OrNone(unconfirmed), err
	}
	err = s.Store.People.SetRole(v.Context(), v.MerchantID(), m.ID, role,
		v.AuditBoth("member.role_changed", m.ID, fmt.Sprintf("%s: %s → %s", m.Email, m.Role, role)))
	return s.answerMemberChange(v, err, roleChanged)
}

// removeMember serves POST …/members/{id}/remove.
func (s *server) removeMember(v page.Visit, m merchant.Member) (page.Answer, error) {
	unconfirmed, err := s.confirmRole(
		v, m.Role == merchant.RoleOwner, m.Email+", an owner, will no longer be able to sign in.",
	)
	if unconfirmed != nil || err != nil {
		return page.OrNone(unconfirmed), err
	}
	err = s.Store.People.RemoveMember(
		v.Context(), v.MerchantID(), m.ID,
		v.AuditBoth("member.removed", m.ID, m.Email+", "+string(m.Role)),
	)
	return s.answerMemberChange(v, err, memberRemoved)
}

func (s *server) answerMemberChange(v page.Visit, err error, notice string) (page.Answer, error) {
	if errors.Is(err, merchant.ErrLastOwner) {
		return s.membersPage(v, membersPage{Fault: "At least one owner must remain."})
	}
	return page.GoToAfter(err, v.Path("/members"), notice)
}
