package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// looksPage is how many charges are read at once.
const looksPage = 100

// LookAtCharges asks the card network about each charge that was reported to be at risk, and about each
// dispute that is not decided. It returns how many it asked about. What the network says now counts, so
// neither the number nor the order of the reports matters.
func (b *Books) LookAtCharges(ctx context.Context) (int, error) {
	var (
		n      int
		failed failures
	)
	err := eachPage(ctx, func(after string) (string, error) {
		looks, err := b.Store.ChargesToLook(ctx, checkout.ModeLive, after, looksPage)
		if err != nil || len(looks) == 0 {
			return "", err
		}
		for _, look := range looks {
			activity.RecordHeartbeat(ctx, n)
			err := b.lookAt(ctx, look)
			if err := failed.pass(ctx, look.Reference, err); err != nil {
				return "", err
			}
			n++
		}
		return looks[len(looks)-1].Reference, nil
	})
	return n, asFinal(ctx, err, "")
}

func (b *Books) lookAt(ctx context.Context, look storage.ChargeLook) error {
	risks, err := b.Risks(ctx, look.Reference)
	if err != nil {
		return err
	}
	found, err := b.Store.RecordRisks(ctx, checkout.ModeLive, look, risks)
	for _, f := range found {
		logger(ctx).ErrorContext(ctx, "a charge is at risk", "kind", f.Kind, "subject", f.Subject, "detail", f.Detail)
	}
	return err
}
