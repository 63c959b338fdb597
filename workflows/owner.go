package workflows

import (
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
)

// Owner says whose a run is; every input has one.
type Owner struct {
	MerchantID string        `json:"merchant_id"`
	Mode       checkout.Mode `json:"mode"`
}

// searchAttributes returns the owner's and the given attributes.
func (o Owner) searchAttributes(more ...temporal.SearchAttributeUpdate) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(append(more,
		SearchAttributeMerchantID.ValueSet(o.MerchantID), SearchAttributeMode.ValueSet(string(o.Mode)))...)
}
