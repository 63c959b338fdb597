package api

import (
	"fmt"
	"net/http"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
)

// audit is the entry of the audit log for what a request does with its key.
// subject is the id of what it changes; detail is in words, without secrets.
func audit(r *http.Request, what, subject, detail string) checkout.AuditEntry {
	key := callerFrom(r.Context()).Key
	e := action.Entry(r, key.MerchantID, fmt.Sprintf("API key “%s” …%s", key.Label, key.Last4), what, subject, detail)
	e.Mode = &key.Mode
	return e
}
