package books

import (
	"time"

	"example.com/checkout/workflows/checkout"
)

// AcquirerEvent is a report of the card network that one of its objects has changed. It is a hint to ask for
// the object's state: reports come late, several times, and out of order.
type AcquirerEvent struct {
	ID        string // the network's
	Mode      checkout.Mode
	Type      string // the network's, such as "payment_intent.succeeded"
	ObjectID  string // of the changed object
	Reference string // of the charge that the object is or belongs to; "" when it belongs to none
	Risk      bool   // a dispute, a warning of fraud or a refund of the charge has changed
	CreatedAt time.Time
	// Unread says that the report cannot be stored: its ids are none. Only ID may be used, as a cursor.
	Unread bool
}
