package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/conformance"
)

func (f *front) fetch(path string, header ...string) *httptest.ResponseRecorder {
	r := newRequest(f.t, "GET", path, "")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return f.serve(r)
}

func TestDocs_AreServedWithoutAKey(t *testing.T) {
	f := newFront(t)
	f.store.Close() // documents do not need the store
	for path, mediaType := range map[string]string{
		"/v1/openapi.yaml": "application/yaml", "/docs": "text/html; charset=utf-8", "/docs/reference": "text/html; charset=utf-8",
		"/docs/listen":   "text/html; charset=utf-8",
		"/docs/page.css": "text/css; charset=utf-8", "/docs/guide.css": "text/css; charset=utf-8",
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
	require.Equal(t, 404, f.do("GET", "/docs/reference.html", "", "").status)
	require.Equal(t, 404, f.do("GET", "/docs/guide.html", "", "").status)
	require.Equal(t, 404, f.do("GET", "/docs/redoc-LICENSE.txt", "", "").status)
}

// TestDocs_DocumentNamesTheServer: without a setting the address is relative.
func TestDocs_DocumentNamesTheServer(t *testing.T) {
	f := newFront(t)
	require.Contains(t, f.fetch("/v1/openapi.yaml").Body.String(), "servers:\n  - url: /\n")
	f.config.URL = "https://api.example.com"
	f.handler = New(f.config)
	served := f.fetch("/v1/openapi.yaml").Body.Bytes()
	require.Contains(t, string(served), "servers:\n  - url: https://api.example.com\nsecurity:")
	_, err := conformance.Parse(served)
	require.NoError(t, err)
	guide := f.fetch("/docs").Body.String()
	require.Contains(t, guide, "export CHECKOUT_API_URL=https://api.example.com\n")
	require.NotContains(t, guide, "127.0.0.1:8080")
}

// resolve returns where a link leads on the page at path.
func resolve(t *testing.T, path, link string) string {
	base, err := url.Parse(path)
	require.NoError(t, err)
	to, err := base.Parse(link)
	require.NoError(t, err)
	require.Empty(t, to.Host, "%s leads away from this server", link)
	return to.Path
}

// TestDocs_LinksOfThePagesResolve checks that each link of the guide and the reference leads to a
// heading of the page or to an address of this server.
func TestDocs_LinksOfThePagesResolve(t *testing.T) {
	f := newFront(t)
	links := 0
	for _, path := range []string{"/docs", "/docs/reference", "/docs/listen"} {
		page := f.fetch(path).Body.String()
		for _, found := range regexp.MustCompile(`<a [^>]*href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			links++
			if id, ok := strings.CutPrefix(found[1], "#"); ok {
				require.Contains(t, page, ` id="`+id+`"`)
				continue
			}
			require.Equal(t, 200, f.fetch(resolve(t, path, found[1])).Code, found[1])
		}
	}
	require.Greater(t, links, 12)
	require.Contains(t, f.fetch("/docs").Body.String(), `href="docs/reference"`)
	require.Contains(t, f.fetch("/docs/reference").Body.String(), `href="../docs"`)
}

func TestGuide_IsRenderedWhole(t *testing.T) {
	t.Parallel()
	page := string(guidePage())
	require.Equal(t, 1, strings.Count(page, "<h1"))
	headings := regexp.MustCompile(`(?m)^## `).FindAllString(string(guide), -1)
	require.Equal(t, len(headings), strings.Count(page, "<h2 id="))
	require.Equal(t, len(headings), strings.Count(page, `<li><a href="#`), "the list of sections has each")
	require.Greater(t, strings.Count(page, "<table>"), 5)
	require.Greater(t, strings.Count(page, `<pre tabindex="0"><code`), 8)
	require.NotContains(t, page, "<pre><code")
	require.NotContains(t, page, "|---")
	require.NotContains(t, page, "](")
}

func TestGuide_LinksThatWorkInTheRepositoryOnlyBecomeText(t *testing.T) {
	t.Parallel()
	page, err := renderGuide([]byte("# A\n\n## Go & b\n\n[The *reference*](openapi.yaml), [`a` file](../deploy/x.go), "+
		"[`a` [b]](c.md), [here](#go--b), [there](https://example.com/)\n\n<script>alert(1)</script>\n"), "docs", "docs/")
	require.NoError(t, err)
	require.Contains(t, string(page), `<p><a href="docs/reference">The <em>reference</em></a>, <code>a</code> file, <code>a</code> [b], `+
		`<a href="#go--b">here</a>, <a href="https://example.com/">there</a></p>`)
	require.Contains(t, string(page), `<li><a href="#go--b">Go &amp; b</a></li>`)
	require.NotContains(t, string(page), "<script>")
}

// TestDocs_RedocIsTheOneOfNPM compares the bundle with redoc 3.0.1 on npm.
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

// TestGuide_ItsSheetsSetEveryColorThatTheyUse also finds a color that is set in another sheet and in colors.css.
func TestGuide_ItsSheetsSetEveryColorThatTheyUse(t *testing.T) {
	t.Parallel()
	sheet := string(slices.Concat(pageSheet(), docsFile("guide.css")()))
	used := regexp.MustCompile(`var\((--[a-z-]+)\)`).FindAllStringSubmatch(sheet, -1)
	require.Greater(t, len(used), 10)
	for _, property := range used {
		require.Equal(t, 2, strings.Count(sheet, " "+property[1]+": "), "%s, once in each color scheme", property[1])
	}
}
