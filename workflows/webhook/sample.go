package webhook

import (
	"encoding/json"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// Values of a sample payment and payout.
const (
	sampleAmount  money.Amount = 10_050
	sampleAddress              = "0x52908400098527886E0F7030069857D2E4169EE7"
)

var sampleRate = money.MustRate("1.08")

func sampleTransaction(failure checkout.FailureCode) sampler {
	return func(m merchant.Merchant, metadata json.RawMessage, at time.Time) any {
		email := "customer@example.com"
		t := checkout.Transaction{
			Ref:       checkout.Owner{Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixTransaction)),
			SessionID: checkout.NewID(checkout.PrefixSession),
			Status:    checkout.TransactionSucceeded, Amount: sampleAmount, Currency: money.EUR,
			PayoutCurrency: money.USDC,
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
	return func(_ merchant.Merchant, metadata json.RawMessage, at time.Time) any {
		p := checkout.Payout{
			Ref:           checkout.Owner{Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixPayout)),
			SessionID:     checkout.NewID(checkout.PrefixSession),
			TransactionID: checkout.NewID(checkout.PrefixTransaction), Status: checkout.PayoutSent,
			Amount: money.MustCrypto("108.000000", money.USDC), Currency: money.USDC, Network: money.USDC.Network(),
			Destination:  sampleAddress,
			SourceAmount: sampleAmount, SourceCurrency: money.EUR, ExchangeRate: sampleRate,
			LockedRate: sampleRate,
			Fee:        money.MustCrypto("0.540000", money.USDC),
			TxHash:     "0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b",
			Metadata:   metadata,
			CreatedAt:  at.Add(-2 * time.Second), SentAt: &at,
		}
		if failure != "" {
			p.Status, p.Failure, p.TxHash, p.SentAt, p.FailedAt = checkout.PayoutFailed, failure, "", nil, &at
		}
		return p
	}
}

// sampleMerchantUpdate is a change of a payout address.
func sampleMerchantUpdate(m merchant.Merchant, _ json.RawMessage, _ time.Time) any {
	address := merchant.PayoutAddress{Currency: money.USDC, Network: money.USDC.Network(), Address: sampleAddress}
	before := address
	before.Address = "0xde709f2102306220921060314715629080e2fb77"
	return merchant.Update{
		Merchant: m, Mode: checkout.ModeTest, Addresses: []merchant.PayoutAddress{address},
		Changed:  []string{"payout_addresses"},
		Previous: map[string]any{"payout_addresses": []merchant.PayoutAddress{before}},
	}
}
