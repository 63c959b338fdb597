package checkout

// Movement is a change of our balance at the card network.
type Movement struct {
	ID       string // the network's
	Kind     MovementKind
	Category string // the network's name of the kind
	Currency Currency
	Amount   Amount // before the fee; below 0 when our balance got smaller
	Fee      Amount // what the network kept of it
}

// MovementKind says what changed the balance.
type MovementKind string

// Kinds of movements.
const (
	MovementCharge   MovementKind = "charge"   // its fee is the charge's cost
	MovementCustomer MovementKind = "customer" // a refund or a dispute, or the end of one
	MovementBank     MovementKind = "bank"     // to our bank, or back from there
	MovementFee      MovementKind = "fee"      // what the network's services cost
	MovementOther    MovementKind = "other"
)
