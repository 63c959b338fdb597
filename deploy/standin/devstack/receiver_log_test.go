package devstack_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/devstack"
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

func TestReceiverLog_HoldsWhatCameAndWhatWasAnswered(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receiver.jsonl")
	log, err := devstack.OpenReceiverLog(path)
	require.NoError(t, err)
	ports, err := devstack.Free(2)
	require.NoError(t, err)
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	secret, body := webhook.NewSecret(), `{"id":"evt_1","type":"payout.sent"}`
	var all sync.WaitGroup
	for i := range 2 { // two receivers, one file
		r, err := devstack.StartReceiver(address(i), secret)
		require.NoError(t, err)
		t.Cleanup(r.Close)
		r.LogTo(log)
		all.Go(func() {
			for range 20 {
				require.NoError(t, postEvent(t.Context(), "http://"+address(i)+"/webhook", secret, body))
			}
		})
	}
	all.Wait()
	var got []devstack.LoggedRequest
	require.Eventually(t, func() bool { // a request is noted after its answer
		got, err = devstack.ReadReceiverLog(path)
		require.NoError(t, err)
		return len(got) == 42
	}, 10*time.Second, 10*time.Millisecond, "two starts and 40 requests")
	last := got[41]
	require.Equal(t, "whd_1", last.Delivery)
	require.Equal(t, "evt_1", last.EventID)
	require.Equal(t, "payout.sent", last.Type)
	require.True(t, last.SignatureOK)
	require.Equal(t, "32ee70eb9048bf373015e84c273ed372dd602444caca834f60c47ccde7963424", last.BodySHA256)
	require.InDelta(t, time.Now().Unix(), last.T, 5)
	require.Equal(t, http.StatusOK, last.Status)
	require.NotNil(t, last.AnsweredAt)
	require.False(t, last.AnsweredAt.Before(last.At))

	require.NoError(t, log.Close())
}

func TestReceiverLog_ShowsWhoLeftAndWhoFollowsARedirect(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receiver.jsonl")
	log, err := devstack.OpenReceiverLog(path)
	require.NoError(t, err)
	ports, err := devstack.Free(2)
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
	impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, postEvent(impatient, "http://"+at+"/webhook", secret, "{}"))
	var got []devstack.LoggedRequest
	require.Eventually(t, func() bool {
		got, err = devstack.ReadReceiverLog(path)
		return err == nil && len(got) == 3
	}, 5*time.Second, 10*time.Millisecond, "logged when the connection broke, not when the hang ends")
	release()
	require.Equal(t, http.StatusOK, got[2].Status)
	require.Nil(t, got[2].AnsweredAt)

	r.Redirect(http.StatusFound, "http://"+canary+"/inside")
	require.NoError(t, postEvent(t.Context(), "http://"+at+"/webhook", secret, "{}"))
	got, err = devstack.ReadReceiverLog(path)
	require.NoError(t, err)
	require.Len(t, got, 6, "the answer, a connection and a request")
	require.True(t, got[5].Canary)
	require.Equal(t, http.MethodGet, got[5].Method)
	require.NoError(t, log.Close())
}

func TestReceiverLog_ToleratesTheLineOfAKilledWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receiver.jsonl")
	whole := `{"at":"2026-11-20T10:00:00Z","listener":"http://127.0.0.1:1/webhook","started":true}` + "\n"
	require.NoError(t, os.WriteFile(path, []byte(whole+whole[:40]), 0o600))
	got, err := devstack.ReadReceiverLog(path)
	require.NoError(t, err)
	require.Len(t, got, 1)

	log, err := devstack.OpenReceiverLog(path)
	require.NoError(t, err)
	_, err = devstack.StartCanary("127.0.0.1:0", log)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	got, err = devstack.ReadReceiverLog(path)
	require.NoError(t, err)
	require.Len(t, got, 2, "what was written after the torn line is whole")

	require.NoError(t, os.WriteFile(path, []byte("{\n"+strings.Replace(whole, "true", "false", 1)), 0o600))
	_, err = devstack.ReadReceiverLog(path)
	require.ErrorContains(t, err, "line 1 is not a line of a receiver's log")
}
