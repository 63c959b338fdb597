package merchant

import "example.com/checkout/workflows/checkout"

// Settings holds the settings that a merchant can change.
type Settings struct {
	PaymentAttempts int  `json:"payment_attempts"` // failed payments that end a session
	OrderIDGuard    bool `json:"order_id_guard"`
}

// Update is the data of merchant.updated: the merchant after a change, and the changed
// fields. It never holds a key or a secret.
type Update struct {
	Merchant
	Mode      checkout.Mode
	Addresses []PayoutAddress
	Changed   []string       // names of the changed JSON members
	Previous  map[string]any // their old values
}

// MarshalJSON writes the merchant object. Source: api/decisions/objects.md, "merchant.updated".
func (u Update) MarshalJSON() ([]byte, error) {
	return checkout.EncodeJSON(struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Plan      string          `json:"plan"`
		Addresses []PayoutAddress `json:"payout_addresses"`
		Settings  Settings        `json:"settings"`
		Livemode  bool            `json:"livemode"`
		Changed   []string        `json:"changed"`
		Previous  map[string]any  `json:"previous_attributes"`
	}{
		ID: u.ID, Name: u.Name, Plan: u.Plan, Addresses: u.Addresses,
		Settings: Settings{u.PaymentAttempts, u.OrderIDGuard}, Livemode: u.Mode.Live(),
		Changed: u.Changed, Previous: u.Previous,
	})
}
