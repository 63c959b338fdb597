package api

import (
	"net/http"

	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// merchantAnswer says whose key it is, and what the key may do.
type merchantAnswer struct {
	ID              string                   `json:"id"`
	Name            string                   `json:"name"`
	Livemode        bool                     `json:"livemode"`
	Plan            planAnswer               `json:"plan"`
	PayoutAddresses []merchant.PayoutAddress `json:"payout_addresses"` // masked
	Key             keyAnswer                `json:"key"`
}

// planAnswer is the price of a payment.
type planAnswer struct {
	Name           string       `json:"name"`
	FeeBasisPoints int64        `json:"fee_basis_points"`
	FeeFixed       money.Amount `json:"fee_fixed"`
}

// keyAnswer is the key of the request, without its secret.
type keyAnswer struct {
	ID     string          `json:"id"`
	Label  string          `json:"label"`
	Scopes merchant.Scopes `json:"scopes"`
}

// getMerchant serves GET /v1/merchant. Every key may ask who it is.
func (s *Server) getMerchant(r *http.Request) (int, any, error) {
	caller := callerFrom(r.Context())
	addresses, err := s.Store.Merchants.PayoutAddresses(r.Context(), caller.Key.Owner)
	if err != nil {
		return 0, nil, err
	}
	for i := range addresses {
		addresses[i].Address = masked(addresses[i].Address)
	}
	m := caller.Merchant
	return http.StatusOK, merchantAnswer{
		ID: m.ID, Name: m.Name, Livemode: caller.Key.Mode.Live(),
		Plan:            planAnswer{m.Plan, m.FeeBasisPoints, m.FeeFixed},
		PayoutAddresses: addresses,
		Key:             keyAnswer{caller.Key.ID, caller.Key.Label, caller.Key.Scopes},
	}, nil
}

// masked keeps the ends of an address: enough to recognize it, too little to send to it.
func masked(address string) string {
	const begin, end = 6, 4
	if len(address) <= begin+end {
		return address
	}
	return address[:begin] + "…" + address[len(address)-end:]
}
