package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLink_FailsAsItIsTold checks a link that passes bytes, is cut, loses everything and passes
// bytes again.
func TestLink_FailsAsItIsTold(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = w.Write([]byte("hello"))
	}))
	defer server.Close()
	l, err := startLink("test", "127.0.0.1:0", server.Listener.Addr().String())
	require.NoError(t, err)
	defer l.close()
	get := func(timeout time.Duration) (string, error) {
		client := http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + l.listener.Addr().String())
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	passes := func() {
		body, err := get(10 * time.Second)
		require.NoError(t, err)
		require.Equal(t, "hello", body)
	}
	passes()
	var timeout net.Error
	l.set(linkSwallows)
	_, err = get(time.Second)
	require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "the answer is lost: %v", err)
	require.Eventually(t, func() bool { return served.Load() == 2 }, 10*time.Second, time.Millisecond, "the request had its effect")
	l.set(linkCut)
	l.set(linkPasses)
	passes()
	l.set(linkCut)
	_, err = get(10 * time.Second)
	require.False(t, err == nil || (errors.As(err, &timeout) && timeout.Timeout()), "it is told at once: %v", err)
	l.set(linkBlackHole)
	_, err = get(200 * time.Millisecond)
	require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "nobody is told: %v", err)
	l.set(linkPasses)
	passes()

	connections := func(n int) {
		require.Eventually(t, func() bool {
			open := 0
			for range l.conns.Range {
				open++
			}
			return open == n
		}, 10*time.Second, 10*time.Millisecond)
	}
	connections(0) // the earlier connections are closed
	conn, err := net.Dial("tcp", l.listener.Addr().String())
	require.NoError(t, err)
	connections(2) // both sides of one connection
	l.reset()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.False(t, err == nil || (errors.As(err, &timeout) && timeout.Timeout()), "it is reset: %v", err)
	passes()
}
