package books

import "example.com/checkout/workflows/money"

// Movement is a change of our balance at the card network.
type Movement struct {
	ID       string // the network's
	Kind     MovementKind
	Category string // the network's name of the kind
	Currency money.Currency
	Amount   money.Amount // before the fee; below 0 when our balance got smaller
	Fee      money.Amount // what the network kept of it
}

// MovementKind is what changed the balance.
type MovementKind string

// Kinds of movements.
const (
	MovementCharge   MovementKind = "charge"   // its fee is the charge's cost
	MovementCustomer MovementKind = "customer" // a refund or a dispute, or the end of one
	MovementBank     MovementKind = "bank"     // to our bank, or back from there
	MovementFee      MovementKind = "fee"      // what the network's services cost
	MovementOther    MovementKind = "other"
)
