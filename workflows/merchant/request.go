package merchant

import (
	"time"

	"example.com/checkout/workflows/checkout"
)

// APIRequest is a request to the REST API with a valid key, for the log that the merchant sees. It has nothing of
// the path, the query, the headers or the body.
type APIRequest struct {
	checkout.Ref // its id orders the log; see RequestID

	RequestID string // that of the answer; a caller may have chosen it
	KeyID     string
	Method    string // "_OTHER" when HTTP does not know it
	Route     string // template, such as "/v1/checkout/{id}"
	Status    int
	Error     string // code of the answer, "" without an error
	SessionID string // of the merchant's session that the answer is about, "" for none
	Duration  time.Duration
	CreatedAt time.Time // when the request came
}
