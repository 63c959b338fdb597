package activities

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/contract"
)

// looksPage is how many charges are read at once.
const looksPage = 100

// LookAtCharges reads from the card network the state of each charge that was reported to be at risk or refunded, of
// each undecided dispute, and now and then of refunds that may be returned. It returns their number. Only the network's
// present state counts, so neither the number nor the order of the reports matters.
func (b *Books) LookAtCharges(ctx context.Context, in contract.ModeInput) (int, error) {
	of, err := b.bookOf(in)
	if err != nil {
		return 0, asFinal(ctx, err, "")
	}
	n := 0
	page := func(after string) ([]storage.ChargeToCheck, error) {
		return of.Store.ChargesToCheck(ctx, of.mode, after, looksPage)
	}
	reference := func(l storage.ChargeToCheck) string { return l.Reference }
	err = eachRow(ctx, page, reference, func(l storage.ChargeToCheck) error {
		n++
		return of.recordRisks(ctx, l)
	})
	return n, asFinal(ctx, err, "")
}

func (b book) recordRisks(ctx context.Context, look storage.ChargeToCheck) error {
	risks, err := b.Risks(ctx, look.Reference)
	if err != nil {
		return err
	}
	found, err := b.Store.RecordRisks(ctx, b.mode, look, risks)
	logFindings(ctx, found)
	return err
}
