package checkout

// Owner is a merchant in one mode. Each row, query and run has an owner: a merchant never sees
// another merchant's rows, and test mode never sees live rows.
type Owner struct {
	MerchantID string `json:"merchant_id"`
	Mode       Mode   `json:"mode"`
}

// Ref names one object by its public id and its owner.
type Ref struct {
	Owner
	ID string `json:"id"`
}

// PublicID returns the id, also of an object that has the Ref.
func (r Ref) PublicID() string { return r.ID }

// Ref returns the Ref of the owner's object with this id.
func (o Owner) Ref(id string) Ref { return Ref{Owner: o, ID: id} }

// Mode separates test from live. Every row, query and key has one.
type Mode string

// The two modes. Source: api/interface.md, "Authentication".
const (
	ModeTest Mode = "test"
	ModeLive Mode = "live"
)

// Live reports whether real money moves.
func (m Mode) Live() bool { return m == ModeLive }

// Other returns the other mode.
func (m Mode) Other() Mode {
	if m == ModeLive {
		return ModeTest
	}
	return ModeLive
}
