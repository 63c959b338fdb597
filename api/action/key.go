package action

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// CreateKey stores an API key, whose secret comes from merchant.NewAPIKey for its mode. CheckLabel has accepted the
// label. Error: checkout.ErrNotFound for an unknown merchant.
func CreateKey(ctx context.Context, merchants *storage.Merchants, k merchant.APIKey, secret string, by By) error {
	detail := "“" + k.Label + "”, ends in " + secret[len(secret)-4:] + ", may " + k.Scopes.Words()
	return merchants.CreateAPIKey(ctx, k, secret, by.Entry(k.Ref, "api_key.created", detail))
}

// RevokeKey revokes an API key. A repeat changes nothing. Error: checkout.ErrNotFound.
func RevokeKey(ctx context.Context, merchants *storage.Merchants, ref checkout.Ref, by By) error {
	return merchants.RevokeAPIKey(ctx, ref, by.Entry(ref, "api_key.revoked", ""))
}
