package dashboard

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/merchant"
)

// TestDashboard_EightTabsAreLive: a browser has six connections to a host, so no page may keep one.
func TestDashboard_EightTabsAreLive(t *testing.T) {
	t.Parallel()
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	tabs := []*chrome.Tab{newDashboard(t, browser, m, merchant.RoleDeveloper)}
	for len(tabs) < 8 {
		tabs = append(tabs, tabs[0].Another())
	}
	for _, b := range tabs {
		page(b, m, "/test/deliveries")
		b.Do(seeIn("#log", "Nothing was sent yet."))
	}
	held := m.RefusedDelivery()
	row := "tr[id=" + held + "]"
	for i, b := range tabs {
		chrome.Call(b, cdppage.BringToFront, cdp.Empty{})
		b.Do(chrome.See(row))
		t.Logf("tab %d shows the delivery; it is %s", i+1, chrome.Eval[string](b, `document.visibilityState`))
	}
	m.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/hold", "")
	tabs[7].Do(seeIn(row, "on hold"))
}

// TestAnswers_AreCompressed asks all three servers.
func TestAnswers_AreCompressed(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	session := ""
	for range 6 {
		session = m.Create(e2e.Terms)
	}
	for _, c := range []struct {
		what, url string
		header    []string
	}{
		{"a list of the REST API", e2e.Shared.APIURL() + "/v1/checkout", []string{"Authorization", "Bearer " + m.Key}},
		{"the hosted page", e2e.Shared.PageURL() + "/" + session, nil},
		{"a page of the dashboard", e2e.Shared.DashboardURL() + "/signin", []string{"Sec-Fetch-Site", "none"}},
	} {
		plain := e2e.Ask(t, http.MethodGet, c.url, "", append(c.header, "Accept-Encoding", "identity")...)
		require.Equal(t, http.StatusOK, plain.Status, c.what)
		require.Empty(t, plain.Header.Get("Content-Encoding"), c.what)
		packed := e2e.Ask(t, http.MethodGet, c.url, "", append(c.header, "Accept-Encoding", "gzip")...)
		require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"), c.what)
		text := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(packed.Body)))(t)))(t)
		require.Len(t, text, len(plain.Body), c.what)
		t.Logf("%s: %d bytes, %d compressed", c.what, len(plain.Body), len(packed.Body))
	}
	foreign := e2e.Ask(t, http.MethodGet, e2e.Shared.DashboardURL()+"/signin", "", "Accept-Encoding", "gzip", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusOK, foreign.Status)
	require.Empty(t, foreign.Header.Get("Content-Encoding"), "another site caused the request")
}
