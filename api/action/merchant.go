package action

import (
	"context"
	"fmt"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// ChangeMerchant changes settings, or the payout addresses of a mode, and starts the workflows that inform the
// merchant's registrations. It sets c.By. Errors: those of storage.Keyless.ChangeMerchant.
func (a Actions) ChangeMerchant(ctx context.Context, c storage.MerchantChange, by By) (storage.MerchantChanged, error) {
	ref := bothModes(c.MerchantID)
	c.By = by.Entry(ref, "merchant.changed", "")
	if len(c.Addresses) > 0 {
		ref.Mode = c.Mode
		c.By = by.Entry(ref, "payout_address.changed", "")
	}
	changed, err := a.Store.Merchants.ChangeMerchant(ctx, c)
	if err != nil {
		return changed, err
	}
	for _, e := range changed.Events {
		a.startUpdate(ctx, checkout.Owner{MerchantID: c.MerchantID, Mode: e.Mode}.Ref(e.EventID))
	}
	return changed, nil
}

// tellTimeout bounds the wait for starting a workflow.
const tellTimeout = time.Second

// startUpdate starts the workflow of a merchant.updated event. The event is committed already. If the
// start fails, Reconcile starts the event's deliveries.
func (a Actions) startUpdate(ctx context.Context, event checkout.Ref) {
	limited, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	if err := a.Runs.Start(limited, event); err != nil {
		a.logLeftover(ctx, fmt.Errorf("%s: %w", event.ID, err))
	}
}

// ChangePlan changes a merchant's plan and reports whether the plan is different now. Reconcile informs the merchant's
// registrations. Error: checkout.ErrNotFound.
func ChangePlan(
	ctx context.Context, merchants *storage.Merchants, merchantID string, plan merchant.Plan, by By,
) (bool, error) {
	changed, err := merchants.ChangeMerchant(ctx, storage.MerchantChange{
		MerchantID: merchantID, Plan: &plan, By: by.Entry(bothModes(merchantID), "merchant.changed", ""),
	})
	return len(changed.Events) > 0, err
}

// ChangeTerms changes what a merchant's plan says beside the fee, and reports whether that is different now. Reconcile
// informs the merchant's registrations. Error: checkout.ErrNotFound.
func ChangeTerms(
	ctx context.Context, merchants *storage.Merchants, merchantID string, terms merchant.Terms, by By,
) (bool, error) {
	changed, err := merchants.ChangeMerchant(ctx, storage.MerchantChange{
		MerchantID: merchantID, Terms: &terms, By: by.Entry(bothModes(merchantID), "merchant.changed", ""),
	})
	return len(changed.Events) > 0, err
}

// StopAddressChange withdraws an announced change of a payout address. Error: checkout.ErrNotFound when no such change
// is announced any more.
func StopAddressChange(
	ctx context.Context, merchants *storage.Merchants, owner checkout.Owner, to merchant.PayoutAddress, by By,
) error {
	entry := by.Entry(owner.Ref(owner.MerchantID), "payout_address.change_stopped", "")
	return merchants.StopAddressChange(ctx, owner, to, entry)
}

// Suspend suspends capabilities of a merchant, and returns everything that is suspended. Error: checkout.ErrNotFound.
func Suspend(
	ctx context.Context, merchants *storage.Merchants, merchantID string, all merchant.Suspended, why string, by By,
) (merchant.Suspension, error) {
	return merchants.Suspend(ctx, merchantID, all, why,
		by.Entry(bothModes(merchantID), "merchant.suspended", all.String()+": "+why))
}

// Resume resumes capabilities of a merchant, and returns what is still suspended. Error: checkout.ErrNotFound.
func Resume(
	ctx context.Context, merchants *storage.Merchants, merchantID string, all merchant.Suspended, by By,
) (merchant.Suspension, error) {
	return merchants.Resume(ctx, merchantID, all, by.Entry(bothModes(merchantID), "merchant.resumed", all.String()))
}

// bothModes returns a reference to a merchant in both modes.
func bothModes(merchantID string) checkout.Ref {
	return checkout.Owner{MerchantID: merchantID}.Ref(merchantID)
}
