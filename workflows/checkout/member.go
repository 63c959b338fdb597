package checkout

import (
	"errors"
	"slices"
	"time"
)

// Role is what a member of a merchant may do in the dashboard.
type Role string

// The roles, each with what the next one may do besides.
const (
	RoleOwner     Role = "owner"     // settings, payout addresses and members
	RoleDeveloper Role = "developer" // keys, webhooks, deliveries, expiring sessions
	RoleViewer    Role = "viewer"    // looks
)

// Roles lists the roles, the one that may do most first.
var Roles = []Role{RoleOwner, RoleDeveloper, RoleViewer}

// Valid reports whether r is a role.
func (r Role) Valid() bool { return slices.Contains(Roles, r) }

// May reports whether r may do what needs at least role needed.
func (r Role) May(needed Role) bool {
	return r.Valid() && slices.Index(Roles, r) <= slices.Index(Roles, needed)
}

// Member is a person who signs in to the dashboard of one merchant.
type Member struct {
	ID                  string
	MerchantID          string
	Email               string
	Role                Role
	CreatedAt           time.Time
	SignedInAt          *time.Time // nil: never
	InvitationExpiresAt *time.Time // nil: the invitation was accepted
}

// Invited reports whether the member has no password yet.
func (m Member) Invited() bool { return m.InvitationExpiresAt != nil }

// InvitationLifetime is how long the link of an invitation is good for.
const InvitationLifetime = 72 * time.Hour

// InvitationURL returns the link of the invitation with that token; base is the dashboard's
// address, without a slash at its end.
func InvitationURL(base, token string) string { return base + "/invitation/" + token }

// Errors of members.
var (
	// ErrEmailInUse: somebody signs in with that address already.
	ErrEmailInUse = errors.New("the e-mail address is in use")
	// ErrLastOwner: without an owner nobody could change anything again.
	ErrLastOwner = errors.New("a merchant needs an owner")
)

// AuditEntry says who changed what.
type AuditEntry struct {
	ID         string
	MerchantID string
	Mode       *Mode  // nil: the change concerns both
	Actor      string // the member's e-mail as it was then, an API key or the operator
	Action     string // noun.verb, such as api_key.created
	Subject    string // the id of what was changed
	Detail     string // in words, without secrets
	Address    string // IP address that it came from, "" for a command
	CreatedAt  time.Time
}
