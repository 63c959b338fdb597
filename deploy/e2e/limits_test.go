package e2e

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// another is a further tab of the same browser, with the same cookies.
func (b *tab) another() *tab {
	b.t.Helper()
	ctx, stop := chromedp.NewContext(b.ctx)
	b.t.Cleanup(stop)
	other := &tab{t: b.t, ctx: ctx}
	require.NoError(b.t, chromedp.Do(ctx))
	require.NoError(b.t, chromedp.Listen(ctx, other.listen))
	b.t.Cleanup(func() { require.Empty(b.t, other.takeFaults(), "the browser complained") })
	return other
}

// TestDashboard_EightTabsAreLive: a browser has six connections to a host, and each
// page used to keep one for its stream.
func TestDashboard_EightTabsAreLive(t *testing.T) {
	t.Parallel()
	browser, m := startBrowser(t), newMerchant(t, shared)
	tabs := []*tab{newDashboard(t, browser, m, checkout.RoleDeveloper)}
	for len(tabs) < 8 {
		tabs = append(tabs, tabs[0].another())
	}
	for _, b := range tabs {
		b.page(m, "/test/deliveries")
		b.do(seeIn("#log", "Nothing was sent yet."))
	}
	held := m.refusedDelivery()
	row := "tr[id=" + held + "]"
	for i, b := range tabs {
		b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, cdppage.BringToFront, cdp.Empty{})
			return err
		}), see(row))
		t.Logf("tab %d shows the delivery; it is %s", i+1, get(b, chromedp.Evaluate[string](`document.visibilityState`)))
	}
	// The tab that has the stream goes: another one takes it over.
	tabs[0].do(chromedp.Navigate("about:blank"))
	m.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/hold", "")
	tabs[7].do(seeIn(row, "on hold"))
}

// TestAnswers_AreCompressed asks all three servers.
func TestAnswers_AreCompressed(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	session := m.create(terms)
	for range 5 {
		m.create(terms)
	}
	for _, c := range []struct {
		what, url string
		header    []string
	}{
		{"a list of the REST API", shared.APIURL() + "/v1/checkout", []string{"Authorization", "Bearer " + m.key}},
		{"the hosted page", shared.PageURL() + "/" + session, nil},
		{"a page of the dashboard", shared.DashboardURL() + "/signin", []string{"Sec-Fetch-Site", "none"}},
	} {
		plain, encoding := fetch(t, c.url, append(c.header, "Accept-Encoding", "identity")...)
		require.Empty(t, encoding, c.what)
		packed, encoding := fetch(t, c.url, append(c.header, "Accept-Encoding", "gzip")...)
		require.Equal(t, "gzip", encoding, c.what)
		unpacked, err := gzip.NewReader(strings.NewReader(packed))
		require.NoError(t, err)
		text, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		require.Len(t, text, len(plain), c.what)
		t.Logf("%s: %d bytes, %d compressed", c.what, len(plain), len(packed))
	}
	_, encoding := fetch(t, shared.DashboardURL()+"/signin", "Accept-Encoding", "gzip", "Sec-Fetch-Site", "cross-site")
	require.Empty(t, encoding, "another site caused the request")
}

// fetch returns the bytes of an answer as they came and their encoding.
func fetch(t *testing.T, url string, header ...string) (body, encoding string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text), answer.Header.Get("Content-Encoding")
}
