package hosted

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatic_MayBeKeptByItsHash(t *testing.T) {
	t.Parallel()
	s := newServer(Config{CheckoutURL: "http://localhost:8080"})
	handler := s.handler()
	for name, kind := range map[string]string{"checkout.css": "text/css", "checkout.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, s.asset(name), nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Header().Get("Content-Type"), kind)
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
		w = httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/static/"+name+"?v=old", nil))
		require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
	}
}

func TestFiles_LoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	for name := range files {
		content := strings.ReplaceAll(string(files.Content(name)), "http://www.w3.org/2000/svg", "")
		require.NotContains(t, content, "//"+"cdn", name)
		require.NotContains(t, content, "http://", name)
		require.NotContains(t, content, "https://", name)
		require.NotContains(t, content, "@import", name)
		require.NotContains(t, content, "url(", name)
	}
	entries, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, e := range entries {
		content, err := templateFiles.ReadFile("templates/" + e.Name())
		require.NoError(t, err)
		for _, forbidden := range []string{"http:", "https:", " style=", "onclick=", "<style", "<script>"} {
			require.NotContains(t, string(content), forbidden, e.Name())
		}
	}
}
