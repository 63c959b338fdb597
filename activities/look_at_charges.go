package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/contract"
)

// looksPage is how many charges are read at once.
const looksPage = 100

// LookAtCharges asks the card network about each charge that was reported to be at risk or refunded, about each
// dispute that is not decided, and now and then about refunds that may be returned. It returns how many it asked
// about. What the network says now counts, so neither the number nor the order of the reports matters.
func (b *Books) LookAtCharges(ctx context.Context, in contract.ModeInput) (int, error) {
	of, err := b.of(in)
	if err != nil {
		return 0, asFinal(ctx, err, "")
	}
	return of.lookAtCharges(ctx)
}

func (b book) lookAtCharges(ctx context.Context) (int, error) {
	var (
		n      int
		failed failures
	)
	err := eachPage(ctx, func(after string) (string, error) {
		looks, err := b.Store.ChargesToLook(ctx, b.mode, after, looksPage)
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

func (b book) lookAt(ctx context.Context, look storage.ChargeLook) error {
	risks, err := b.Risks(ctx, look.Reference)
	if err != nil {
		return err
	}
	found, err := b.Store.RecordRisks(ctx, b.mode, look, risks)
	b.say(ctx, found)
	return err
}
