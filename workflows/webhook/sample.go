package webhook

import (
	"encoding/json"
	"time"

	"example.com/checkout/workflows/checkout"
)

// Values of a sample payment and payout.
const (
	sampleAmount  checkout.Amount = 10_050
	sampleAddress                 = "0x52908400098527886E0F7030069857D2E4169EE7"
)

var sampleRate = checkout.MustRate("1.08")

func sampleTransaction(failure checkout.FailureCode) sampler {
	return func(m checkout.Merchant, metadata json.RawMessage, at time.Time) any {
		email := "customer@example.com"
		t := checkout.Transaction{
			Ref:       checkout.Owner{Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixTransaction)),
			SessionID: checkout.NewID(checkout.PrefixSession),
			Status:    checkout.TransactionSucceeded, Amount: sampleAmount, Currency: checkout.EUR,
			PayoutCurrency: checkout.USDC,
			CustomerEmail:  &email, Metadata: metadata, Attempt: 1,
			SessionStatus: checkout.StatusCompleted,
			PaymentMethod: checkout.PaymentMethod{
				Type: "card", Brand: "visa", Last4: "4242", ExpMonth: 12, ExpYear: at.Year() + 2,
				Country: "US",
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

		t.Fee = m.Fee().Of(t.Amount)
		t.Net, t.ExchangeRate = t.Amount-t.Fee, sampleRate
		return t
	}
}

func samplePayout(failure checkout.PayoutFailure) sampler {
	return func(_ checkout.Merchant, metadata json.RawMessage, at time.Time) any {
		p := checkout.Payout{
			Ref:           checkout.Owner{Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixPayout)),
			SessionID:     checkout.NewID(checkout.PrefixSession),
			TransactionID: checkout.NewID(checkout.PrefixTransaction), Status: checkout.PayoutSent,
			Amount: checkout.MustCrypto("108.000000", checkout.USDC), Currency: checkout.USDC, Network: checkout.USDC.Network(),
			Destination:  sampleAddress,
			SourceAmount: sampleAmount, SourceCurrency: checkout.EUR, ExchangeRate: sampleRate,
			LockedRate: sampleRate,
			Fee:        checkout.MustCrypto("0.540000", checkout.USDC),
			TxHash:     "0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b",
			Metadata:   metadata,
			CreatedAt:  at.Add(-2 * time.Second), SentAt: &at,
		}
		if failure != "" {
			p.Status, p.Failure, p.TxHash, p.SentAt, p.FailedAt = checkout.PayoutFailed, failure, "",
				nil, &at
		}
		return p
	}
}

// sampleMerchantUpdate is a change of a payout address.
func sampleMerchantUpdate(m checkout.Merchant, _ json.RawMessage, _ time.Time) any {
	address := checkout.PayoutAddress{Currency: checkout.USDC, Network: checkout.USDC.Network(), Address: sampleAddress}
	before := address
	before.Address = "0xde709f2102306220921060314715629080e2fb77"
	return checkout.MerchantUpdate{
		Merchant: m, Mode: checkout.ModeTest, Addresses: []checkout.PayoutAddress{address},
		Changed:  []string{"payout_addresses"},
		Previous: map[string]any{"payout_addresses": []checkout.PayoutAddress{before}},
	}
}
