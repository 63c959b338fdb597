package hosted

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
)

func TestFail_EveryKindHasItsStatusInTheCustomersLanguage(t *testing.T) {
	t.Parallel()
	s := newServer(Config{CheckoutURL: testURL, Log: slog.New(slog.DiscardHandler)})
	for _, kind := range failure.Kinds {
		for _, l := range languages {
			page, script := httptest.NewRecorder(), httptest.NewRecorder()
			failing := s.inLanguage(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.fail(w, r, fmt.Errorf("hush: %w", kind))
				s.failJSON(script, r, fmt.Errorf("hush: %w", kind))
			}))
			failing.ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?lang="+l.tag, nil))
			require.Equal(t, kind.Status(), page.Code)
			require.Equal(t, kind.Status(), script.Code)
			require.Contains(t, page.Body.String(), problem(&l.Texts, kind, kind).Heading)
			require.NotContains(t, page.Body.String(), "hush")
			require.NotContains(t, script.Body.String(), "hush")
		}
	}
}

func TestFail_SaysHowLongToWait(t *testing.T) {
	t.Parallel()
	v := problem(&english.Texts, failure.RateLimited, &limit.TooOftenError{Wait: 61 * time.Second})
	require.Contains(t, v.Explanation, "Wait 61\u00a0s")
}
