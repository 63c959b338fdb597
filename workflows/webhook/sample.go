package webhook

import (
	"encoding/json"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// Values of a sample payment, of what goes back of it, and of its payout.
const (
	sampleAmount      money.Amount = 10_050
	sampleRefunded    money.Amount = 2_500
	sampleFeeReturned money.Amount = 25 // returned with sampleRefunded
	sampleAddress                  = "0x52908400098527886E0F7030069857D2E4169EE7"
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

// sampleReducedPayout is a payout of which a refund took a part before its signature.
func sampleReducedPayout(m merchant.Merchant, metadata json.RawMessage, at time.Time) any {
	p := samplePayout("")(m, metadata, at).(checkout.Payout)
	p.Status, p.Amount, p.Fee, p.TxHash, p.SentAt = checkout.PayoutPending, money.Crypto{}, money.Crypto{}, "", nil
	p.Deducted = sampleRefunded - sampleFeeReturned
	p.Deductions = []checkout.Deduction{{
		Type: checkout.DeductionRefund, Source: checkout.NewID(checkout.PrefixRefund), Amount: p.Deducted,
	}}
	return p
}

func sampleRefund(status checkout.RefundStatus) sampler {
	return func(_ merchant.Merchant, metadata json.RawMessage, at time.Time) any {
		return checkout.Refund{
			Ref:           checkout.Owner{Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixRefund)),
			SessionID:     checkout.NewID(checkout.PrefixSession),
			TransactionID: checkout.NewID(checkout.PrefixTransaction), Status: status,
			Amount: sampleRefunded, Currency: money.EUR, FeeReturned: sampleFeeReturned, NetworkRef: "re_sample",
			Reason: checkout.RefundRequested, Metadata: metadata, CreatedAt: at.Add(-2 * time.Second), EndedAt: &at,
		}
	}
}

func sampleDispute(status checkout.DisputeStatus) sampler {
	return func(_ merchant.Merchant, metadata json.RawMessage, at time.Time) any {
		respondBy := at.Add(7 * 24 * time.Hour)
		d := checkout.Dispute{
			Ref:           checkout.Owner{Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixDispute)),
			SessionID:     checkout.NewID(checkout.PrefixSession),
			TransactionID: checkout.NewID(checkout.PrefixTransaction), Status: status, Reason: "fraudulent",
			Amount: sampleAmount, Currency: money.EUR, Fee: 2_000, RespondBy: &respondBy, Metadata: metadata,
			CreatedAt: at.Add(-2 * time.Second),
		}
		if status == checkout.DisputeLost {
			d.ClosedAt = &at
		}
		return d
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
