package webhook

import (
	"time"

	"example.com/checkout/workflows/checkout"
)

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

// States of a delivery.
const (
	DeliveryPending   DeliveryStatus = "pending"
	DeliveryDelivered DeliveryStatus = "delivered"
	DeliveryFailed    DeliveryStatus = "failed"   // permanently: every attempt failed
	DeliveryCanceled  DeliveryStatus = "canceled" // its endpoint was deleted
)

// Delivery is one event on its way to one address.
type Delivery struct {
	ID         string
	EventID    string
	EventType  EventType
	MerchantID string
	Mode       checkout.Mode
	EndpointID string // whose secret signs
	URL        string
	Status     DeliveryStatus
	Run        int // 1 for the automatic run, one more for each replay
	CreatedAt  time.Time
}

// DeliveryRef is what a workflow needs to start a delivery: no URL, no body.
type DeliveryRef struct {
	ID   string `json:"id"`
	Host string `json:"host"` // shown to operators
}

// ErrorKind classifies a failed attempt. Source: api/decisions.md, "deliveries".
type ErrorKind string

// Kinds of failed attempts.
const (
	ErrorDNS            ErrorKind = "dns"
	ErrorConnect        ErrorKind = "connect"
	ErrorTLS            ErrorKind = "tls"
	ErrorTimeout        ErrorKind = "timeout"
	ErrorBlockedAddress ErrorKind = "blocked_address"
	ErrorHTTP           ErrorKind = "http"     // an answer that is not 2xx, or not HTTP
	ErrorInternal       ErrorKind = "internal" // ours
)

// Attempt is one HTTP POST of a delivery.
type Attempt struct {
	DeliveryID   string
	Run          int
	Number       int // from 1 in each run
	StartedAt    time.Time
	Duration     time.Duration
	StatusCode   int       // 0 when no answer came
	ErrorKind    ErrorKind // "" when it succeeded
	ResponseBody []byte    // at most 16 KiB
}

// Succeeded reports whether the receiver accepted the event.
func (a Attempt) Succeeded() bool { return a.ErrorKind == "" }
