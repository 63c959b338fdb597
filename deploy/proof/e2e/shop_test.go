package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

// shops are the examples that also create sessions.
var shops = []struct {
	name, file string // below deploy/release
	program    func(t *testing.T, file string) (path string, args []string)
}{
	{"go", "examples/go/main.go", goProgram},
	{"typescript", "examples/typescript/shop.ts", typeScriptProgram},
}

// TestShops_FulfilOnce: a customer buys, pays on the hosted page, and the event comes three times. The
// shop fulfils the order once, also after a restart.
func TestShops_FulfilOnce(t *testing.T) {
	t.Parallel()
	for _, s := range shops {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			x := newExample(t, s.file, s.program)
			m := e2e.NewMerchant(t, e2e.Shared)
			m.Must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+m.Registration(), "")
			secret := m.Must(http.StatusCreated, http.MethodPost, "/v1/webhooks", `{"url": "`+x.url+`", "events": ["*"]}`).Field("secret").(string)
			x.key = m.Key
			x.start(secret)

			browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			res, err := browser.Post("http://"+x.address+"/shop", "application/x-www-form-urlencoded", http.NoBody)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusSeeOther, res.StatusCode)
			session := path.Base(res.Header.Get("Location"))
			got := m.Session(session)
			require.Equal(t, res.Header.Get("Location"), got.Field("url"), "the customer is sent to the hosted page")
			order := got.Field("metadata.order_id").(string)
			require.Equal(t, "59.97", fmt.Sprintf("%.2f", got.Field("amount")))

			require.Empty(t, x.fulfilled())
			m.MustPay(session, e2e.CardSucceeds)
			e2e.Await(t, "the order is fulfilled", 20*time.Second, func() bool { return len(x.fulfilled()) > 0 })
			delivery := e2e.DeliveryOf(t, e2e.Shared, session, "checkout.completed")
			for run := 2; run <= 3; run++ {
				e2e.Await(t, "the event comes again", 20*time.Second, func() bool {
					got, err := m.Call(http.MethodPost, "/v1/deliveries/"+delivery+"/replay", "")
					return err == nil && got.Status == http.StatusAccepted
				})
				m.AwaitDelivery(delivery, "run", float64(run), 20*time.Second)
				m.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
				x.stop()
				x.start(secret)
			}
			require.Equal(t, []string{order}, x.fulfilled())
			forgetMarks(t, x.program.Dir) // as after a crash between the work and its mark
			x.stop()
			x.start(secret)
			x.stop()
			require.Equal(t, []string{order}, x.fulfilled(), "what is processed again is not fulfilled again")
		})
	}
}

// fulfilled returns the orders that a shop fulfilled, oldest first.
func (x *example) fulfilled() []string {
	x.t.Helper()
	text, err := os.ReadFile(x.program.Log)
	require.NoError(x.t, err)
	var orders []string
	for _, line := range regexp.MustCompile(`(?m)^fulfilled (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		orders = append(orders, line[1])
	}
	return orders
}
