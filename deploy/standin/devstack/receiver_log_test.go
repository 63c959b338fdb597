package devstack_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/webhook"
)

// postEvent sends body as the service does, but follows redirects.
func postEvent(ctx context.Context, url, secret, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set(webhook.SignatureHeader, webhook.Sign(webhook.SecretDigest(secret), time.Now(), []byte(body)))
	req.Header.Set("X-Service-Delivery-Id", "whd_1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func TestReceiverLog_ShowsWhoLeftAndWhoFollowsARedirect(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receiver.jsonl")
	log, err := devstack.OpenReceiverLog(path)
	require.NoError(t, err)
	ports, err := pgtemp.FreePorts(2)
	require.NoError(t, err)
	at, canary := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	secret := webhook.NewSecret()
	r, err := devstack.StartReceiver(at, secret)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	r.LogTo(log)
	stop, err := devstack.StartCanary(canary, log)
	require.NoError(t, err)
	t.Cleanup(stop)

	release := r.Hang()
	impatient, leave := context.WithCancel(t.Context())
	defer leave()
	_, arrived := r.Arrivals()
	go func() { <-arrived; leave() }()
	require.Error(t, postEvent(impatient, "http://"+at+"/webhook", secret, "{}"))
	var got []devstack.LoggedRequest
	require.Eventually(t, func() bool {
		got, err = devstack.ReadReceiverLog(path)
		return err == nil && len(got) == 3
	}, time.Minute, 10*time.Millisecond, "logged when the connection broke, not when the hang ends")
	release()
	require.Equal(t, http.StatusOK, got[2].Status)
	require.Nil(t, got[2].AnsweredAt)

	r.Redirect(http.StatusFound, "http://"+canary+"/inside")
	require.NoError(t, postEvent(t.Context(), "http://"+at+"/webhook", secret, "{}"))
	require.Eventually(t, func() bool { // the receiver writes its line after its answer
		got, err = devstack.ReadReceiverLog(path)
		return err == nil && len(got) == 6
	}, time.Minute, 10*time.Millisecond, "the answer, a connection and a request")
	require.True(t, slices.ContainsFunc(got[3:], func(r devstack.LoggedRequest) bool {
		return r.Canary && r.Method == http.MethodGet
	}))
	require.NoError(t, log.Close())
}
