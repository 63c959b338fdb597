package worker

import (
	"context"
	"sync/atomic"

	"example.com/checkout/activities"
	"example.com/checkout/activities/sandbox"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

// Wiring is what the activities are made of.
type Wiring struct {
	Store        *storage.Store
	Runs         *runs.Client
	TestCards    *sandbox.CardNetwork
	RecordReport RecordReport // for the card network's reports

	Live, Test              Networks
	CheckoutURL             string               // base of the hosted page, without a trailing slash
	AllowLoopback           bool                 // test webhooks may reach this computer
	TestSchedule            webhook.Schedule     // nil: that of the interface document
	EndpointMaxInFlight     int                  // attempts to one address at the same time
	EndpointFailure         storage.FailureRules // when an address is failing, and when it is held
	MerchantLimits          storage.MerchantLimits
	DeploymentName, BuildID string // see Options
}

// Options returns what the workers run. It opens the networks of both modes, and follows them until ctx ends.
func (w Wiring) Options(ctx context.Context) (Options, error) {
	live, err := openNetworks(ctx, w.Live, w.Store)
	if err != nil {
		return Options{}, err
	}
	test, err := openNetworks(ctx, w.Test, w.Store)
	if err != nil {
		return Options{}, err
	}
	guard := activities.NewAddressGuard(w.AllowLoopback)
	deliveries := activities.NewDeliveries(w.Store.Webhooks, guard, w.TestSchedule, w.EndpointMaxInFlight)
	if err := activities.MeasureEndpoints(deliveries); err != nil {
		return Options{}, err
	}
	options := Options{
		Payments: &activities.Payments{
			Payouts: w.Store.Payouts, Refunds: w.Store.Refunds, Disputes: w.Store.Disputes, Sessions: w.Store.Sessions,
			Webhooks: w.Store.Webhooks.WebhookReader, CheckoutURL: w.CheckoutURL,
			Live: live.networks(activities.Networks{}),
			Test: test.networks(activities.SandboxNetworks(
				w.TestCards, activities.PayoutRoute{Rates: sandbox.Rates{}, Payouts: &sandbox.Payouts{
					Sandbox: w.Store.Sandbox, Payouts: w.Store.Payouts,
				}},
			)),
		},
		Deliveries: deliveries,
		Pictures:   activities.NewPictures(w.Store.Pictures, guard),
		Housekeeping: &activities.Housekeeping{
			Installation: w.Store.Installation, Merchants: w.Store.Merchants, Secrets: w.Store.Secrets,
			Webhooks: w.Store.Webhooks, Runs: w.Runs, Failure: w.EndpointFailure,
		},
		Treasury: activities.Treasury{Follow: map[checkout.Mode]activities.Follow{}},
		Books: activities.Books{
			Store: w.Store.Books, Refunds: w.Store.Refunds, Accounts: map[checkout.Mode]activities.Account{},
			Limits: w.MerchantLimits,
		},
		Synced:     map[checkout.Mode]*atomic.Int64{},
		Deployment: w.DeploymentName,
		BuildID:    w.BuildID,
	}
	options.Housekeeping.Balances = &activities.BalancePayer{Balances: w.Store.Balances, Payments: options.Payments}
	live.follow(ctx, &options, w.RecordReport)
	test.follow(ctx, &options, w.RecordReport)
	return options, nil
}
