package checkout

// Owner says whose something is. Each row, query and run has one: a merchant never
// sees what is another's, nor test mode what is live.
type Owner struct {
	MerchantID string `json:"merchant_id"`
	Mode       Mode   `json:"mode"`
}

// Ref refers to one thing: its public id, and its owner.
type Ref struct {
	Owner
	ID string `json:"id"`
}

// Ref refers to the owner's thing with this id.
func (o Owner) Ref(id string) Ref { return Ref{Owner: o, ID: id} }
