package page

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
)

// TestGuidePage_LeadsToTheReferenceAndBack opens the merchant's guide in a real Chromium: it is readable at every size,
// axe-core finds nothing, and its samples are in tabs. It and the reference, which shows the document, lead to each
// other. Every request of these pages goes to the server that they came from, and the console stays empty (newTab).
func TestGuidePage_LeadsToTheReferenceAndBack(t *testing.T) {
	t.Parallel()
	b := chrome.NewTab(t, chrome.StartBrowser(t))
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
}
