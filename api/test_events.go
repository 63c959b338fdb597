package api

import (
	"encoding/json"
	"net/http"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// sentTestEvent is the answer to a test event.
type sentTestEvent struct {
	Event    webhook.Event    `json:"event"`
	Delivery webhook.Delivery `json:"delivery"`
}

// sendTestEvent serves POST /v1/webhooks/{id}/test: an event that only this
// registration gets, whatever it lists, with everything of a real one: retries,
// log, replay. A delivery that cannot be started now is started by Reconcile.
func (s *Server) sendTestEvent(r *http.Request) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	e, err := s.endpoint(r)
	if err != nil {
		return 0, nil, err
	}
	members, err := readOptional(r)
	if err != nil {
		return 0, nil, err
	}
	typ, metadata, err := newTestEvent(e, members)
	if err != nil {
		return 0, nil, err
	}
	event, ref, err := s.Store.PublishTest(ctx, storage.TestEvent{
		MerchantID: e.MerchantID, Mode: e.Mode, EndpointID: e.ID, SubjectID: newID(ctx, "test"), Type: typ,
		Data: func(at time.Time) any { return sample(typ, caller.Merchant, metadata, at) },
	})
	if err != nil {
		return 0, nil, err
	}
	s.leftToReconcile(ctx, s.Workflows.StartDelivery(ctx, event, ref))
	d, err := s.Store.Delivery(ctx, storage.DeliveryRef{ID: ref.ID, MerchantID: e.MerchantID, Mode: e.Mode})
	return http.StatusAccepted, located{"/v1/deliveries/" + ref.ID, sentTestEvent{event, d}}, err
}

// newTestEvent reads the body of a test event. It returns all faults of it at
// once.
func newTestEvent(e webhook.Endpoint, members []member) (webhook.EventType, json.RawMessage, error) {
	var found faults
	f := newFields(&found, members, "type", "metadata")
	typ := e.Events[0] // there is always one
	if _, ok := f.optional("type"); ok {
		typ = requiredChoice(f, "type", webhook.EventTypes)
	}
	metadata, _ := f.metadata()
	if _, ok := f.optional("metadata"); ok && typ == webhook.MerchantUpdated {
		f.add("metadata", "is not part of "+string(typ))
	}
	return typ, metadata, found.err()
}

// sample returns the data of a test event, with every member that a real one
// has. It is never in live mode: no shop may ship goods because of it.
func sample(typ webhook.EventType, m checkout.Merchant, metadata json.RawMessage, at time.Time) any {
	switch typ {
	case webhook.CheckoutCompleted:
		return sampleTransaction(m, metadata, at, "")
	case webhook.CheckoutFailed:
		return sampleTransaction(m, metadata, at, checkout.FailureCardDeclined)
	case webhook.PayoutSent:
		return samplePayout(metadata, at, "")
	case webhook.PayoutFailed:
		return samplePayout(metadata, at, checkout.PayoutNetworkError)
	default:
		return sampleMerchantUpdate(m)
	}
}

// What a sample says was paid and sent on.
const (
	sampleAmount  checkout.Amount = 10_050
	sampleRate                    = "1.08"
	sampleAddress                 = "0x52908400098527886E0F7030069857D2E4169EE7"
)

func sampleTransaction(m checkout.Merchant, metadata json.RawMessage, at time.Time, failure checkout.FailureCode) checkout.Transaction {
	email := "customer@example.com"
	t := checkout.Transaction{
		ID: checkout.NewID(checkout.PrefixTransaction), SessionID: checkout.NewID(checkout.PrefixSession), Mode: checkout.ModeTest,
		Status: checkout.TransactionSucceeded, Amount: sampleAmount, Currency: checkout.EUR, PayoutCurrency: checkout.USDC,
		CustomerEmail: &email, Metadata: metadata, Attempt: 1, SessionStatus: checkout.StatusCompleted,
		PaymentMethod: checkout.PaymentMethod{
			Type: "card", Brand: "visa", Last4: "4242", ExpMonth: 12, ExpYear: at.Year() + 2, Country: "US",
		},
		CreatedAt: at.Add(-2 * time.Second), CompletedAt: &at,
	}
	if failure != "" {
		t.Status, t.Failure = checkout.TransactionFailed, failure
		t.AttemptsRemaining, t.SessionStatus = m.PaymentAttempts-1, checkout.StatusPending
		if t.AttemptsRemaining <= 0 {
			t.AttemptsRemaining, t.SessionStatus = 0, checkout.StatusFailed
		}
		return t
	}
	t.Fee = t.Amount.Percentage(m.FeeBasisPoints)
	t.Net, t.ExchangeRate = t.Amount-t.Fee, sampleRate
	return t
}

func samplePayout(metadata json.RawMessage, at time.Time, failure checkout.PayoutFailure) checkout.Payout {
	p := checkout.Payout{
		ID: checkout.NewID(checkout.PrefixPayout), SessionID: checkout.NewID(checkout.PrefixSession),
		TransactionID: checkout.NewID(checkout.PrefixTransaction), Mode: checkout.ModeTest, Status: checkout.PayoutSent,
		Amount: "108.000000", Currency: checkout.USDC, Network: checkout.USDC.Network(), Destination: sampleAddress,
		SourceAmount: sampleAmount, SourceCurrency: checkout.EUR, ExchangeRate: sampleRate, Fee: "0.540000",
		TxHash: "0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b", Metadata: metadata,
		CreatedAt: at.Add(-2 * time.Second), SentAt: &at,
	}
	if failure != "" {
		p.Status, p.Failure, p.TxHash, p.SentAt, p.FailedAt = checkout.PayoutFailed, failure, "", nil, &at
	}
	return p
}

// sampleMerchantUpdate tells of a new payout address.
func sampleMerchantUpdate(m checkout.Merchant) checkout.MerchantUpdate {
	address := checkout.PayoutAddress{Currency: checkout.USDC, Network: checkout.USDC.Network(), Address: sampleAddress}
	before := address
	before.Address = "0xde709f2102306220921060314715629080e2fb77"
	return checkout.MerchantUpdate{
		Merchant: m, Mode: checkout.ModeTest, Addresses: []checkout.PayoutAddress{address},
		Changed: []string{"payout_addresses"}, Previous: map[string]any{"payout_addresses": []checkout.PayoutAddress{before}},
	}
}
