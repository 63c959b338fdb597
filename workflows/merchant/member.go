package merchant

import (
	"errors"
	"slices"
	"time"

	"example.com/checkout/workflows/checkout"
)

// Role says what a member of a merchant may do in the dashboard.
type Role string

// The roles. Each also includes the rights of the roles below it.
const (
	RoleOwner     Role = "owner"     // settings, payout addresses and members
	RoleDeveloper Role = "developer" // keys, webhooks, deliveries, expiring sessions
	RoleViewer    Role = "viewer"    // read only
)

// Roles lists the roles, the most powerful first.
var Roles = []Role{RoleOwner, RoleDeveloper, RoleViewer}

// Valid reports whether r is a role.
func (r Role) Valid() bool { return slices.Contains(Roles, r) }

// May reports whether r has at least the rights of needed.
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
	SignedInAt          *time.Time // nil when the member never signed in
	InvitationExpiresAt *time.Time // nil after the invitation was accepted
	App                 bool       // the member has an app that makes codes
	Passkeys            int        // how many the member has
}

// SecondFactor reports whether signing in needs more than the password: the app or a passkey.
func (m Member) SecondFactor() bool { return m.App || m.Passkeys > 0 }

// Passkey is what a member's device or key fob proves the member with, instead of a code.
type Passkey struct {
	ID         string
	Name       string // for people
	Credential []byte // the public key and what is known of it, in the form of the caller
	CreatedAt  time.Time
	UsedAt     *time.Time // nil when it was never used
}

// Invited reports whether the member has no password yet.
func (m Member) Invited() bool { return m.InvitationExpiresAt != nil }

// InvitationLifetime is how long the link of an invitation is good for.
const InvitationLifetime = 72 * time.Hour

// MaxOpenInvitations is how many people of a merchant may be invited and have not joined.
const MaxOpenInvitations = 100

// InvitationURL returns the link of the invitation with that token; base is the dashboard's
// address, without a slash at its end.
func InvitationURL(base, token string) string { return base + "/invitation/" + token }

// Errors of members.
var (
	// ErrEmailInUse: another member has this address.
	ErrEmailInUse = errors.New("the e-mail address is in use")
	// ErrTooManyInvitations: MaxOpenInvitations people have not joined.
	ErrTooManyInvitations = errors.New("too many open invitations")
	// ErrLastOwner: without an owner, nobody could manage the merchant's settings and members.
	ErrLastOwner = errors.New("a merchant needs an owner")
)

// AuditEntry is one change in the audit log.
type AuditEntry struct {
	ID         string
	MerchantID string
	Mode       *checkout.Mode // nil when the change concerns both
	Actor      string         // the member's e-mail address at that time, an API key or the operator
	Action     string         // noun.verb, such as api_key.created
	Subject    string         // id of the changed object
	Detail     string         // in words, without secrets
	Address    string         // IP address of the request; "" for a command
	CreatedAt  time.Time
}

// PublicID returns the id, as checkout.Ref.PublicID does for what one mode has.
func (e AuditEntry) PublicID() string { return e.ID }
