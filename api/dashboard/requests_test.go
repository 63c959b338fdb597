package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func TestRequests_FiltersAndPages(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	viewer.get("/test/requests").shows("No requests yet")
	at := time.Now().UTC()
	key := merchant.APIKey{Ref: d.ref(checkout.NewID(checkout.PrefixAPIKey)), Label: "shop server"}
	require.NoError(t, d.store.Merchants.CreateAPIKey(t.Context(), key, merchant.NewAPIKey(checkout.ModeTest)))
	var rows []merchant.APIRequest
	for i := range pageSize + 2 {
		rows = append(rows, merchant.APIRequest{
			Ref:       d.ref(checkout.FirstID(checkout.PrefixRequest, at.Add(time.Duration(i)*time.Millisecond))),
			RequestID: fmt.Sprintf("<b>%d", i), KeyID: key.ID, Method: http.MethodGet, Route: "/v1/checkout/{id}", Status: 200, CreatedAt: at,
		})
	}
	rows[0].Method, rows[0].Route, rows[0].Status, rows[0].Error = http.MethodPost, "/v1/webhooks", 429, "rate_limited"
	rows[len(rows)-1].SessionID = "cs_1"
	rows[1].MerchantID = d.other
	require.NoError(t, d.store.Requests.LogRequests(t.Context(), rows))

	first := viewer.get("/test/requests")
	require.Equal(t, pageSize, strings.Count(first.body, "&lt;b&gt;"), "escaped")
	require.Equal(t, 1, strings.Count(first.body, `/test/sessions/cs_1"`), "a link to the session")
	first.shows("shop server").hides("rate_limited")
	viewer.get("/test/requests?before=" + rows[2].ID).shows("rate_limited") // the next page
	viewer.get("/live/requests").shows("No requests yet")
	for _, query := range []string{
		"status=refused", "method=POST", "route=/v1/web", "id=%3Cb%3E0", "status=refused&key=" + key.ID + "&from=" + at.AddDate(0, 0, -1).Format(time.DateOnly),
	} {
		got := viewer.get("/test/requests?" + query)
		require.Equal(t, 1, strings.Count(got.body, "&lt;b&gt;")-strings.Count(got.body, `value="&lt;b&gt;`), query)
		require.Contains(t, got.text(), "rate_limited", query)
	}
	viewer.get("/test/requests?status=failed").shows("No requests match")
	for _, query := range []string{"from=nonsense", "status=bogus", "method=PUT", "key=x"} {
		viewer.get("/test/requests?"+query).is(422, query)
	}
}

func TestRequests_LiveKeysAreForDevelopers(t *testing.T) {
	d := newDesk(t)
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		key := d.newKey(d.merchant, mode, "till "+string(mode))
		d.newKey(d.merchant, mode, "unused "+string(mode))
		d.exec(`UPDATE api_key SET last4 = '9f3c' WHERE id = $1`, key)
		for id, key := range map[string]string{"req_1": key, "req_2": "key_deleted"} {
			require.NoError(t, d.store.Requests.LogRequests(t.Context(), []merchant.APIRequest{{
				Ref:       checkout.Owner{MerchantID: d.merchant, Mode: mode}.Ref(checkout.NewID(checkout.PrefixRequest)),
				RequestID: id, KeyID: key, Method: http.MethodGet, Route: "/v1/checkout/{id}", Status: 200, CreatedAt: time.Now(),
			}}))
		}
		shown := []string{key, "till " + string(mode), "unused " + string(mode), "9f3c", "key_deleted", `id="key"`, `data-th="API key"`}
		for _, role := range merchant.Roles {
			got := d.as(role).get("/" + string(mode) + "/requests").text()
			require.Contains(t, got, "req_1")
			require.Contains(t, got, "req_2")
			for _, text := range shown {
				require.Equal(t, mode == checkout.ModeTest || role != merchant.RoleViewer, strings.Contains(got, text), "%s of %s for a %s", text, mode, role)
			}
		}
		filtered := "/" + string(mode) + "/requests?key=" + key
		d.as(merchant.RoleDeveloper).get(filtered).hides("req_2")
		require.Equal(t, mode == checkout.ModeLive, strings.Contains(d.as(merchant.RoleViewer).get(filtered).text(), "req_2"))
	}
}
