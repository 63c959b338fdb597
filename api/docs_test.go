package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// fetch asks for an asset, without a key.
func (f *front) fetch(path string, header ...string) *httptest.ResponseRecorder {
	f.t.Helper()
	r := newRequest(f.t, "GET", path, "")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return f.serve(r)
}

func TestDocs_AreServedWithoutAKey(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.store.Close() // nothing of it is asked
	for path, mediaType := range map[string]string{
		"/v1/openapi.yaml": "application/yaml", "/docs": "text/html; charset=utf-8", "/docs/page.css": "text/css; charset=utf-8",
		"/docs/page.js": "text/javascript; charset=utf-8", "/docs/redoc-3.0.1.js": "text/javascript; charset=utf-8",
	} {
		got := f.fetch(path, "X-Request-Id", "mine")
		require.Equal(t, 200, got.Code, path)
		require.Equal(t, mediaType, got.Header().Get("Content-Type"))
		require.Equal(t, "nosniff", got.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "mine", got.Header().Get("X-Request-Id"))
		require.Contains(t, got.Header().Get("Content-Security-Policy"), "default-src 'none'")
		require.Contains(t, f.log.String(), `"route":"`+path+`","status":200`)

		packed := f.fetch(path, "Accept-Encoding", "br, gzip")
		require.Equal(t, "gzip", packed.Header().Get("Content-Encoding"))
		unpack, err := gzip.NewReader(packed.Body)
		require.NoError(t, err)
		content, err := io.ReadAll(unpack)
		require.NoError(t, err)
		require.True(t, bytes.Equal(got.Body.Bytes(), content), "compressed it says the same")

		require.NotEmpty(t, got.Header().Get("ETag"))
		again := f.fetch(path, "If-None-Match", `"other", `+got.Header().Get("ETag"))
		require.Equal(t, 304, again.Code)
		require.Empty(t, again.Body.Bytes())
		require.Equal(t, 405, f.do("POST", path, "", "").status)
	}
	require.Equal(t, string(document), f.fetch("/v1/openapi.yaml").Body.String())
	require.Equal(t, 404, f.do("GET", "/docs/index.html", "", "").status)
	require.Equal(t, 404, f.do("GET", "/docs/redoc-LICENSE.txt", "", "").status)
}

// TestDocs_NeedNoOtherHost pins that the page loads what this server serves and
// nothing else, and runs no script that is written into it.
func TestDocs_NeedNoOtherHost(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	page := f.fetch("/docs")
	policy := page.Header().Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'; script-src 'self';")
	require.NotContains(t, policy, "http")
	require.NotContains(t, policy, "unsafe-eval")
	require.NotContains(t, page.Body.String(), "//")
	for _, script := range regexp.MustCompile(`<script[^>]*>[^<]*`).FindAllString(page.Body.String(), -1) {
		require.Regexp(t, `src="[^"]+">$`, script)
	}
	loaded := regexp.MustCompile(`(?:src|href)="(docs/[^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1)
	require.Len(t, loaded, 2)
	for _, l := range loaded {
		require.Equal(t, 200, f.fetch("/"+l[1]).Code, l[1])
	}
	require.Contains(t, f.fetch("/docs/page.js").Body.String(), `"./redoc-3.0.1.js"`)
	require.NotContains(t, f.fetch("/docs/redoc-3.0.1.js").Body.String(), "//cdn.")
}

// TestDocs_RedocIsTheOneOfNPM pins the bundle of redoc 3.0.1 as npm has it.
func TestDocs_RedocIsTheOneOfNPM(t *testing.T) {
	t.Parallel()
	bundle, err := docs.ReadFile("docs/redoc-3.0.1.js")
	require.NoError(t, err)
	sum := sha256.Sum256(bundle)
	require.Equal(t, "8c70c2de83d33e33a75b225e573d6d9fe851f066f824b44b1637d831d52d7543", hex.EncodeToString(sum[:]))
	require.Contains(t, string(bundle[:300]), "Version: 3.0.1")
	license, err := docs.ReadFile("docs/redoc-LICENSE.txt")
	require.NoError(t, err)
	require.Contains(t, string(license), "The MIT License")
}
