package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// The pages of the dashboard test the filters.
func TestRequests_ComeBackAsTheyWereUntilTheyAreOld(t *testing.T) {
	f := newFixture(t)
	owner := f.merchant.Owner(checkout.ModeTest)
	at := time.Now().UTC().Truncate(time.Millisecond)
	old := merchant.APIRequest{
		Ref: owner.Ref(checkout.FirstID(checkout.PrefixRequest, at)), RequestID: "req_1", KeyID: "key_1", Method: "POST",
		Route: "/v1/checkout", Status: 503, Error: "unavailable", SessionID: "cs_1", Duration: 7 * time.Millisecond, CreatedAt: at,
	}
	fresh := old
	fresh.ID = checkout.FirstID(checkout.PrefixRequest, at.Add(time.Millisecond))
	require.NoError(t, f.Requests.LogRequests(t.Context(), []merchant.APIRequest{old, fresh}))
	list := func(p pg.Page) []merchant.APIRequest {
		p.Limit = 10
		return must.Get(f.Requests.Requests(t.Context(), owner, storage.RequestFilter{}, p))(t)
	}
	require.Equal(t, []merchant.APIRequest{fresh, old}, list(pg.Page{}))
	require.Empty(t, list(pg.Page{Until: at}))

	f.Exec(t, `UPDATE api_request SET created_at = created_at - interval '2 days' WHERE id = $1`, old.ID)
	require.Equal(t, 1, must.Get(f.Installation.DeleteOld(t.Context(), storage.OldAPIRequests, 24*time.Hour, 10))(t))
	require.Equal(t, []merchant.APIRequest{fresh}, list(pg.Page{}))
}
