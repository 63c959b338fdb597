package dashboard

import (
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/proof/e2e/chrome"
	"example.com/checkout/workflows/merchant"
)

func confirms(b *chrome.Tab) { b.Script(`window.confirm = () => true`) }

// TestDashboard_WebhookFromAddingToDeleting is what a developer does with one.
func TestDashboard_WebhookFromAddingToDeleting(t *testing.T) {
	t.Parallel()
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	dev := newDashboard(t, browser, m, merchant.RoleDeveloper)
	page(dev, m, "/test/webhooks")
	dev.Do(chrome.Click(`.head [role="button"]`), chrome.See("#url"), chrome.TypeInto("#url", "https://127.0.0.2.invalid/"), chrome.Click(`input[value="*"]`), chrome.Click(`input[value="payout.sent"]`))
	dev.Axe("webhook-new")
	dev.Do(chromedp.Clear(chromedp.CSS("#url")), chrome.TypeInto("#url", "not an address"), chrome.Click("form.narrow button"), chrome.See("#url-fault"))
	require.Contains(t, dev.Text("#url-fault"), "must be an absolute http or https URL")
	require.Len(t, dev.TakeFaults(), 1, "the browser notes the 422")
	dev.Do(chromedp.Clear(chromedp.CSS("#url")), chrome.TypeInto("#url", "http://127.0.0.1:9/nobody-listens"), chrome.TypeInto("#description", "Second"), chrome.Click("form.narrow button"), chrome.See("#secret"))
	secret := dev.Text("#secret")
	require.Regexp(t, `^whsec_[0-9a-f]{64}$`, secret)
	dev.Axe("webhook-secret")
	dev.Do(chrome.Click(`main > p [role="button"]`), chrome.See("#type"))
	require.NotContains(t, chrome.Eval[string](dev, `document.documentElement.outerHTML`), secret, "it was shown once")

	dev.Do(chrome.Click(`form[action$="/test"] button`), chrome.See(".notice"))
	second := e2e.Query[string](t, m.Stack, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1 AND description = 'Second'`, m.ID)
	m.AwaitDelivery(e2e.Query[string](t, m.Stack, `SELECT id FROM webhook_delivery WHERE endpoint_id = $1`, second), "status", "failed", 40*time.Second)
	dev.Do(seeIn(".head .status", "failed"))
	page(dev, m, "/test/webhooks/"+second)
	confirms(dev)
	dev.Do(chrome.Click(`form[action$="/rotate"] button`), chrome.See("#secret"))
	require.NotEqual(t, secret, dev.Text("#secret"))
	require.Contains(t, dev.Text(".once"), "both secrets")
	dev.Do(chrome.Click(`main > p [role="button"]`), chrome.See("#hours"), chrome.Click(`form[action$="/hold"] button`), chrome.See(".warning"))
	dev.Axe("webhook-held")
	dev.Do(chrome.Click(`form[action$="/resume"] button`), chrome.See(`form[action$="/hold"]`))
	dev.Do(chrome.Click(`a[href$="/delete"]`), chrome.See("form .danger"))
	dev.Axe("webhook-delete")
	dev.Do(chrome.Click("form .danger"), chrome.See(".notice"), seeIn(".notice", "deleted"))
	require.NotContains(t, dev.Text("main"), "Second")
}

// TestDashboard_LiveLog: what happens appears without a reload, and one delivery is steered from its page.
func TestDashboard_LiveLog(t *testing.T) {
	t.Parallel()
	browser, m := chrome.StartBrowser(t), e2e.NewMerchant(t, e2e.Shared)
	b := newDashboard(t, browser, m, merchant.RoleDeveloper)
	page(b, m, "/test/deliveries")
	require.Contains(t, b.Text("#log"), "Nothing was sent yet.")
	b.Script(`window.sameDocument = true`)
	b.Script(`new MutationObserver(() => window.marked ||= document.querySelector("tr.fresh")?.id)
		.observe(document.body, { subtree: true, childList: true, attributes: true })`)
	held := m.RefusedDelivery()
	m.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/hold", "")
	row := "tr[id=" + held + "]"
	b.Do(chrome.See(row), seeIn(row, "on hold"), seeIn(row, "500"))
	require.True(t, chrome.Eval[bool](b, `window.sameDocument === true`), "without a reload")
	b.Do(chrome.Poll(`window.marked === "` + held + `"`)) // once the new part of the page has settled
	b.Axe("deliveries")

	b.Do(chrome.Click(row+" a"), chrome.See("#resume"))
	require.Contains(t, b.Text("#state"), "no attempt is used up")
	b.Axe("delivery-held")
	e2e.Query[int](t, m.Stack, `WITH said AS (UPDATE webhook_attempt SET response_body = 'down' WHERE delivery_id = $1) SELECT 1`, held)
	page(b, m, "/test/deliveries/"+held)
	b.Do(chrome.Click("#whole-1-1"), chrome.See("#body-1-1"))
	require.True(t, wouldRefresh(b, "state"), "also while an answer is read")
	b.Script(`Object.defineProperty(document, "hidden", { value: true, configurable: true })`)
	require.False(t, wouldRefresh(b, "state"), "not while nobody looks")
	b.Script(`delete document.hidden`)
	m.Receiver.Answer(http.StatusOK)
	b.Script(`window.sameDocument = true`)
	refused, _ := m.Receiver.Arrivals()
	m.Must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+held+"/resume", "")
	m.Arrivals(len(refused)+1, 20*time.Second)
	b.Do(seeIn(".head .status", "delivered"), chrome.See("#replay"), chrome.See("#body-1-1"))
	require.True(t, chrome.Eval[bool](b, `window.sameDocument === true`), "without a reload")
	require.Equal(t, "whole-1-1", chrome.Eval[string](b, `document.activeElement.id`), "its reader stays there")
	require.Contains(t, b.Text("#state"), "Your server accepted it")
	b.Axe("delivery")
	before, _ := m.Receiver.Arrivals()
	b.Do(chrome.Click("#replay"), chrome.See(".notice"), seeIn("#state", "Run 2"))
	m.Arrivals(len(before)+1, 20*time.Second)

	page(b, m, "/test/deliveries?status=failed")
	b.Do(seeIn("#log", "No deliveries match."))

	// A page that is open when its reader signs out elsewhere asks to sign in again.
	page(b, m, "/test/deliveries")
	e2e.Query[int](t, m.Stack, `WITH gone AS (DELETE FROM member_session s USING member m WHERE m.id = s.member_id AND m.merchant_id = $1) SELECT 1`, m.ID)
	b.Do(chrome.See("#password"))
	b.TakeFaults() // the browser notes the 401
}
