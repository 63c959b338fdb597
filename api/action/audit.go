package action

import (
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// By is who acts, as the audit log has it.
type By struct {
	Actor   string // an e-mail address, an API key or “operator”
	Address string // IP address, "" for the command line
}

// Operator acts on the command line.
var Operator = By{Actor: "operator"}

// Entry returns the audit log's entry for an action on the object ref. A ref without a mode concerns
// both modes. detail is a text without secrets.
func (b By) Entry(ref checkout.Ref, what, detail string) merchant.AuditEntry {
	e := merchant.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: ref.MerchantID, Actor: b.Actor,
		Action: what, Subject: ref.ID, Detail: detail, Address: b.Address,
	}
	if ref.Mode != "" {
		e.Mode = &ref.Mode
	}
	return e
}
