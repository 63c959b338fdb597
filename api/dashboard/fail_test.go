package dashboard

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/failure"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestFail_EveryKindHasItsStatusAndWords(t *testing.T) {
	t.Parallel()
	s := newServer(Config{Store: noStore, URL: "http://dashboard.example", Log: slog.New(slog.DiscardHandler)})
	for _, kind := range failure.Kinds {
		w := httptest.NewRecorder()
		s.fail(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), fmt.Errorf("hush: %w", kind))
		require.Equal(t, kind.Status(), w.Code)
		require.NotEmpty(t, problems[kind].Title, kind)
		require.NotEmpty(t, problems[kind].Text, kind)
		require.Contains(t, w.Body.String(), "<h1>"+problems[kind].Title)
		require.NotContains(t, w.Body.String(), "hush")
	}
}

// TestFail_SaysWhatHasChangedAndWhoMayTryAgain: who only looks has done nothing, so there is no doubt whether it was
// done.
func TestFail_SaysWhatHasChangedAndWhoMayTryAgain(t *testing.T) {
	t.Parallel()
	s := newServer(Config{Store: noStore, URL: "http://dashboard.example", Log: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		method string
		err    error
		status int
		says   string
		again  bool
	}{
		{http.MethodGet, failure.Unavailable, 503, "This page cannot be shown now.", true},
		{http.MethodPost, failure.Unavailable, 503, "The outcome is unknown.", false},
		{http.MethodGet, failure.RateLimited, 429, "Wait a minute", true},
		{http.MethodGet, failure.NotFound, 404, "This page does not exist", false},
		{http.MethodGet, failure.Internal, 500, "It is our fault", false},
		{http.MethodGet, checkout.ErrWrongMode, 404, "it belongs to the other mode", false},
		{http.MethodGet, checkout.ErrNotPending, 409, "The session has already ended.", false},
		{http.MethodGet, webhook.ErrDeliveryInProgress, 409, "An attempt is running", false},
		{http.MethodGet, webhook.ErrReplayRate, 409, "less than this rate", false},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/test/sessions?q=1", nil)
		s.fail(w, r, fmt.Errorf("hush: %w", c.err))
		require.Equal(t, c.status, w.Code, c.err)
		require.Contains(t, w.Body.String(), c.says)
		require.Equal(t, c.again, strings.Contains(w.Body.String(), `<a href="">Try again</a>`), "%s %s", c.method, c.err)
	}
}
