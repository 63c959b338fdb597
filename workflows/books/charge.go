package books

import (
	"time"

	"example.com/checkout/workflows/money"
)

// Charged is a card that the network has charged, as reconciliation compares it with our transactions.
type Charged struct {
	Reference     string // the network's name of the charge
	TransactionID string // "" when the charge was not made by this service
	SessionID     string
	Amount        money.Amount
	Currency      money.Currency
	Refunded      money.Amount // how much of it went back
	Disputed      bool
	Cost          *ChargeCost // nil while the network has not booked the charge
	CreatedAt     time.Time
}

// ChargeCost is what a charge cost, as the network has booked it.
type ChargeCost struct {
	Currency money.Currency // in which the network settles; may be another than the charge's, and not one of ours
	Gross    money.Amount   // the charge in Currency, before the cost
	Cost     money.Amount   // in Currency
	// AvailableAt is when the network makes the money available; zero while it has not said so.
	AvailableAt time.Time
}

// Is reports whether c and d are the same money, whenever it is available.
func (c *ChargeCost) Is(d ChargeCost) bool {
	return c.Currency == d.Currency && c.Gross == d.Gross && c.Cost == d.Cost
}

// Valid reports whether c is known and can be the cost of a charge.
func (c *ChargeCost) Valid() bool { return c != nil && c.Gross > 0 && c.Cost >= 0 }
