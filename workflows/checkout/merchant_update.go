package checkout

// MerchantSettings holds the settings that a merchant can change.
type MerchantSettings struct {
	PaymentAttempts int  `json:"payment_attempts"` // failed payments that end a session
	OrderIDGuard    bool `json:"order_id_guard"`
}

// MerchantUpdate is the data of merchant.updated: the merchant after a change, and the changed
// fields. It never holds a key or a secret.
type MerchantUpdate struct {
	Merchant
	Mode      Mode
	Addresses []PayoutAddress
	Changed   []string       // names of the changed JSON members
	Previous  map[string]any // their old values
}

// MarshalJSON writes the merchant object. Source: api/decisions/objects.md, "merchant.updated".
func (u MerchantUpdate) MarshalJSON() ([]byte, error) {
	return EncodeJSON(struct {
		ID        string           `json:"id"`
		Name      string           `json:"name"`
		Plan      string           `json:"plan"`
		Addresses []PayoutAddress  `json:"payout_addresses"`
		Settings  MerchantSettings `json:"settings"`
		Livemode  bool             `json:"livemode"`
		Changed   []string         `json:"changed"`
		Previous  map[string]any   `json:"previous_attributes"`
	}{
		ID: u.ID, Name: u.Name, Plan: u.Plan, Addresses: u.Addresses,
		Settings: MerchantSettings{u.PaymentAttempts, u.OrderIDGuard}, Livemode: u.Mode.Live(),
		Changed: u.Changed, Previous: u.Previous,
	})
}
