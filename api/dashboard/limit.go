package dashboard

import (
	"golang.org/x/sync/semaphore"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
)

// DefaultLimits are how often one address may ask. An office shares one. Source:
// api/decisions.md, "The dashboard".
var DefaultLimits = limit.Rates{
	Requests: storage.Rate{PerSecond: 20, Burst: 200},
	Forms:    storage.Rate{PerSecond: 1, Burst: 60},
}

const bucketsOfAddress = "dashboard"

// entrance lets a few requests count themselves at once. A crowd that comes from
// many addresses does not take all connections to PostgreSQL by that, which other
// merchants' requests need.
var entrance = semaphore.NewWeighted(2)
