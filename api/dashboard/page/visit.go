package page

import (
	"net/http"
	"slices"

	"github.com/gorilla/mux"

	"example.com/checkout/api/action"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// Visit is a request of a signed-in member. Its Member is empty when nobody is signed in.
type Visit struct {
	*http.Request
	Member   merchant.Member
	Merchant string // name
	// Suspended is what an operator has suspended of the merchant.
	Suspended merchant.Suspended
	Mode      checkout.Mode // from the path; test when the path has none

	// Others are the person's other merchants to which this browser is signed in.
	Others []people.SignedInMember

	Browser []byte // SHA-256 of the browser's token
	notice  string // message about the last action
}

// Nobody is the visit of a request of which nobody is signed in.
func Nobody(r *http.Request) Visit { return Visit{Request: r, Mode: checkout.ModeTest} }

// SignedIn reports whether the visitor is signed in.
func (v Visit) SignedIn() bool { return v.Member.ID != "" }

// ID returns the id in the path.
func (v Visit) ID() string { return mux.Vars(v.Request)["id"] }

// SignedInTo reports whether the person is signed in to a merchant in this browser.
func (v Visit) SignedInTo(merchantID string) bool {
	return v.MerchantID() == merchantID || slices.ContainsFunc(v.Others, func(o people.SignedInMember) bool {
		return o.MerchantID == merchantID
	})
}

// Owner returns the visitor's merchant, in the page's mode.
func (v Visit) Owner() checkout.Owner {
	return checkout.Owner{MerchantID: v.Member.MerchantID, Mode: v.Mode}
}

// MerchantID returns the id of the visitor's merchant.
func (v Visit) MerchantID() string { return v.Member.MerchantID }

// ModeRoute begins the route of every page of a signed-in person, and Path its address: the account and the mode are in
// the address, so a link opens what it names in whichever tab.
const ModeRoute = MerchantRoute + "/{mode:test|live}"

// MerchantRoute begins the route of what belongs to a merchant.
const MerchantRoute = "/m/{merchant:mer_[0-9a-z]+}"

// Path returns the address of a page of the visitor's merchant in the visit's mode.
func (v Visit) Path(path string) string { return Home(v.MerchantID()) + string(v.Mode) + path }

// Home returns the address that leads to the first page of a merchant.
func Home(merchantID string) string { return "/m/" + merchantID + "/" }

// May reports whether the visitor's role includes role.
func (v Visit) May(role merchant.Role) bool { return v.Member.Role.May(role) }

// By returns the visitor as the audit log has them.
func (v Visit) By() action.By {
	return action.By{Actor: v.Member.Email, Address: limit.RemoteIP(v.Request)}
}

// AuditBoth returns the audit log's entry for an action of the visitor in both modes. detail is a
// text without secrets.
func (v Visit) AuditBoth(what, subject, detail string) merchant.AuditEntry {
	return v.By().Entry(checkout.Owner{MerchantID: v.MerchantID()}.Ref(subject), what, detail)
}

// Entry returns the audit log's entry for what m does to the own account in request r. detail is a text without
// secrets.
func Entry(r *http.Request, m merchant.Member, what, detail string) merchant.AuditEntry {
	return Visit{Request: r, Member: m}.AuditBoth(what, m.ID, detail)
}

// Reveal names the secret of subject for the visitor's browser.
func (v Visit) Reveal(subject string) people.Reveal {
	return people.Reveal{Owner: v.Owner(), Browser: v.Browser, Subject: subject}
}
