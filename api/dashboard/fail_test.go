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

// TestFail_WhoOnlyLooksMayTryAgain: nothing was done, so there is no doubt whether it was.
func TestFail_WhoOnlyLooksMayTryAgain(t *testing.T) {
	t.Parallel()
	s := newServer(Config{Store: noStore, URL: "http://dashboard.example", Log: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		method string
		kind   failure.Kind
		says   string
		again  bool
	}{
		{http.MethodGet, failure.Unavailable, "This page cannot be shown now.", true},
		{http.MethodPost, failure.Unavailable, "The outcome is unknown.", false},
		{http.MethodGet, failure.RateLimited, "Wait a minute", true},
		{http.MethodGet, failure.NotFound, "This page does not exist", false},
		{http.MethodGet, failure.Internal, "It is our fault", false},
	} {
		w := httptest.NewRecorder()
		s.fail(w, httptest.NewRequestWithContext(t.Context(), c.method, "/test/sessions?q=1", nil), c.kind)
		require.Contains(t, w.Body.String(), c.says)
		require.Equal(t, c.again, strings.Contains(w.Body.String(), `<a href="">Try again</a>`), "%s %s", c.method, c.kind)
	}
}

func TestFail_SaysWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := newServer(Config{Store: noStore, URL: "http://dashboard.example", Log: slog.New(slog.DiscardHandler)})
	for err, c := range map[error]struct {
		status int
		says   string
	}{
		checkout.ErrWrongMode:         {404, "it belongs to the other mode"},
		checkout.ErrNotPending:        {409, "The session has already ended."},
		webhook.ErrDeliveryInProgress: {409, "An attempt is running"},
		webhook.ErrReplayRate:         {409, "less than this rate"},
	} {
		w := httptest.NewRecorder()
		s.fail(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), fmt.Errorf("hush: %w", err))
		require.Equal(t, c.status, w.Code, err)
		require.Contains(t, w.Body.String(), c.says)
	}
}
