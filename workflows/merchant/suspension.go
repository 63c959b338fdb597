package merchant

import (
	"slices"
	"strings"
	"time"
)

// Capability is a part of a merchant's business that an operator can suspend. Source:
// api/decisions/merchants.md, "a suspended merchant".
type Capability string

// Capabilities.
const (
	CapabilityPayments Capability = "payments" // sessions are created, and payments begin
	CapabilityPayouts  Capability = "payouts"  // payouts are signed
	CapabilitySignIn   Capability = "sign_in"  // members use the dashboard
)

// Suspended lists what is suspended of a merchant, sorted.
type Suspended []Capability

// Has reports whether c is suspended.
func (s Suspended) Has(c Capability) bool { return slices.Contains(s, c) }

// String lists the capabilities for people: "payments, payouts".
func (s Suspended) String() string {
	var names []string
	for _, c := range s {
		names = append(names, strings.ReplaceAll(string(c), "_", "-"))
	}
	return strings.Join(names, ", ")
}

// Suspension is what an operator has suspended of a merchant. Its zero value suspends nothing.
type Suspension struct {
	Suspended Suspended
	At        *time.Time // of the last change that suspended something
	Why       string     // what each change suspended, and its reason
}
