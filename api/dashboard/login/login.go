// Package login finds out who is at the browser: signing in with a password, a code or a passkey, the cookies of a
// browser, invitations and forgotten passwords, the page of the account, and the confirmation of a dangerous action.
// Other pages of the dashboard see the visitor and no cookie or password.
package login

import (
	"github.com/go-webauthn/webauthn/webauthn"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
)

// Server serves signing in and the page of the account, and identifies visitors.
type Server struct {
	AuditLog *storage.AuditLog
	People   *people.Store
	Requests *storage.Requests
	Secrets  *people.Secrets
	Renderer *page.Renderer
	Passkeys *webauthn.WebAuthn // from NewPasskeys; nil: this address has none
	// RequireFactor: who has no second factor must set one up before a dangerous action, see ConfirmPage.
	RequireFactor bool
	Mail          bool // mails are sent; without them nobody can ask for a new password
}
