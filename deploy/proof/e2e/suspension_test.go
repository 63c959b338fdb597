package e2e_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

// TestSuspension_StopsEachStepThatHasNotBegun suspends a merchant with a payment at the bank, an open page and a payout
// that is about to be made. The payment at the bank is completed, and its payout waits.
func TestSuspension_StopsEachStepThatHasNotBegun(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	operator := func(want string, args ...string) {
		out, err := e2e.CheckoutCommand(t, e2e.Shared, append([]string{"merchant", args[0], m.ID}, args[1:]...)...)
		require.NoError(t, err, out)
		require.Contains(t, out, want)
	}
	open, atBank := m.Create(e2e.Terms), m.Create(e2e.Terms)
	require.Contains(t, m.MustPay(atBank, e2e.Card3DS), `name="answer"`)

	operator("suspended of "+m.ID+": payments, payouts", "suspend", "--reason", "the bank reports stolen cards")
	refused := m.Must(http.StatusForbidden, http.MethodPost, "/v1/checkout", e2e.Terms)
	require.Equal(t, "merchant_suspended", refused.Field("error"))
	page := e2e.Ask(t, http.MethodGet, m.Stack.PageURL()+"/"+open, "")
	require.Equal(t, http.StatusOK, page.Status)
	require.Contains(t, string(page.Body), `data-state="closed"`)
	require.Contains(t, string(page.Body), "is not accepting payments at the moment. You have not been charged.")
	status, text, err := m.Pay(open, e2e.CardSucceeds)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `data-state="closed"`)
	require.Zero(t, e2e.Query[int](t, e2e.Shared, `SELECT count(*) FROM transaction WHERE session_id = $1`, open))
	require.Equal(t, "pending", m.Session(open).Field("status"), "it can be paid after all")

	m.Confirm(e2e.Query[string](t, e2e.Shared, `SELECT action_url FROM transaction WHERE session_id = $1`, atBank))
	m.AwaitStatus(atBank, "completed", 15*time.Second)
	e2e.AwaitQuery(t, "the payout is on hold", 15*time.Second, e2e.Shared, "suspended pending", `
		SELECT hold || ' ' || status FROM payout WHERE session_id = $1`, atBank)
	operator("suspended of "+m.ID+": payments", "resume", "--payouts")
	e2e.Await(t, "the payout is sent", 30*time.Second, func() bool { return m.Session(atBank).Field("payout.status") == "sent" })
	operator("payments, since ", "show")
	operator("nothing is suspended of "+m.ID, "resume", "--all")
	m.MustPay(open, e2e.CardSucceeds)
	require.Equal(t, []string{
		"operator merchant.suspended payments, payouts: the bank reports stolen cards",
		"operator merchant.resumed payouts", "operator merchant.resumed payments, payouts, sign-in",
	}, e2e.Query[[]string](t, e2e.Shared, `
		SELECT array_agg(actor || ' ' || action || ' ' || detail ORDER BY id) FROM audit_entry WHERE merchant_id = $1`, m.ID))
}

func TestSuspension_OfSignInEndsEachBrowser(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	store := e2e.OpenStore(t, m.Stack)
	member := e2e.AddMember(t, store, m.ID, "owner", m.ID+"@shop.example")
	cookie := "member=" + m.SignIn(member.Email)
	home := m.Stack.DashboardURL() + "/m/" + m.ID + "/test/"
	require.Equal(t, http.StatusOK, e2e.Ask(t, http.MethodGet, home, "", "Cookie", cookie).Status)
	out, err := e2e.CheckoutCommand(t, e2e.Shared, "merchant", "suspend", m.ID, "--sign-in", "--reason", "a stolen phone")
	require.NoError(t, err, out)
	require.Equal(t, http.StatusSeeOther, e2e.Ask(t, http.MethodGet, home, "", "Cookie", cookie).Status)
	answer := e2e.PostForm(t, m.Stack.DashboardURL()+"/signin", url.Values{"email": {member.Email}, "password": {e2e.DashboardPassword}})
	require.Equal(t, http.StatusUnprocessableEntity, answer.Status)
	require.Contains(t, string(answer.Body), "Sign-in is suspended for this merchant.")
	m.Create(e2e.Terms) // nothing else is suspended
	out, err = e2e.CheckoutCommand(t, e2e.Shared, "merchant", "resume", m.ID, "--sign-in")
	require.NoError(t, err, out)
	require.Equal(t, http.StatusSeeOther, e2e.Ask(t, http.MethodGet, home, "", "Cookie", cookie).Status, "a thief's browser stays signed out")
}
