package page

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/storage/storagetest/must"
)

// TestGuidePage_LeadsToTheReferenceAndBack opens the merchant's guide in a real Chromium: it is readable at every size,
// axe-core finds nothing, and its samples are in tabs. It and the reference, which shows the document, lead to each other.
// Every request of these pages goes to the server that they came from, and the console stays empty (newTab).
func TestGuidePage_LeadsToTheReferenceAndBack(t *testing.T) {
	t.Parallel()
	home := must.Get(url.Parse(e2e.Shared.APIURL()))(t)
	b := chrome.NewTab(t, chrome.StartBrowser(t))
	var (
		mu    sync.Mutex
		asked []string
	)
	require.NoError(t, chromedp.Listen(b.Ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, e.Request.URL)
		}
	}))
	chrome.Call(b, network.Enable, network.EnableParams{})
	b.Do(chromedp.Navigate(e2e.Shared.APIURL()+"/docs"), chrome.SeeText("The merchant's guide"))
	b.RequireReadable("guide")
	require.Empty(t, b.TakeFaults())
	b.Expect(`content security policy: script-src ""`) // the reference's search tries eval, and does without it
	b.Do(
		chrome.Click(`.sections a[href="#verify-a-signature"]`),
		chrome.Click(`.pages a[href="docs/reference"]`),
		chrome.See(`a[href^="https://redocly.com/redoc"]`), // where the picture was asked for
		chrome.SeeText("Checkout sessions"),
		chrome.Click(`.pages a[href="../docs"]`),
		chrome.See(`#quick-start`),
		chrome.See(`.tabs .language-sh`),
		chromedp.Focus(chromedp.CSS(`.tabs input:checked`)),
		chromedp.KeyEvent(kb.ArrowRight),
		chrome.See(`.tabs .language-go`),
		chrome.Click(`.tabs label:nth-of-type(4)`),
		chrome.See(`.tabs .language-python`),
		chrome.Click(`a[href="docs/listen"]`),
		chrome.See(`#listen-events-on-your-own-computer`),
		chrome.Click(`.pages a[href="../docs"]`),
		chrome.See(`#quick-start`),
	)
	mu.Lock()
	defer mu.Unlock()
	require.Greater(t, len(asked), 3)
	for _, address := range asked {
		if strings.HasPrefix(address, "data:") || strings.HasPrefix(address, "blob:") {
			continue
		}
		u := must.Get(url.Parse(address))(t)
		require.Equal(t, home.Host, u.Host, address)
	}
}
