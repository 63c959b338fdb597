package face

import (
	"net/http"

	"github.com/gorilla/mux"

	"example.com/checkout/api/action"
	"example.com/checkout/storage/account"
	"example.com/checkout/workflows/checkout"
)

// Visit is a request of a signed-in member. Its Member is empty when nobody is signed in.
type Visit struct {
	*http.Request
	Member   checkout.Member
	Merchant string        // name
	Mode     checkout.Mode // from the path; test when the path has none

	// Several: this browser is, or was, signed in to other merchants too.
	Several bool

	Browser []byte // SHA-256 of the browser's token
	notice  string // message about the last action
}

// ID returns the id in the path.
func (v Visit) ID() string { return mux.Vars(v.Request)["id"] }

// Owner returns the visitor's merchant, in the page's mode.
func (v Visit) Owner() checkout.Owner {
	return checkout.Owner{MerchantID: v.Member.MerchantID, Mode: v.Mode}
}

// MerchantID returns the id of the visitor's merchant.
func (v Visit) MerchantID() string { return v.Member.MerchantID }

// Path returns the address of a page in the visit's mode.
func (v Visit) Path(path string) string { return "/" + string(v.Mode) + path }

// May reports whether the visitor's role includes role.
func (v Visit) May(role checkout.Role) bool { return v.Member.Role.May(role) }

// Audit returns the audit log's entry for an action of the visitor in the visit's mode. detail is a
// text without secrets.
func (v Visit) Audit(what, subject, detail string) checkout.AuditEntry {
	e := v.AuditBoth(what, subject, detail)
	e.Mode = &v.Mode
	return e
}

// AuditBoth is Audit for an action in both modes.
func (v Visit) AuditBoth(what, subject, detail string) checkout.AuditEntry {
	return action.Entry(v.Request, v.MerchantID(), v.Member.Email, what, subject, detail)
}

// Reveal names the secret of subject for the visitor's browser.
func (v Visit) Reveal(subject string) account.Reveal {
	return account.Reveal{Owner: v.Owner(), Browser: v.Browser, Subject: subject}
}

// IsFor reports whether a page that was made for a member is for the visitor. "" is a request that does not say it.
func (v Visit) IsFor(member string) bool { return member == "" || member == v.Member.ID }
