package dashboard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

func TestAttempt_EveryFailureHasWords(t *testing.T) {
	t.Parallel()
	for _, kind := range []webhook.ErrorKind{
		webhook.ErrorDNS, webhook.ErrorConnect, webhook.ErrorTLS, webhook.ErrorTimeout, webhook.ErrorBlockedAddress,
		webhook.ErrorHTTP, webhook.ErrorInternal,
	} {
		require.NotEmpty(t, failureReason(webhook.Attempt{ErrorKind: kind}), kind)
		require.NotEmpty(t, webhook.Attempt{Finished: true, ErrorKind: kind}.Outcome(), kind)
	}
	require.Len(t, failureSentences, 7)
}

// An answer that is not HTTP was called "refused" and "not 2xx".
func TestDelivery_AnAnswerThatIsNotHTTPIsCalledSo(t *testing.T) {
	s := plainSender(t)
	out := must.Get(s.store.Webhooks.BeginAttempt(t.Context(), s.ref, webhook.Turn{RunID: "run"}))(t)
	require.NoError(t, s.store.Webhooks.FinishAttempt(t.Context(), s.ref,
		webhook.Attempt{Run: out.Run, Number: 1, ErrorKind: webhook.ErrorHTTP}, time.Hour))
	s.as(merchant.RoleViewer).get("/test/deliveries/"+s.ref.ID).shows("not an HTTP answer", "The answer was not HTTP.").hides("not 2xx")
}
