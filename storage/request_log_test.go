package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

func TestRequests_AreListedByOwnerAndFilter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.merchant.Owner(checkout.ModeTest)
	at := time.Now().UTC().Truncate(time.Millisecond)
	n := time.Duration(0) // orders the ids
	request := func(owner checkout.Owner, key, method, route, id, code string, status int) checkout.APIRequest {
		n += time.Millisecond
		return checkout.APIRequest{
			Ref: owner.Ref(checkout.FirstID(checkout.PrefixRequest, at.Add(n))), RequestID: id, KeyID: key, Method: method, Route: route,
			Status: status, Error: code, Duration: 7 * time.Millisecond, CreatedAt: at,
		}
	}
	read := request(owner, "key_1", "GET", "/v1/checkout/{id}", "req_1", "", 200)
	refused := request(owner, "key_2", "POST", "/v1/checkout", "order-7", "invalid_request", 400)
	failed := request(owner, "key_2", "POST", "/v1/webhooks", "req_3", "unavailable", 503)
	read.SessionID = "cs_1"
	live := request(f.merchant.Owner(checkout.ModeLive), "key_1", "GET", "/v1/checkout/{id}", "req_1", "", 200)
	other := request(checkout.Owner{MerchantID: "mch_other", Mode: checkout.ModeTest}, "key_1", "GET", "/v1/checkout/{id}", "req_1", "", 200)
	require.NoError(t, f.LogRequests(t.Context(), []checkout.APIRequest{read, refused, failed, live, other}))
	list := func(filter storage.RequestFilter, p pg.Page) []checkout.APIRequest {
		p.Limit = 10
		got, err := f.Requests(t.Context(), owner, filter, p)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, []checkout.APIRequest{failed, refused, read}, list(storage.RequestFilter{}, pg.Page{}))
	require.Equal(t, []checkout.APIRequest{read}, list(storage.RequestFilter{}, pg.Page{Before: refused.ID}))
	require.Empty(t, list(storage.RequestFilter{}, pg.Page{Until: at}))
	for _, tc := range []struct {
		filter storage.RequestFilter
		want   checkout.APIRequest
	}{
		{storage.RequestFilter{RequestID: "req_1"}, read},
		{storage.RequestFilter{KeyID: "key_1"}, read},
		{storage.RequestFilter{Method: "GET"}, read},
		{storage.RequestFilter{Route: "/v1/checkout/"}, read},
		{storage.RequestFilter{Class: 2}, read},
		{storage.RequestFilter{Class: 4}, refused},
		{storage.RequestFilter{Class: 5}, failed},
		{storage.RequestFilter{KeyID: "key_2", Route: "/v1/checkout"}, refused},
	} {
		require.Equal(t, []checkout.APIRequest{tc.want}, list(tc.filter, pg.Page{}), tc.filter)
	}

	f.Exec(t, `UPDATE api_request SET created_at = created_at - interval '2 days' WHERE id = $1`, read.ID)
	deleted, err := f.DeleteOld(t.Context(), storage.OldAPIRequests, 24*time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	require.Equal(t, []checkout.APIRequest{failed, refused}, list(storage.RequestFilter{}, pg.Page{}))
}
