package api

import (
	"fmt"
	"net/http"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
)

// audit returns the audit log's entry for a change made with the request's API key. subject is the
// id of the changed object. detail is a text without secrets.
func audit(r *http.Request, what, subject, detail string) checkout.AuditEntry {
	key := callerFrom(r.Context()).Key
	actor := fmt.Sprintf("API key “%s” …%s (%s)", key.Label, key.Last4, key.ID)
	e := action.Entry(r, key.MerchantID, actor, what, subject, detail)
	e.Mode = &key.Mode
	return e
}
