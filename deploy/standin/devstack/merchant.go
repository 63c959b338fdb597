package devstack

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// OpenStore opens the stack's PostgreSQL as the service does. 0 connections are the default.
func (s *Stack) OpenStore(ctx context.Context, maxConns int32) (*storage.Store, error) {
	return s.Demo.OpenStore(ctx, s.DatabaseURL(), maxConns)
}

// OpenStore opens a database whose secrets the master keys of d have sealed.
func (d Demo) OpenStore(ctx context.Context, databaseURL string, maxConns int32) (*storage.Store, error) {
	keys, err := pg.ParseKeyring(d.MasterKeys)
	if err != nil {
		return nil, err
	}
	return storage.Open(ctx, storage.Options{URL: databaseURL, Keys: keys, MaxConns: maxConns})
}

// AddMerchant creates a merchant with an API key of the mode.
func AddMerchant(
	ctx context.Context, store *storage.Store, name string, mode checkout.Mode, addresses ...merchant.PayoutAddress,
) (owner checkout.Owner, key string, err error) {
	owner, key = checkout.Owner{MerchantID: checkout.NewID(checkout.PrefixMerchant), Mode: mode}, merchant.NewAPIKey(mode)
	err = store.Merchants.CreateMerchant(ctx, merchant.Merchant{
		ID: owner.MerchantID, Name: name, Plan: "standard", FeeBasisPoints: merchant.DefaultFeeBasisPoints,
		PaymentAttempts: merchant.DefaultPaymentAttempts, OrderIDGuard: true,
	}, mode, addresses)
	if err != nil {
		return owner, "", err
	}
	return owner, key, store.Merchants.CreateAPIKey(ctx, merchant.APIKey{
		Ref: owner.Ref(checkout.NewID(checkout.PrefixAPIKey)), Label: "local",
	}, key)
}

// AddEndpoint registers an address for events, all without types.
func AddEndpoint(
	ctx context.Context, store *storage.Store, owner checkout.Owner, url, secret string, types ...webhook.EventType,
) (webhook.Endpoint, error) {
	if len(types) == 0 {
		types = webhook.EventTypes
	}
	return store.Webhooks.CreateEndpoint(ctx, webhook.Endpoint{
		Ref: owner.Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: url, Events: types,
		Status: webhook.EndpointEnabled, Secret: secret,
	})
}
