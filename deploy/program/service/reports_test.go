package service

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85/webhook"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/workflows/checkout"
)

// TestVerifier_TheSecretSaysTheMode: a report counts for the mode whose secret signed it, and only if it
// says the same itself.
func TestVerifier_TheSecretSaysTheMode(t *testing.T) {
	t.Parallel()
	live := config.Networks{Mode: checkout.ModeLive, StripeWebhookSecrets: []string{"whsec_live"}}
	test := config.Networks{Mode: checkout.ModeTest, StripeWebhookSecrets: []string{"whsec_test"}}
	verify := func(livemode bool, secret string, modes ...config.Networks) (checkout.Mode, error) {
		body := fmt.Appendf(nil, `{"id": "evt_1", "object": "event", "type": "payment_intent.succeeded", "created": 1767225600,
			"livemode": %t, "data": {"object": {"object": "payment_intent", "id": "pi_1"}}}`, livemode)
		at := time.Now()
		signature := fmt.Sprintf("t=%d,v1=%x", at.Unix(), webhook.ComputeSignature(at, body, secret))
		got, err := verifier(modes...)(body, signature)
		return got.Mode, err
	}
	for _, c := range []struct {
		livemode bool
		secret   string
		want     checkout.Mode // "": refused
	}{
		{true, "whsec_live", checkout.ModeLive}, {false, "whsec_test", checkout.ModeTest},
		{false, "whsec_live", ""}, {true, "whsec_test", ""}, {true, "whsec_other", ""}, {false, "", ""},
	} {
		got, err := verify(c.livemode, c.secret, live, test)
		require.Equal(t, c.want, got, c)
		require.Equal(t, c.want == "", err != nil, c)
	}
	_, err := verify(false, "whsec_test", live, config.Networks{Mode: checkout.ModeTest})
	require.Error(t, err, "test mode is the sandbox")
}
