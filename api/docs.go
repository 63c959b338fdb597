package api

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	files "example.com/checkout/api/web"
)

// document is the OpenAPI document, written by hand. The tests check every answer against it.
//
//go:embed openapi.yaml
var document []byte

// docs holds the pages below /docs: the guide's layout, and the reference. The reference shows the
// document with Redoc.
//
//go:embed docs
var docs embed.FS

// Values of Cache-Control. A file with a version in its name never changes. Clients ask for the
// other files again; an ETag makes that cheap.
const (
	cacheForever   = "public, max-age=31536000, immutable"
	cacheAndAskFor = "no-cache"
)

// pagePolicy lets a page load only files of this server. It allows inline styles, because Redoc
// writes styles into its page.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// asset is a file that the server answers with. Every client may read it without a key.
type asset struct {
	path      string // the route
	mediaType string
	cache     string // Cache-Control
	policy    string // Content-Security-Policy
	content   func() []byte
}

// assets are the document, the guide, the reference, and the files that these pages load.
var assets = []asset{
	{"/v1/openapi.yaml", "application/yaml", cacheAndAskFor, "default-src 'none'", nil}, // see Server.servedDocument
	{"/docs", "text/html; charset=utf-8", cacheAndAskFor, pagePolicy, guidePage},
	{"/docs/listen", "text/html; charset=utf-8", cacheAndAskFor, pagePolicy, listenPage},
	{"/docs/reference", "text/html; charset=utf-8", cacheAndAskFor, pagePolicy, docsFile("reference.html")},
	{"/docs/guide.css", "text/css; charset=utf-8", cacheAndAskFor, "default-src 'none'", docsFile("guide.css")},
	{"/docs/page.css", "text/css; charset=utf-8", cacheAndAskFor, "default-src 'none'", pageSheet},
	{"/docs/page.js", "text/javascript; charset=utf-8", cacheAndAskFor, "default-src 'none'", docsFile("page.js")},
	{"/docs/redoc-3.0.1.js", "text/javascript; charset=utf-8", cacheForever, "default-src 'none'", redoc},
}

func pageSheet() []byte { return files.Colored(docsFile("page.css")()) }

func docsFile(name string) func() []byte {
	return func() []byte {
		content, err := docs.ReadFile("docs/" + name)
		if err != nil {
			panic(err) // the file is embedded: only a wrong name can fail
		}
		return content
	}
}

// redoc returns Redoc's bundle without its addresses on another host: a logo, and icons that this
// document does not use. The page's policy would block them, and the browser would report that in
// its console.
var redoc = sync.OnceValue(func() []byte {
	otherHosts := regexp.MustCompile("https://cdn\\.redoc(ly\\.com|\\.ly)/[^`]*")
	return otherHosts.ReplaceAll(docsFile("redoc-3.0.1.js")(), []byte("data:,"))
})

// assetRoutes adds the routes of assets. Methods other than GET and HEAD are answered with 405.
func (s *Server) assetRoutes(router *mux.Router) {
	other := s.serve(func(*http.Request) (int, any, error) { return 0, nil, methodNotAllowed("GET, HEAD") })
	for _, a := range assets {
		switch a.path {
		case "/v1/openapi.yaml":
			a.content = s.servedDocument
		case "/docs":
			a.content = s.servedGuide
		}
		served := s.serveAsset(a)
		router.HandleFunc(a.path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				other.ServeHTTP(w, r)
				return
			}
			served.ServeHTTP(w, r)
		})
	}
}

// servedDocument returns the document with the public address of this API. A client that is
// generated from it then has the address to call.
func (s *Server) servedDocument() []byte {
	if s.URL == "" {
		return document
	}
	relative := []byte("servers:\n  - url: /\n    description: Where this document comes from.\n")
	return bytes.Replace(document, relative, []byte("servers:\n  - url: "+s.URL+"\n"), 1)
}

// servedGuide returns the guide with the public address of this API in its samples.
func (s *Server) servedGuide() []byte {
	if s.URL == "" {
		return guidePage()
	}
	return bytes.ReplaceAll(guidePage(), []byte("http://127.0.0.1:8080"), []byte(html.EscapeString(s.URL)))
}

// serveAsset answers with an asset, compressed when the client accepts gzip.
func (s *Server) serveAsset(a asset) http.Handler {
	packed := sync.OnceValue(func() []byte { return files.Compress(a.content()) })
	etag := sync.OnceValue(func() string {
		sum := sha256.Sum256(a.content())
		return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"` // weak: the compressed form has other bytes
	})

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		ex := exchangeFrom(r.Context())

		h := w.Header()
		h.Set("Content-Type", a.mediaType)
		h.Set("Content-Security-Policy", a.policy)
		h.Set("Cache-Control", a.cache)
		h.Set("ETag", etag())
		h.Set("Vary", "Accept-Encoding")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")

		status, content := http.StatusOK, a.content()
		switch {
		case strings.Contains(strings.Join(r.Header.Values("If-None-Match"), ","), etag()):
			status, content = http.StatusNotModified, nil
			h.Del("Content-Type")
		case files.AcceptsGzip(r):
			content = packed()
			h.Set("Content-Encoding", "gzip")
		}

		w.WriteHeader(status)
		_, _ = w.Write(content) // an error means that the client has gone
		s.log(r.Context(), r, ex, status, time.Since(began), nil)
	})
}
